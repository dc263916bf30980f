"""What the face asks of an agent that answers questions by itself, and what it is told of one at work.

The agent is above this room and is never imported here: the daemon hands one in, and its outcomes fit by their shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

__all__ = ["Delegate", "DelegatedRun", "Errand", "Result", "Spent"]


@dataclass(frozen=True, slots=True)
class Errand:
    """A question that somebody hands over, and how it may be answered."""

    question: str
    data: tuple[Path, ...] = ()
    pattern: str | None = None
    models: tuple[str, ...] = ()
    budget: str | None = None
    """As people write it."""
    session_id: str | None = None
    conversation_id: str | None = None
    directory: Path | None = None
    """Where the asker works."""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """The asker's keys and addresses of models; None: the daemon's own."""
    servers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """MCP servers of the asker's: a name, and a command or an address."""
    verify: bool = True
    client: ServerSession | None = field(default=None, repr=False)
    """The connection that asks, whose own model may be asked in turn."""


class Spent(Protocol):
    """What a run took."""

    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...
    @property
    def cached(self) -> int: ...
    @property
    def money(self) -> float: ...


class Result(Protocol):
    """What came of a question: ``agent.questions.Outcome``, as far as it is told."""

    @property
    def answer(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def run_id(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def pattern(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def notebook(self) -> Path | None: ...
    @property
    def charts(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    @property
    def untraced(self) -> tuple[str, ...]: ...
    @property
    def verified(self) -> bool | None: ...
    @property
    def report(self) -> str | None: ...
    @property
    def models(self) -> tuple[str, ...]: ...
    @property
    def usage(self) -> Spent: ...
    @property
    def steps(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class DelegatedRun(Protocol):
    """A question that is being answered. It is the agent's, and goes on when whoever asked has gone."""

    @property
    def id(self) -> str: ...
    @property
    def done(self) -> bool: ...
    @property
    def result(self) -> Result | None:
        """None while it goes on, and where it failed."""
        ...

    @property
    def failure(self) -> CellwrightError | None:
        """Why there is no result, once it is over."""
        ...

    @property
    def conversation_id(self) -> str | None: ...
    @property
    def limits(self) -> Mapping[str, float | None]:
        """What it may take at most: ``tokens``, ``money``, ``seconds``, ``steps``; None is without limit."""
        ...

    def brief(self) -> str:
        """What it does now, in a few words."""
        ...

    def told(self, since: int) -> list[dict[str, Any]]:
        """What happened after the entry of this number, each with its ``number``."""
        ...

    async def changed(self, since: int, within_s: float) -> None:
        """Wait until there is an entry after this one, or the end, but no longer than that."""
        ...

    async def cancel(self) -> None:
        """Stop it, and wait until it has stopped."""
        ...


@runtime_checkable
class Delegate(Protocol):
    """An agent that takes errands."""

    async def begin(self, errand: Errand) -> DelegatedRun:
        """Begin to answer a question.

        Raises:
            CellwrightError: it cannot be asked like that, or there is nobody to answer it.
        """
        ...

    def run(self, run_id: str) -> DelegatedRun:
        """A run that goes on, or has ended not long ago.

        Raises:
            UnknownRun: there is none of that id.
        """
        ...

    def live(self) -> Sequence[DelegatedRun]:
        """The runs that go on."""
        ...

    async def stirred(self, since: int) -> int:
        """Wait until runs have begun or ended after this number was told, and tell the next; 0 tells one at once."""
        ...

    async def models(self) -> list[str]:
        """The models that somebody may choose from who has no keys but the daemon's own.

        Raises:
            NoAgent: its libraries are not installed.
        """
        ...

    async def conversation_of(self, run_id: str) -> str | None:
        """The conversation that a run belongs to."""
        ...

    async def conversations(self) -> list[dict[str, Any]]:
        """What there is to go on with, newest first."""
        ...

    async def conversation(self, conversation_id: str) -> dict[str, Any]:
        """What was said in one.

        Raises:
            UnknownConversation: there is none of that id.
        """
        ...

    async def forget(self, conversation_id: str) -> None:
        """Delete one, with the traces of its runs.

        Raises:
            UnknownConversation: there is none of that id.
        """
        ...

    async def trace(self, run_id: str) -> dict[str, Any]:
        """All that is known of a run.

        Raises:
            UnknownRun: there is none of that id.
        """
        ...
