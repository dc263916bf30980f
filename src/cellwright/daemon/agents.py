"""The data agent as the faces know it: made when first asked, since its import takes a second and few ever ask.

Translates errands into questions and holds the runs that they become; what an answer is, the agent knows.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
import anyio.abc

from cellwright.daemon.agentruns import AgentRun, Bell
from cellwright.engine import Engine
from cellwright.engine.ids import new_agent_run_id
from cellwright.errors import AgentError, NoAgent, UnknownRun
from cellwright.settings.modelkeys import model_environment

if TYPE_CHECKING:
    from cellwright.agent.questions import Outcome, Question, Server
    from cellwright.agent.trace.steps import Watcher
    from cellwright.daemon.agentrecords import Records
    from cellwright.mcp import Face
    from cellwright.mcp.delegates import Errand
    from cellwright.settings import Settings

__all__ = ["Agents", "Asked"]

T = TypeVar("T")
_MOST_RUNS = 200
INSTALL = "pip install 'cellwright[agent]'"


class Asked(Protocol):
    """The agent, as far as it is used here: ``agent.asking.DataAgent``."""

    async def ask(self, question: Question, watchers: Sequence[Watcher]) -> Outcome: ...


class Agents:
    """Takes errands for one engine, and carries them out in tasks of its own."""

    def __init__(
        self,
        engine: Engine,
        tasks: anyio.abc.TaskGroup,
        face_of: Callable[[str | None, str | None], Awaitable[Face]],
        *,
        make: Callable[[Face], Asked] | None = None,
    ) -> None:
        self._engine = engine
        self._tasks = tasks
        self._face_of = face_of
        self._make = make or _make
        self._agent: Asked | None = None
        self._making = anyio.Lock()
        self._runs: dict[str, AgentRun] = {}
        self._bell = Bell()

    @property
    def running(self) -> int:
        """How many questions are being answered."""
        return len(self.live())

    def live(self) -> list[AgentRun]:
        """The runs that go on."""
        return [run for run in self._runs.values() if not run.done]

    async def stirred(self, since: int) -> int:
        """Wait until runs have begun or ended after this number was told, and tell the next."""
        return await self._bell.heard_after(since)

    async def models(self) -> list[str]:
        """The models that somebody may choose from who has no keys but the daemon's own.

        Raises:
            NoAgent: the extra is not installed.
        """
        reachable = await self._imported(_reachable)
        return await reachable(model_environment(), self._engine.settings)

    async def begin(self, errand: Errand) -> AgentRun:
        """Begin to answer a question.

        Raises:
            NoAgent: the extra is not installed.
            BudgetInvalid: the budget cannot be understood.
            AgentError: a server is not named as it must be.
        """
        agent = await self._made()
        question = _question(errand, new_agent_run_id())
        run = AgentRun(str(question.run_id), errand.conversation_id, asdict(question.budget))
        self._runs[run.id] = run
        self._clear()
        self._tasks.start_soon(self._carry_out, run, partial(agent.ask, question, [run.feed, self._bell]))
        return run

    async def _carry_out(self, run: AgentRun, answered: Callable[[], Awaitable[Outcome]]) -> None:
        await run.run(answered, self.conversation_of)
        self._bell.ring()

    async def conversation_of(self, run_id: str) -> str | None:
        """The conversation that a run belongs to."""
        return await (await self._records()).conversation_of(run_id)

    def run(self, run_id: str) -> AgentRun:
        """A run that goes on, or that ended under this daemon.

        Raises:
            UnknownRun: there is none of that id.
        """
        if run_id not in self._runs:
            raise UnknownRun(
                f"There is no run {run_id!r} here; one that an earlier daemon began ended with it",
                hint="`cellwright conversations` shows what there is to go on with",
            )
        return self._runs[run_id]

    async def conversations(self) -> list[dict[str, Any]]:
        """What there is to go on with, the one that was asked last first."""
        return await (await self._records()).conversations()

    async def conversation(self, conversation_id: str) -> dict[str, Any]:
        """What was said in one.

        Raises:
            UnknownConversation: there is none of that id.
        """
        return await (await self._records()).conversation(conversation_id)

    async def forget(self, conversation_id: str) -> None:
        """Delete one, with the traces of its runs.

        Raises:
            UnknownConversation: there is none of that id.
        """
        await (await self._records()).forget(conversation_id)
        self._bell.ring()

    async def trace(self, run_id: str) -> dict[str, Any]:
        """All that is known of a run, also of one that goes on.

        Raises:
            UnknownRun: there is none of that id.
        """
        return await (await self._records()).trace(run_id)

    async def _records(self) -> Records:
        return await self._imported(partial(_read_records, self._engine.settings.storage))

    async def _made(self) -> Asked:
        async with self._making:
            if self._agent is None:
                # All tools but the one that hands a question over.
                face = await self._face_of(None, "notebooks,plans,history,hosts,once")
                self._agent = await self._imported(partial(self._make, face))
            return self._agent

    async def _imported(self, made: Callable[[], T]) -> T:
        """What needs the agent's libraries, whose import must not hold up everybody else."""
        try:
            return await anyio.to_thread.run_sync(made)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("cellwright"):
                raise
            raise NoAgent(
                f"The data agent needs {error.name}, which is not installed", hint=INSTALL
            ) from error

    def _clear(self) -> None:
        """Forget the oldest runs that are over."""
        over = [run_id for run_id, run in self._runs.items() if run.done]
        for run_id in over[: max(len(self._runs) - _MOST_RUNS, 0)]:
            del self._runs[run_id]


def _read_records(storage: Path) -> Records:
    from cellwright.daemon.agentrecords import Records  # noqa: PLC0415  # see the module's docstring

    return Records(storage)


def _reachable() -> Callable[[Mapping[str, str], Settings], Awaitable[list[str]]]:
    from cellwright.agent.models.available import reachable  # noqa: PLC0415  # see the module's docstring

    return reachable


def _make(face: Face) -> Asked:
    from cellwright.agent.data_agent import DataAgent  # noqa: PLC0415  # see the module's docstring

    return DataAgent(face)


def _question(errand: Errand, run_id: str) -> Question:
    from cellwright.agent.budgets import Budget, parse_budget  # noqa: PLC0415  # see the module's docstring
    from cellwright.agent.questions import Question  # noqa: PLC0415  # as above

    return Question(
        errand.question,
        data=errand.data,
        pattern=errand.pattern,
        models=errand.models,
        budget=parse_budget(errand.budget) if errand.budget else Budget(),
        conversation_id=errand.conversation_id,
        session_id=errand.session_id,
        directory=errand.directory,
        environment=model_environment() if errand.environment is None else errand.environment,
        servers=tuple(_server(name, target, errand.directory) for name, target in errand.servers),
        verify=errand.verify,
        run_id=run_id,
        client=errand.client,
    )


def _server(name: str, target: str, directory: Path | None) -> Server:
    from cellwright.agent.questions import Server  # noqa: PLC0415  # see the module's docstring

    if target.startswith(("http://", "https://")):
        return Server(name, url=target)
    try:
        command = tuple(shlex.split(target))
    except ValueError as error:
        raise AgentError(f"The command of server {name!r} cannot be read: {error}") from None
    if not command:
        raise AgentError(f"Server {name!r} has no command", hint="Write NAME=COMMAND or NAME=URL")
    return Server(name, command=command, directory=directory)
