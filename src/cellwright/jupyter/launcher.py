"""Starts kernels on Jupyter servers, or attaches to those that are there: the third way (see forkserver, kernelspecs).

Such a kernel runs none of our code and is confined by nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.abc

from cellwright.errors import KernelGone, KernelStartError
from cellwright.hosts.protocol import JupyterKernel, JupyterServer
from cellwright.jupyter._channels import Channels
from cellwright.jupyter._hubs import Reached, reach
from cellwright.jupyter._lifetime import RemoteKernel, RemoteLifetime, silent
from cellwright.jupyter._rest import Api
from cellwright.kernels.kernel import Kernel, StartedBy
from cellwright.kernels.processes import KernelProcess

__all__ = ["JupyterLauncher", "fitting_spec"]


class JupyterLauncher:
    """Starts kernels on one server; they live in its tasks."""

    def __init__(self, server: JupyterServer, *, start_timeout_s: float) -> None:
        self._server = server
        self._start_timeout_s = start_timeout_s
        self._reached: Reached | None = None
        self._reaching = anyio.Lock()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the kernels' tasks until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                task_status.started()
                await anyio.sleep_forever()
        finally:
            if self._reached is not None:
                with anyio.CancelScope(shield=True):
                    await self._reached.close()

    async def launch(self, wanted: JupyterKernel, directory: Path) -> Kernel:
        """A kernel that answers.

        Raises:
            KernelGone: the one to attach to is not there any more.
            KernelStartError: it could not be had; what was started for it has been ended, what was there goes on.
        """
        api = await self._api()
        offered = await api.kernelspecs()
        tenancy, started_by = await _have(api, wanted, offered)
        kernel: Kernel = await self._tasks.start(self._tend, tenancy, started_by, wanted, directory)
        kernel.remote_languages = tuple(sorted(set(_languages(offered).values()) - {""}))
        return kernel

    async def _api(self) -> Api:
        async with self._reaching:
            if self._reached is None:
                self._reached = await reach(self._server)
            else:
                await self._reached.ensure()
            return self._reached.api

    async def _tend(
        self,
        tenancy: RemoteKernel,
        started_by: StartedBy,
        wanted: JupyterKernel,
        directory: Path,
        *,
        task_status: anyio.abc.TaskStatus[Kernel],
    ) -> None:
        """Connect, tell the kernel to the starter, and stay with it to its end."""
        life = RemoteLifetime(tenancy)
        client = Channels(life, wanted.session_id or uuid4().hex, unreachable_s=self._server.unreachable_s)
        kernel: Kernel | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(life.watch)
                kernel = await self._bring_up(life, client, started_by, directory, tasks)
                if kernel is not None:
                    task_status.started(kernel)
                    client.close((await life.wait()).message)
                else:
                    await life.wait()
                tasks.cancel_scope.cancel()
        finally:
            if kernel is not None:
                kernel.over.set()
        if kernel is None:
            raise _start_error(life, client, self._server.name)

    async def _bring_up(
        self,
        life: RemoteLifetime,
        client: Channels,
        started_by: StartedBy,
        directory: Path,
        tasks: anyio.abc.TaskGroup,
    ) -> Kernel | None:
        with anyio.move_on_after(self._start_timeout_s) as starting:
            tasks.start_soon(_cancel_at_end, life, starting)
            info = await tasks.start(client.run)
            kernel = Kernel(
                process=life,
                client=client,
                info=info,
                started_by=started_by,
                directory=directory,
                interrupt_by="message",
                ours=False,
            )
            kernel.owner = _RemoteOwner(directory)
            kernel.remote = (life.tenancy.kernel_id, client.session_id)
            kernel.remote_ours = life.tenancy.ours
            return kernel
        if started_by == "attached":
            life.told(silent(self._start_timeout_s))
        else:
            life.kill_tree(f"it did not answer within {self._start_timeout_s:g} s")
        return None


async def _cancel_at_end(life: RemoteLifetime, scope: anyio.CancelScope) -> None:
    await life.wait()
    scope.cancel()


async def _have(
    api: Api, wanted: JupyterKernel, offered: Mapping[str, Any]
) -> tuple[RemoteKernel, StartedBy]:
    """The kernel on its server, found or started."""
    if (tenancy := await _found(api, wanted)) is not None:
        if wanted.fresh:
            await api.restart_kernel(tenancy.kernel_id)
        return tenancy, "attached"
    name = fitting_spec(offered, wanted.name, wanted.language, api.name)
    if wanted.path is not None:
        return RemoteKernel(api, await api.start_session(wanted.path, name), ours=True), "server"
    return RemoteKernel(api, await api.start_kernel(name), ours=True), "server"


async def _found(api: Api, wanted: JupyterKernel) -> RemoteKernel | None:
    """The kernel that is there already: the one that is named, or the notebook's."""
    if wanted.existing is not None:
        if await api.kernel(wanted.existing) is None:
            raise KernelGone(
                f"The Jupyter server {api.name!r} has no kernel {wanted.existing}: it was culled, or somebody ended it",
                hint="Run the cells again in a new one there: `notebook_replay`, its argument `host` without the kernel's id",
            )
        return RemoteKernel(api, wanted.existing, wanted.ours)
    if wanted.path is not None and (found := await api.find_session(wanted.path)) is not None:
        return RemoteKernel(api, found, ours=False)
    return None


def fitting_spec(offered: Mapping[str, Any], name: str, language: str, server: str) -> str:
    """The kernelspec to start: the one that is named, else one for the language, the server's own choice first.

    Raises:
        KernelStartError: the server has none.
    """
    languages = _languages(offered)
    default = str(offered.get("default") or "")
    if name:
        fits = [one for one in languages if one == name]
    else:
        fits = sorted(
            (one for one in languages if languages[one] == language), key=lambda one: one != default
        )
    if fits:
        return fits[0]
    wanted = f"named {name!r}" if name else f"for {language}"
    there = ", ".join(f"{one} ({languages[one]})" for one in sorted(languages)) or "none"
    raise KernelStartError(
        f"The Jupyter server {server!r} has no kernel {wanted}; it has: {there}",
        hint="Use one of those, or have the kernel installed where the server runs",
    )


def _languages(offered: Mapping[str, Any]) -> dict[str, str]:
    """The language of each kernelspec."""
    specs: Mapping[str, Any] = offered.get("kernelspecs") or {}
    told = {name: ((spec or {}).get("spec") or {}).get("language") for name, spec in specs.items()}
    return {name: str(language or "").lower() for name, language in told.items()}


class _RemoteOwner:
    """The owner of a kernel on a server: nothing of it is ours."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def joined(self) -> None:
        """Nothing is made for it."""

    async def left(self, process: KernelProcess) -> None:
        """Nothing is left of it."""


def _start_error(life: RemoteLifetime, client: Channels, server: str) -> KernelStartError:
    end, hint = life.exit, "See the server's log, or raise the setting start_timeout_s"
    if end is not None and end.cause == "unreachable":
        hint = end.next_step
    told = end.message if end is not None else "it does not end"
    trouble = f" The connection: {client.trouble}." if client.trouble else ""
    return KernelStartError(
        f"The kernel on the Jupyter server {server!r} could not be had. {told}.{trouble}", hint=hint
    )
