"""The port of hosts beside this machine's. The engine owns it; plugins of the kind ``hosts`` implement it, SLURM and Jupyter among
them; ``assembly`` puts them in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import anyio
import anyio.abc
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cellwright.engine.placement import HostKind
from cellwright.engine.records import SessionRecord
from cellwright.hosts import HostTransport
from cellwright.hosts.protocol import HostOptions, KernelKind, Resources
from cellwright.settings import Settings

if TYPE_CHECKING:
    from cellwright.engine.hosts import Hosts
    from cellwright.engine.journal import Subscription
    from cellwright.engine.records import Recorder
    from cellwright.engine.remote_documents import DocumentMirror

__all__ = ["HostInfo", "HostKindPlugin", "HostProvider", "ShapeRequest"]


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


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What is to be known of a host by whoever chooses one."""

    name: str
    kind: HostKind
    state: str
    """In a word: ``ready``, ``idle`` (starts on need), ``pending``, ``away`` (out of reach), ``ending``, ``ended``."""
    detail: str = ""
    """The same in a sentence."""
    next_step: str | None = None
    kernels: int = 0
    capacity: int | None = None
    """How many kernels fit; None where that is not known."""
    resources: Resources | None = None
    expires_at: float | None = None
    job_id: int | None = None
    called: str | None = None
    """A shorter name that means it as well: ``slurm:default``."""
    directory: str | None = None
    """Where an allocation keeps its log and its journal."""


class HostProvider(Protocol):
    """The hosts of one kind. ``which`` is one of them, as it follows the kind in a host's name; None where none is named."""

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep up with the hosts while this runs."""
        ...

    async def unconfigured(self) -> str | None:
        """Why sessions that name no host do not go there; None where they may."""
        ...

    def check(self, which: str | None) -> None:
        """Refuse a host that there cannot be.

        Raises:
            UnknownHost: none is called that.
        """
        ...

    async def choose(self, which: str | None) -> str:
        """The name of the link to the host on which a session's next kernel is to start.

        Raises:
            HostPending: it waits for its turn.
            LimitReached: one more would be too many.
        """
        ...

    def transport(self, name: str) -> HostTransport:
        """How the host of a link is reached, also one that is gone."""
        ...

    def kernel(self, record: SessionRecord, language: str, *, main: bool, fresh: bool) -> KernelKind | None:
        """The kernel on another server that this machine's host is to use; None where a kernel of ours is started.

        A ``fresh`` one is empty, also where it is one that others have as well.
        """
        ...

    async def list(self, *, ended: bool = False) -> list[HostInfo]:
        """Every host there is; also those that ``ended``."""
        ...

    async def start(self, which: str | None, request: ShapeRequest) -> HostInfo:
        """Have a host; one that is there already is told."""
        ...

    async def stop(self, which: str | None) -> HostInfo:
        """Let a host go with its kernels.

        Raises:
            HostCannot: it is not ours to stop.
        """
        ...

    def resolve(self, which: str | None) -> str:
        """The whole name of the host that is meant.

        Raises:
            UnknownHost: there is none, or more than one could be meant.
        """
        ...

    async def wait(self, name: str, tell: Callable[[str], None]) -> None:
        """Wait until a host answers, or has ended and its sessions know; ``tell`` is called with each new state in words."""
        ...


MakeHosts: TypeAlias = "Callable[[Settings, Hosts, HostOptions, Mapping[str, str]], HostProvider]"
MakeMirror: TypeAlias = """Callable[
    [Settings, Recorder, Callable[[str], AbstractContextManager[Subscription]], anyio.abc.TaskGroup], DocumentMirror
]"""


@dataclass(frozen=True, slots=True)
class HostKindPlugin:
    """How a kind of host is registered. What is heavy is imported when ``make`` is called."""

    make: MakeHosts
    """Makes the hosts of this kind, of an engine; the last argument is what kernels get of the environment."""
    program: str | None = None
    """The program without which there are no such hosts on this machine."""
    needs_lasting: bool = False
    """Whether only an engine whose storage outlives it can have them."""
    make_mirror: MakeMirror | None = None
    """What keeps notebooks on such hosts in step with their sessions, where they have files of their own."""
