"""What people and agents may do with hosts: have one started, stopped, waited for. Which one is meant is ``placement``'s."""

from __future__ import annotations

from collections.abc import Callable

from cellwright.engine.engine import Engine
from cellwright.engine.hosts import Hosts
from cellwright.engine.placement import LOCAL, HostName, parse_host
from cellwright.engine.providers import HostInfo, ShapeRequest
from cellwright.errors import ShapeRefused, UnknownHost

__all__ = ["find_hosts", "meant_host", "start_host", "stop_host", "wait_for_host"]


async def start_host(engine: Engine, asked: str | None, request: ShapeRequest) -> HostInfo:
    """Have a host: this machine's up, or an allocation asked for. One that is there already is told.

    Raises:
        ShapeRefused: SLURM cannot be asked for that, or the name is taken by an allocation of another shape.
        LimitReached: one more allocation would be too many.
        SlurmFailed: SLURM refused, or does not answer.
        HostCannot: that kind of host is not started from here.
    """
    hosts, name = engine.hosts, engine.hosts.wanted(asked)
    if name.kind != "slurm" and not request.says_nothing:
        raise ShapeRefused(
            f"Host {name} has the shape it has: partition, cpus, mem and so on are SLURM's",
            hint="Leave them out, or ask for host `slurm`",
        )
    if name.kind == LOCAL:
        await hosts.local.connect()
        return await hosts.local_info()
    return await hosts.provider(name.kind).start(name.which, request)


async def stop_host(engine: Engine, asked: str | None) -> HostInfo:
    """Let a host go with its kernels; the sessions on it are kept and can be resumed, elsewhere too.

    Raises:
        UnknownHost: there is none of that name.
        SlurmFailed: SLURM did not take it.
        HostCannot: it is not ours to stop.
    """
    hosts, name = engine.hosts, engine.hosts.wanted(asked)
    if name.kind != LOCAL:
        return await hosts.provider(name.kind).stop(name.which)
    for session in engine.sessions("active"):
        if session.host is hosts.local and parse_host(session.record.host).kind == LOCAL:
            await session.suspend()
    return await hosts.local_info()


async def find_hosts(hosts: Hosts, asked: str | None) -> list[HostInfo]:
    """Every host, or the one that is asked for, also where it has ended.

    Raises:
        UnknownHost: there is none of that name.
    """
    if asked is None:
        return await hosts.list()
    name = hosts.wanted(asked)
    found = [one for one in await hosts.list(ended=True) if _means(one, name)]
    if not found:
        raise UnknownHost(f"There is no host {str(name)!r}", hint="`cellwright hosts` lists those there are")
    alive = [one for one in found if one.state != "ended"]
    return alive or found[-1:]


def meant_host(hosts: Hosts, asked: str | None) -> str:
    """The name of the host that is asked for; where no allocation is named, the only one, or the one called default.

    Raises:
        UnknownHost: there is none, or more than one could be meant.
    """
    name = hosts.wanted(asked)
    return hosts.provider(name.kind).resolve(name.which) if name.kind != LOCAL else str(name)


async def wait_for_host(hosts: Hosts, name: str, tell: Callable[[str], None]) -> None:
    """Wait until a host answers, or has ended and its sessions know; ``tell`` is called with each new state in words."""
    if name == LOCAL:
        await hosts.local.connect()
    else:
        await hosts.provider(parse_host(name).kind).wait(name, tell)


def _means(info: HostInfo, name: HostName) -> bool:
    if info.kind != name.kind:
        return False
    return name.which is None or str(name) in (info.name, info.called) or name.which == str(info.job_id)
