"""A kind of host: a second host process on this machine. A real one would reach another machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.abc

from cellwright.engine.hosts import Hosts
from cellwright.engine.providers import HostInfo, HostKindPlugin, ShapeRequest
from cellwright.engine.records import SessionRecord
from cellwright.errors import HostCannot, UnknownHost
from cellwright.hosts import HostTransport, LocalTransport
from cellwright.hosts.local import HostPaths
from cellwright.hosts.protocol import HostOptions, KernelKind
from cellwright.settings import Settings

CELLWRIGHT_API = 1


class NearbyHosts:
    """The one host of this kind."""

    def __init__(self, storage: Path, hosts: Hosts) -> None:
        self._paths = HostPaths(storage / "nearby")
        self._hosts = hosts

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    async def unconfigured(self) -> str | None:
        return "It has to be named"

    def check(self, which: str | None) -> None:
        if which is not None:
            raise UnknownHost(f"There is no host nearby:{which}", hint="Ask for host `nearby`")

    async def choose(self, which: str | None) -> str:
        return "nearby"

    def transport(self, name: str) -> HostTransport:
        return LocalTransport(self._paths)

    def kernel(self, record: SessionRecord, language: str, *, main: bool, fresh: bool) -> KernelKind | None:
        return None  # its host starts kernels as this machine's does

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        return [
            HostInfo("nearby", "nearby", "ready", "beside this one", kernels=self._hosts.kernels_on("nearby"))
        ]

    async def start(self, which: str | None, request: ShapeRequest) -> HostInfo:
        return (await self.list())[0]

    async def stop(self, which: str | None) -> HostInfo:
        raise HostCannot("It ends by itself once it has no kernels", hint="Delete its sessions")

    def resolve(self, which: str | None) -> str:
        self.check(which)
        return "nearby"

    async def wait(self, name: str, tell: Callable[[str], None]) -> None:
        """Nothing: it is there at once."""


def make(
    settings: Settings, hosts: Hosts, options: HostOptions, environment: Mapping[str, str]
) -> NearbyHosts:
    """The hosts of this kind, for one engine."""
    return NearbyHosts(settings.storage, hosts)


NEARBY = HostKindPlugin(make)
