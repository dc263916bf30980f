"""The port to the data agent: a request that a frontend hands over, the run that answers it, and its outcome.

Frontends (``mcp``, ``web``) hold a ``Delegate`` and import no agent: its libraries are an extra, and ``agent`` uses the
MCP server's tools. The daemon puts the real one in (``daemon.agents``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

__all__ = ["AgentRequest", "Delegate", "DelegatedRun", "Outcome", "Usage"]


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A question that a client hands over to the data agent, and how it may be answered."""

    question: str
    data: tuple[Path, ...] = ()
    pattern: str | None = None
    models: tuple[str, ...] = ()
    budget: str | None = None
    """As people write it."""
    session_id: str | None = None
    conversation_id: str | None = None
    directory: Path | None = None
    """Where the client works."""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """The client's keys and addresses of models; None: the daemon's own."""
    servers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """MCP servers of the client's: a name, and a command or an address; with neither the connection of that name."""
    verify: bool = True
    client: ServerSession | None = field(default=None, repr=False)
    """The client's connection: its own model may be asked through it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply took. ``cached`` tokens are among those of ``tokens_in``."""

    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    money: float = 0.0
    """US dollars."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.cached + other.cached,
            self.money + other.money,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question to the data agent."""

    answer: str
    """With a mark at every number that no output has."""
    ok: bool
    run_id: str
    conversation_id: str
    pattern: str
    why: str = ""
    """Why this pattern."""
    session_id: str | None = None
    notebook: Path | None = None
    charts: tuple[str, ...] = ()
    """Resources."""
    files: tuple[str, ...] = ()
    """Left in the working directory."""
    untraced: tuple[str, ...] = ()
    """Numbers of the answer that no output has."""
    verified: bool | None = None
    """None where it was not run from the top."""
    report: str | None = None
    """Why it stopped, where it did; what was tried; what to do next."""
    models: tuple[str, ...] = ()
    """Those that answered, in order."""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    seconds: float = 0.0

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        told = asdict(self)
        return {**told, "notebook": str(self.notebook) if self.notebook is not None else None}


class DelegatedRun(Protocol):
    """A question that is being answered. The run is the daemon's, and goes on when its client has gone.

    A port: ``daemon.agents.AgentRun`` fits it by its shape, from above the frontends.
    """

    @property
    def id(self) -> str: ...
    @property
    def done(self) -> bool: ...
    @property
    def result(self) -> Outcome | None:
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

    def entries(self, since: int) -> list[dict[str, Any]]:
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
    """Takes requests for the data agent.

    A port: ``daemon.agents.Agents`` fits it by its shape, from above the frontends.
    """

    async def begin(self, request: AgentRequest) -> DelegatedRun:
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

    async def runs_changed(self, since: int) -> int:
        """Wait until runs have begun or ended after this number was told, and tell the next; 0 tells one at once."""
        ...

    async def models(self) -> list[str]:
        """The models that somebody may choose from who has no keys but the daemon's own.

        Raises:
            NoAgent: its libraries are not installed.
        """
        ...

    async def keep_key(self, provider: str, key: str) -> bool:
        """Use a provider's key from now on; whether the keyring keeps it, too, or only this process until its end.

        Raises:
            NoModel: that provider takes none.
            NoAgent: its libraries are not installed.
        """
        ...

    async def add_model(self, address: str) -> str:
        """Offer the model of a server from now on; the name that it is offered by.

        Raises:
            NoModel: the address names none.
            NoAgent: its libraries are not installed.
        """
        ...

    def entered_models(self) -> list[str]:
        """The models that people entered by their servers' addresses."""
        ...

    def forget_model(self, name: str) -> None:
        """Offer one of them no longer."""
        ...

    async def fork(self, conversation_id: str, run_id: str) -> tuple[str | None, str | None]:
        """Make what is needed to ask one of a conversation's questions anew, as it stood before that question.

        Tells the conversation to ask in, with the turns before it and none after, and the session to begin from, each
        None where there is none: the original stays as it is.

        Raises:
            UnknownConversation, UnknownRun: there is none of that id.
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
