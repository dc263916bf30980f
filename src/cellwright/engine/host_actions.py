"""What people and agents may do with hosts: have one started, stopped, waited for. Which one is meant is ``placement``'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import anyio
import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cellwright.engine.allocations import default_shape
from cellwright.engine.engine import Engine
from cellwright.engine.hosts import HostInfo, Hosts
from cellwright.engine.placement import LOCAL, HostName, parse_host
from cellwright.errors import HostCannot, HostPending, HostUnreachable, ShapeRefused, UnknownHost
from cellwright.hosts.slurm.directories import Allocation
from cellwright.hosts.slurm.fleet import DEFAULT_NAME, PREFIX, host_name
from cellwright.hosts.slurm.shapes import Shape
from cellwright.hosts.slurm.states import Running
from cellwright.settings import Settings

__all__ = [
    "ShapeRequest",
    "find_hosts",
    "meant_host",
    "requested_shape",
    "start_host",
    "stop_host",
    "wait_for_host",
]

DEBUG_NAME = "debug"
_STARTING_S = 0.2
_SETTLING_S = 20.0


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Text = Annotated[str | None, BeforeValidator(_text)]


class ShapeRequest(BaseModel):
    """What one allocation is to be beyond what the settings say; ``debug`` is a short one to try things out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: str | None = None
    gres: str | None = None
    cpus: int | None = None
    mem: Text = None
    time: Text = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    modules: tuple[str, ...] | None = Field(default=None, max_length=50)
    nodes: int | None = None
    debug: bool = False

    @property
    def says_nothing(self) -> bool:
        return self == ShapeRequest()


def requested_shape(settings: Settings, request: ShapeRequest) -> Shape:
    """What SLURM is to be asked for.

    Raises:
        ShapeRefused: it cannot be asked for like that.
    """
    base: dict[str, Any] = {}
    if request.debug:
        base["time"] = settings.slurm_debug_time
        if settings.slurm_debug_partition is not None:
            base["partition"] = settings.slurm_debug_partition
    said = request.model_dump(exclude={"debug", "mem"}, exclude_none=True)
    if request.mem is not None:
        said["memory"] = request.mem
    # Made anew, not replaced in: only then is it checked.
    return Shape(**{**msgspec.structs.asdict(default_shape(settings)), **base, **said})


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
    if name.kind == "jupyter":
        return await _server(hosts, name)
    if name.kind == "local":
        await hosts.local.connect()
        return (await hosts.list())[0]
    allocations = hosts.require_fleet().allocations
    which = name.which or (DEBUG_NAME if request.debug else DEFAULT_NAME)
    living = next((one for one in allocations.all() if one.name == which and one.lasting), None)
    if living is None or not request.says_nothing:
        living = await allocations.start(which, requested_shape(engine.settings, request))
    return await hosts.about(living)


async def stop_host(engine: Engine, asked: str | None) -> HostInfo:
    """Let a host go with its kernels; the sessions on it are kept and can be resumed, elsewhere too.

    Raises:
        UnknownHost: there is none of that name.
        SlurmFailed: SLURM did not take it.
        HostCannot: it is not ours to stop.
    """
    hosts, name = engine.hosts, engine.hosts.wanted(asked)
    if name.kind == "slurm":
        allocations = hosts.require_fleet().allocations
        stopped = await allocations.stop(name.which or _only(allocations.all()).key)
        return await hosts.about(stopped)
    if name.kind == "jupyter":
        raise HostCannot(
            "A Jupyter server is not ours to stop",
            hint="Suspend or delete the sessions that have kernels there",
        )
    for session in engine.sessions("active"):
        if session.host is hosts.local and parse_host(session.record.host).kind == "local":
            await session.suspend()
    return (await hosts.list())[0]


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
    if name.kind != "slurm":
        return str(name)
    allocations = hosts.require_fleet().allocations
    if name.which is not None:
        return host_name(allocations.find(name.which))
    return host_name(_only(allocations.all() or allocations.all(ended=True)[-1:]))


async def wait_for_host(hosts: Hosts, name: str, tell: Callable[[str], None]) -> None:
    """Wait until a host answers, or has ended and its sessions know; ``tell`` is called with each new state in words."""
    if name == LOCAL:
        await hosts.local.connect()
    if not name.startswith(PREFIX):
        return
    allocations = hosts.require_fleet().allocations
    while (allocation := allocations.find(name.removeprefix(PREFIX))).alive:
        tell(allocations.told(allocation).text)
        if not isinstance(allocation.state, Running):
            await allocations.news()
        elif await _answers(hosts, allocation):
            return
    # SLURM may tell of an end a moment before the link does, which is what sessions are told by.
    with anyio.move_on_after(_SETTLING_S):
        while hosts.kernels_on(name):  # noqa: ASYNC110  # what a link has heard it tells sessions alone
            await anyio.sleep(_STARTING_S)


async def _answers(hosts: Hosts, allocation: Allocation) -> bool:
    try:
        await hosts.named(host_name(allocation)).connect()
    except (HostPending, HostUnreachable):
        await anyio.sleep(_STARTING_S)
        return False
    return True


def _only(candidates: list[Allocation]) -> Allocation:
    """The allocation that is meant where none is named."""
    if not candidates:
        raise UnknownHost("There is no allocation", hint="`cellwright start` asks for one")
    # One that is ending, or has ended, is meant only where there is no other.
    candidates = [one for one in candidates if one.lasting] or candidates
    named = [one for one in candidates if one.name == DEFAULT_NAME]
    if len(candidates) > 1 and not named:
        names = ", ".join(one.name for one in candidates)
        raise UnknownHost(f"There are several allocations: {names}", hint="Name one")
    return (named or candidates)[-1]


async def _server(hosts: Hosts, name: HostName) -> HostInfo:
    found = [one for one in await hosts.list() if _means(one, name)]
    if not found:
        raise HostCannot(
            f"No Jupyter server is known as {str(name)!r}", hint="Name its URL and token in the settings"
        )
    return found[0]


def _means(info: HostInfo, name: HostName) -> bool:
    if info.kind != name.kind:
        return False
    return name.which is None or str(name) in (info.name, info.called) or name.which == str(info.job_id)
