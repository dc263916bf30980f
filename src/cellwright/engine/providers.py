"""How plugins of the kind ``hosts`` are registered, SLURM and Jupyter among them; ``assembly`` puts them in.

The port that they implement is ``placement.HostProvider``, which can be imported from here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cellwright.engine.placement import HostInfo, HostProvider, ShapeRequest
from cellwright.hosts.protocol import HostOptions
from cellwright.settings import Settings

if TYPE_CHECKING:
    import anyio.abc

    from cellwright.engine.hosts import Hosts
    from cellwright.engine.journal import Subscription
    from cellwright.engine.records import Recorder
    from cellwright.engine.remote_documents import DocumentMirror

__all__ = ["HostInfo", "HostKindPlugin", "HostProvider", "ShapeRequest"]

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
