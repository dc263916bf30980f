"""Jupyter servers as the engine's hosts. Their kernels are reached through this machine's host (``launcher``)."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.abc

from cellwright.engine.hosts import Hosts
from cellwright.engine.placement import LOCAL, HostName, parse_host, refuse_language, server_and_kernel
from cellwright.engine.providers import HostInfo, ShapeRequest
from cellwright.engine.records import SessionRecord
from cellwright.errors import HostCannot, UnknownHost
from cellwright.hosts import HostTransport
from cellwright.hosts.protocol import JupyterKernel
from cellwright.jupyter._servers import jupyter_kernelspec, jupyter_server, jupyter_servers
from cellwright.settings.model import JupyterSettings

__all__ = ["JupyterHosts", "server_kernel"]


class JupyterHosts:
    """Every server of the settings (see ``engine.providers.HostProvider``)."""

    def __init__(self, settings: JupyterSettings, hosts: Hosts) -> None:
        self._settings = settings
        self._hosts = hosts

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Nothing: servers are asked when somebody wants to know."""
        task_status.started()

    async def unconfigured(self) -> str | None:
        """That code goes to another server only where a session or the settings name it."""
        return "Jupyter servers have to be named"

    def check(self, which: str | None) -> None:
        """Refuse a server that the settings do not tell of, or whose address cannot be used."""
        jupyter_server(self._settings, server_and_kernel(which)[0])

    async def choose(self, which: str | None) -> str:
        """This machine's host, which keeps the connection."""
        return LOCAL

    def transport(self, name: str) -> HostTransport:
        """Refused: a server is no host of ours.

        Raises:
            HostCannot: always.
        """
        raise HostCannot(f"{name} is reached through this machine's host", hint="Ask for host `local`")

    def kernel(self, record: SessionRecord, language: str, *, main: bool, fresh: bool) -> JupyterKernel:
        """The kernel that a session needs on its server; see ``server_kernel``."""
        return server_kernel(record, self._settings, language, main=main, fresh=fresh)

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        """Every server of the settings; those that do not answer are ``away``."""
        return [await self._info(which) for which in jupyter_servers(self._settings)]

    async def _info(self, which: str | None) -> HostInfo:
        from cellwright.jupyter._hubs import look_at  # an extra

        name = str(HostName("jupyter", which))
        try:
            health = await look_at(jupyter_server(self._settings, which))
        except UnknownHost as error:
            return HostInfo(name, "jupyter", "away", error.message, error.hint)
        state = "ready" if health.answers else "away"
        kernels = self._hosts.kernels_on(name)
        return HostInfo(name, "jupyter", state, health.detail, health.next_step, kernels=kernels)

    async def start(self, which: str | None, request: ShapeRequest) -> HostInfo:
        """The server as it is: it is not ours to start.

        Raises:
            HostCannot: the settings do not tell of it.
        """
        named = [one for one in jupyter_servers(self._settings) if which in (None, one)]
        if not named:
            name = str(HostName("jupyter", which))
            raise HostCannot(
                f"No Jupyter server is known as {name!r}", hint="Name its URL and token in the settings"
            )
        return await self._info(named[0])

    async def stop(self, which: str | None) -> HostInfo:
        """Refused.

        Raises:
            HostCannot: always.
        """
        raise HostCannot(
            "A Jupyter server is not ours to stop",
            hint="Suspend or delete the sessions that have kernels there",
        )

    def resolve(self, which: str | None) -> str:
        """The server's whole name."""
        return str(HostName("jupyter", which))

    async def wait(self, name: str, tell: Callable[[str], None]) -> None:
        """Nothing: a server is there or not."""


def server_kernel(
    record: SessionRecord, settings: JupyterSettings, language: str, *, main: bool, fresh: bool = False
) -> JupyterKernel:
    """The kernel that a session needs there for a language; the main one is found again where it lives on.

    A ``fresh`` one is empty, also where it is one that others have as well.

    Raises:
        UnknownHost: the settings do not tell of that server.
        HostCannot: no kernel there runs that language.
    """
    refuse_language(record, language)
    name, kernel_id = server_and_kernel(parse_host(record.host).which)
    server = jupyter_server(settings, name)
    if main and record.remote is not None:
        existing, session_id = record.remote
        return JupyterKernel(
            server,
            language=language,
            existing=existing,
            # What an earlier connection has missed is nothing to an empty one.
            session_id=None if fresh else session_id,
            ours=record.remote_ours,
            fresh=fresh,
        )
    if main and kernel_id is not None:
        return JupyterKernel(server, language=language, existing=kernel_id, fresh=fresh)
    # Whoever opens the notebook there finds the same kernel.
    path = record.there[1] if main and record.there is not None and record.there[0] == (name or "") else None
    spec = jupyter_kernelspec(settings, name) if main else ""
    return JupyterKernel(server, name=spec, path=path, language=language, fresh=fresh)
