"""Starts, stops and waits for hosts, for people and agents. Which host a name means is ``placement``'s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cellwright.engine.engine import Engine
from cellwright.engine.hosts import Hosts, link_name, place_name
from cellwright.engine.placement import LOCAL, HostName, parse_host, recorded_host
from cellwright.engine.providers import HostInfo, ShapeRequest
from cellwright.engine.session import Session
from cellwright.errors import ShapeRefused, UnknownHost

__all__ = ["StoppedHost", "find_hosts", "meant_host", "start_host", "stop_host", "wait_for_host"]


async def start_host(engine: Engine, requested: str | None, request: ShapeRequest) -> HostInfo:
    """Start this machine's host, or request an allocation. Returns the host also where it is there already.

    Raises:
        ShapeRefused: SLURM has no such shape, or the name is taken by an allocation of another shape.
        LimitReached: one more allocation would be too many.
        SlurmFailed: SLURM refused, or does not answer.
        HostCannot: that kind of host is not started from here.
    """
    hosts, name = engine.hosts, engine.hosts.host_name(requested)
    if name.kind != "slurm" and not request.says_nothing:
        raise ShapeRefused(
            f"Host {name} has the shape it has: partition, cpus, mem and so on are SLURM's",
            hint="Leave them out, or ask for host `slurm`",
        )
    if name.kind == LOCAL:
        await hosts.local.connect()
        return await hosts.local_info()
    return await hosts.provider(name.kind).start(name.which, request)


@dataclass(frozen=True, slots=True)
class StoppedHost:
    """A host after it was stopped, and what ended with it."""

    info: HostInfo
    sessions: tuple[str, ...] = ()
    """The sessions whose kernels were there; they are suspended now."""
    executions: tuple[str, ...] = ()
    """What ran or waited in them."""


async def stop_host(engine: Engine, requested: str | None) -> StoppedHost:
    """End a host with its kernels, and return once they are gone, or SLURM has taken the order.

    The sessions on it are kept and can be resumed, elsewhere too.

    Raises:
        UnknownHost: there is none of that name.
        SlurmFailed: SLURM did not take it.
        HostCannot: it is not ours to stop.
    """
    hosts, name = engine.hosts, engine.hosts.host_name(requested)
    active = [_Active.of(session) for session in engine.sessions("active")]
    if name.kind != LOCAL:
        info = await hosts.provider(name.kind).stop(name.which)
        return _stopped(info, [one for one in active if info.name in one.places])
    there = [one for one in active if LOCAL in one.places and one.session.host is hosts.local]
    for one in there:
        await one.session.suspend()
    await hosts.local.stop()
    return _stopped(await hosts.local_info(), there)


@dataclass(frozen=True, slots=True)
class _Active:
    """A session with a kernel, as it was before its host was stopped."""

    session: Session
    places: tuple[str, ...]
    running: tuple[str, ...]

    @classmethod
    def of(cls, session: Session) -> _Active:
        places = link_name(session.record), place_name(session.record)
        # A kernel on a Jupyter server is reached through this machine's host, and is not on it.
        kind = recorded_host(session.record.host).kind
        kept = tuple(place for place in places if place != LOCAL or kind == LOCAL)
        return cls(session, kept, tuple(execution.id for execution in session.runs.live))


def _stopped(info: HostInfo, ended: Sequence[_Active]) -> StoppedHost:
    running = [execution_id for one in ended for execution_id in one.running]
    return StoppedHost(info, tuple(one.session.id for one in ended), tuple(running))


async def find_hosts(hosts: Hosts, requested: str | None) -> list[HostInfo]:
    """Every host, or the requested one, also where it has ended.

    Raises:
        UnknownHost: there is none of that name.
    """
    if requested is None:
        return await hosts.list()
    name = hosts.host_name(requested)
    found = [one for one in await hosts.list(ended=True) if _means(one, name)]
    if not found:
        raise UnknownHost(
            f"There is no host {str(name)!r}", hint="`cellwright host list` lists those there are"
        )
    alive = [one for one in found if one.state != "ended"]
    return alive or found[-1:]


def meant_host(hosts: Hosts, requested: str | None) -> str:
    """The name of the requested host; where no allocation is named, the only one, or the one called default.

    Raises:
        UnknownHost: there is none, or more than one could be meant.
    """
    name = hosts.host_name(requested)
    return hosts.provider(name.kind).resolve(name.which) if name.kind != LOCAL else str(name)


async def wait_for_host(hosts: Hosts, name: str, report: Callable[[str], None]) -> None:
    """Wait until a host answers, or has ended and its sessions know; ``report`` is called with each new state in words."""
    if name == LOCAL:
        await hosts.local.connect()
    else:
        await hosts.provider(parse_host(name).kind).wait(name, report)


def _means(info: HostInfo, name: HostName) -> bool:
    if info.kind != name.kind:
        return False
    return name.which is None or str(name) in (info.name, info.called) or name.which == str(info.job_id)
