"""The data agent behind the port of the frontends (``delegation``): imported when it is first asked, for that takes a second.

Translates requests into questions and holds the runs that answer them; how a question is answered, the agent knows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
import anyio.abc
import msgspec

from cellwright.connections.known import Connection, find, lent
from cellwright.engine import Engine
from cellwright.engine.records import new_agent_run_id
from cellwright.errors import AgentError, CellwrightError, NoAgent, NoModel, RunStopped, UnknownRun
from cellwright.settings.modelkeys import model_environment
from cellwright.settings.paths import write_private
from cellwright.text_budget import cut_middle

if TYPE_CHECKING:
    from cellwright.agent.models.requests import Delta
    from cellwright.agent.models.table import ModelRow
    from cellwright.agent.questions import Question
    from cellwright.agent.trace.steps import CellRun, Step, Watcher
    from cellwright.daemon._agentrecords import Records
    from cellwright.delegation import AgentRequest, Outcome
    from cellwright.mcp import McpServer
    from cellwright.settings.model import ModelsSettings

__all__ = ["AgentRun", "Agents"]

T = TypeVar("T")

_MOST_RUNS = 200
INSTALL = "pip install 'cellwright[agent]'"
Ask: TypeAlias = "Callable[[Question, Sequence[Watcher]], Awaitable[Outcome]]"
"""Answers a question, and tells the watchers each step: ``agent.data_agent.DataAgent.ask``."""


class Agents:
    """Takes requests for the data agent of one engine, and answers them in tasks of its own."""

    def __init__(
        self,
        engine: Engine,
        tasks: anyio.abc.TaskGroup,
        server_for: Callable[[str | None, str | None], Awaitable[McpServer]],
        *,
        make: Callable[[McpServer], Ask] | None = None,
    ) -> None:
        self._engine = engine
        self._tasks = tasks
        self._server_for = server_for
        self._make = make or _make
        self._ask: Ask | None = None
        self._making = anyio.Lock()
        self._runs: dict[str, AgentRun] = {}
        self._changes = RunChanges()
        self._keys: dict[str, str] = {}
        """By their variables: what people entered since this process began. Written nowhere from here."""
        self._entered = EnteredModels(engine.settings.storage)

    @property
    def running(self) -> int:
        """How many questions are being answered."""
        return len(self.live())

    def live(self) -> list[AgentRun]:
        """The runs that go on."""
        return [run for run in self._runs.values() if not run.done]

    async def runs_changed(self, since: int) -> int:
        """Wait until runs have begun or ended after this number was told, and tell the next."""
        return await self._changes.changed_after(since)

    async def models(self) -> list[str]:
        """The models that somebody may choose from who has no keys but the daemon's own.

        Raises:
            NoAgent: the extra is not installed.
        """
        reachable = await self._imported(_reachable)
        found = await reachable(self._environment(), self._engine.settings)
        return list(dict.fromkeys([*found, *self._entered.names()]))

    async def keep_key(self, provider: str, key: str) -> bool:
        """Use a provider's key from now on; whether the keyring keeps it, too, or only this process until its end.

        Raises:
            NoModel: that provider takes none.
            NoAgent: the extra is not installed.
        """
        providers = await self._imported(_providers)
        self._keys[providers.variable_of(provider)] = key
        return bool(await providers.keep_key(provider, key))

    async def add_model(self, address: str) -> str:
        """Offer the model of a server from now on; the name that it is offered by.

        Raises:
            NoModel: the address names none.
            NoAgent: the extra is not installed.
        """
        if not address.startswith(("http://", "https://")):
            raise NoModel(f"{address!r} is no address", hint="Write it as http://localhost:8000/v1#name")
        if "@" in address.split("/")[2]:
            # It is written to a file and shown to everybody who may choose a model.
            raise NoModel("The address has a password in it", hint="Enter that as the server's key")
        find_row = await self._imported(_row_finder)
        row = find_row(address, ())
        name = f"{row.url}#{row.name}"
        self._entered.add(name)
        return name

    def entered_models(self) -> list[str]:
        """The models that people entered by their servers' addresses."""
        return self._entered.names()

    def forget_model(self, name: str) -> None:
        """Offer one of them no longer."""
        self._entered.remove(name)

    def _environment(self) -> dict[str, str]:
        return {**model_environment(), **self._keys}

    async def fork(self, conversation_id: str, run_id: str) -> tuple[str | None, str | None]:
        """Make what is needed to ask one of a conversation's questions anew, as it stood before that question.

        Raises:
            UnknownConversation, UnknownRun: there is none of that id.
        """
        fork = await self._imported(_fork)
        forked: tuple[str | None, str | None] = await fork(self._engine, conversation_id, run_id)
        self._changes.ring()
        return forked

    async def begin(self, request: AgentRequest) -> AgentRun:
        """Begin to answer a question.

        Raises:
            NoAgent: the extra is not installed.
            BudgetInvalid: the budget cannot be understood.
            AgentError: a server is not named as it must be.
        """
        ask = await self._made()
        if request.environment is None:
            request = replace(request, environment=self._environment())
            entered = self._entered.names()
            if not request.models and entered and not await self._has_another(entered):
                request = replace(request, models=(entered[0],))
        question = _question(request, new_agent_run_id(), self._engine.connections.known)
        run = AgentRun(str(question.run_id), request.conversation_id, asdict(question.budget))
        self._runs[run.id] = run
        self._clear()
        self._tasks.start_soon(self._carry_out, run, partial(ask, question, [run.feed, self._changes]))
        return run

    async def _has_another(self, entered: list[str]) -> bool:
        """Whether there is a model besides those that people entered by their addresses."""
        return any(name not in entered for name in await self.models())

    async def _carry_out(self, run: AgentRun, answered: Callable[[], Awaitable[Outcome]]) -> None:
        await run.run(answered, self.conversation_of)
        self._changes.ring()

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
        self._changes.ring()

    async def trace(self, run_id: str) -> dict[str, Any]:
        """All that is known of a run, also of one that goes on.

        Raises:
            UnknownRun: there is none of that id.
        """
        return await (await self._records()).trace(run_id)

    async def _records(self) -> Records:
        return await self._imported(partial(_read_records, self._engine.settings.storage))

    async def _made(self) -> Ask:
        async with self._making:
            if self._ask is None:
                from cellwright.mcp.toolsets import toolsets  # the SDK takes a second to import

                # All tools but the one that hands a question over.
                sets = ",".join(name for name in toolsets() if name != "agent")
                mcp_server = await self._server_for(None, sets)
                self._ask = await self._imported(partial(self._make, mcp_server))
            return self._ask

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
    from cellwright.daemon._agentrecords import Records  # see the module's docstring

    return Records(storage)


def _reachable() -> Callable[[Mapping[str, str], ModelsSettings], Awaitable[list[str]]]:
    from cellwright.agent.models.connect import reachable  # see the module's docstring

    return reachable


def _providers() -> ModuleType:
    from cellwright.agent.models import providers  # see the module's docstring

    return providers


def _row_finder() -> Callable[[str, Sequence[ModelRow]], ModelRow]:
    from cellwright.agent.models.connect import find_row  # see the module's docstring

    return find_row


def _fork() -> Callable[[Engine, str, str], Awaitable[tuple[str | None, str | None]]]:
    from cellwright.agent.forks import fork  # see the module's docstring

    return fork


def _make(mcp_server: McpServer) -> Ask:
    from cellwright.agent.data_agent import DataAgent  # see the module's docstring

    return DataAgent(mcp_server).ask


def _question(request: AgentRequest, run_id: str, known: Mapping[str, Connection]) -> Question:
    from cellwright.agent.budgets import Budget, parse_budget  # see the module's docstring
    from cellwright.agent.questions import Question  # as above

    return Question(
        request.question,
        data=request.data,
        pattern=request.pattern,
        models=request.models,
        budget=parse_budget(request.budget) if request.budget else Budget(),
        conversation_id=request.conversation_id,
        session_id=request.session_id,
        directory=request.directory,
        environment=model_environment() if request.environment is None else request.environment,
        servers=tuple(_server(known, name, target, request.directory) for name, target in request.servers),
        verify=request.verify,
        run_id=run_id,
        client=request.client,
    )


def _server(known: Mapping[str, Connection], name: str, target: str, directory: Path | None) -> Connection:
    """An MCP server that a person lends, or by its name one of the connections.

    Raises:
        UnknownConnection: the operator named none like this.
        AgentError: it is no MCP server.
    """
    if target:
        return lent(name, target, directory)
    connection = find(known, name)
    if connection.kind != "mcp":
        raise AgentError(
            f"Connection {name!r} is no MCP server ({connection.kind})",
            hint="The agent reaches it without --server, by its name",
        )
    return connection


# A question that the data agent is answering, and what whoever watches is told of it.

_log = logging.getLogger(__name__)

_MOST_ENTRIES = 4_000
_LONGEST = 4_000

_DOES = {
    "question": "reads the question",
    "choose": "chooses how to go about it",
    "repair": "fixes a cell",
    "branch": "branches",
    "adopt": "takes a branch back",
    "compact": "sums up what was said",
    "correct": "corrects an answer",
    "verify": "runs the notebook from the top",
    "answer": "answers",
    "stop": "stops",
}


class Feed:
    """A watcher that keeps what happens as numbered entries, the last few thousand, for whoever asks."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=_MOST_ENTRIES)
        self._last = 0
        self._new = anyio.Event()
        self._open: dict[int, Step] = {}
        self._total = {"tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "usd": 0.0, "requests": 0}

    # As the agent tells it ---------------------------------------------------------------------------------------

    def began(self, step: Step) -> None:
        self._open[step.number] = step
        self._add({"event": "began", **_name(step)})

    def heard(self, step: Step, delta: Delta) -> None:
        self._add({"event": "heard", "step": step.number, "kind": delta.kind, "text": delta.text})

    async def ended(self, step: Step) -> None:
        self._open.pop(step.number, None)
        usage, total = step.usage, self._total
        total["tokens_in"] += usage.tokens_in
        total["tokens_out"] += usage.tokens_out
        total["tokens_cached"] += usage.cached
        total["usd"] = round(total["usd"] + usage.money, 6)
        total["requests"] += step.kind == "request"
        self._add({"event": "ended", **_name(step), **_outcome(step), "total": dict(total)})

    # As it is asked for ------------------------------------------------------------------------------------------

    def brief(self) -> str:
        """What goes on now, in a few words."""
        doing = [_doing(step) for step in self._open.values()]
        done = int(self._total["requests"])
        return f"step {max(self._open)}: {doing[-1]}" if doing else f"{done} request{'s' * (done != 1)} done"

    def entries(self, since: int) -> list[dict[str, Any]]:
        """The entries after this one; words that came one by one are put together."""
        found: list[dict[str, Any]] = []
        for entry in self._entries:
            if entry["number"] <= since:
                continue
            if found and _continues(found[-1], entry):
                found[-1] = {**entry, "text": found[-1]["text"] + entry["text"]}
            else:
                found.append(entry)
        return found

    async def changed(self, since: int, within_s: float) -> None:
        if self._last > since:
            return
        # Once is enough: whoever is woken without an entry is at the end.
        with anyio.move_on_after(within_s):
            await self._new.wait()

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._new.set()
        self._new = anyio.Event()

    def _add(self, entry: dict[str, Any]) -> None:
        self._last += 1
        self._entries.append({"number": self._last, **entry})
        self.wake()


def _continues(before: dict[str, Any], entry: dict[str, Any]) -> bool:
    return (
        all(before.get(key) == entry.get(key) for key in ("event", "step", "kind"))
        and entry["event"] == "heard"
    )


def _name(step: Step) -> dict[str, Any]:
    about = {"role": step.role, "pattern": step.pattern, "branch": step.branch, "tool": step.tool}
    about |= {"model": step.model, "session_id": step.session_id}
    return {"step": step.number, "kind": step.kind} | {key: value for key, value in about.items() if value}


def _doing(step: Step) -> str:
    if step.kind == "request":
        return f"{step.role or 'the agent'} asks {step.model or 'a model'}"
    if step.kind == "call":
        return f"calls {step.tool or 'a tool'}"
    return _DOES.get(step.kind, step.kind)


def _outcome(step: Step) -> dict[str, Any]:
    """What came of a step, each text within a bound."""
    found: dict[str, Any] = {"took": round(step.took, 3), "failed": step.failed}
    if step.reply is not None:
        found |= {"text": _said(step.reply, "text"), "thinking": _said(step.reply, "thinking")}
    if step.arguments is not None:
        found["arguments"] = {name: _short(value) for name, value in step.arguments.items()}
    if step.runs:
        found["runs"] = [_run(run) for run in step.runs]
    texts = {"result": step.result, "note": step.note, "error": step.error}
    return found | {name: _short(text) for name, text in texts.items() if text}


def _said(reply: Any, kind: str) -> str:
    texts = [part.content for part in reply.parts if part.part_kind == kind and part.content]
    return cut_middle("\n".join(texts), _LONGEST)


def _run(run: CellRun) -> dict[str, Any]:
    return {
        "cell_id": run.cell_id,
        "code": cut_middle(run.code, _LONGEST),
        "state": run.state,
        "stdout": cut_middle(run.stdout, _LONGEST),
        "stderr": cut_middle(run.stderr, _LONGEST),
        "seconds": round(run.seconds, 3),
    }


def _short(value: Any) -> Any:
    return cut_middle(value, _LONGEST) if isinstance(value, str) else value


class RunChanges:
    """A watcher of every run that wakes whoever waits for one to begin or to end. Numbers tell what somebody has heard."""

    def __init__(self) -> None:
        self._rung = 1
        self._next = anyio.Event()

    def ring(self) -> None:
        self._rung += 1
        self._next.set()
        self._next = anyio.Event()

    async def changed_after(self, since: int) -> int:
        if since == self._rung:
            await self._next.wait()
        return self._rung

    def began(self, step: Step) -> None:
        """With its first step a run is in its conversation, for whoever looks."""
        if step.kind == "question":
            self.ring()

    def heard(self, step: Step, delta: Delta) -> None:
        """Told by the run's own feed."""

    async def ended(self, step: Step) -> None:
        """Told by the run's own feed."""


class AgentRun:
    """One question on its way. ``run`` is called once, in a task of its own."""

    def __init__(
        self, run_id: str, conversation_id: str | None, limits: Mapping[str, float | None] | None = None
    ) -> None:
        self.id = run_id
        self.limits = limits or {}
        self.feed = Feed()
        self.result: Outcome | None = None
        self.failure: CellwrightError | None = None
        self.asked_in = conversation_id
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()

    @property
    def done(self) -> bool:
        return self._over.is_set()

    @property
    def conversation_id(self) -> str | None:
        return self.result.conversation_id if self.result is not None else self.asked_in

    async def run(
        self,
        answered: Callable[[], Awaitable[Outcome]],
        conversation_of: Callable[[str], Awaitable[str | None]],
    ) -> None:
        """Have it answered; of one that is stopped, find out where it can be gone on with."""
        try:
            with self._scope:
                self.result = await answered()
            if self.result is None:
                self.asked_in = await conversation_of(self.id) or self.asked_in
                self.failure = RunStopped(f"Run {self.id} was stopped", hint=self._way_on())
        except CellwrightError as error:
            self.failure = error
        except Exception:  # noqa: BLE001  # boundary: a defect met by one question must not end everybody's daemon
            _log.exception("agent_run_failed run=%s", self.id)
            self.failure = AgentError(
                f"Run {self.id} failed inside Cellwright", hint="Look at `cellwright daemon logs`"
            )
        finally:
            self._over.set()
            self.feed.wake()

    def _way_on(self) -> str:
        if self.asked_in is None:
            return "Ask again"
        return f"What it did so far is in its conversation: ask again with conversation='{self.asked_in}' to go on"

    def brief(self) -> str:
        return self.feed.brief()

    def entries(self, since: int) -> list[dict[str, Any]]:
        return self.feed.entries(since)

    async def changed(self, since: int, within_s: float) -> None:
        if not self.done:
            await self.feed.changed(since, within_s)

    async def cancel(self) -> None:
        self._scope.cancel()
        await self._over.wait()


# The models that people entered by their servers' addresses, in ``models.json``. Keys are elsewhere: in the
# keyring.

_decode = msgspec.json.Decoder(list[str]).decode


class EnteredModels:
    """Names of the kind ``http://localhost:8000/v1#name``, in the order in which they were entered."""

    def __init__(self, storage: Path) -> None:
        self._file = storage / "models.json"

    def names(self) -> list[str]:
        """What is kept.

        Raises:
            AgentError: the file cannot be read.
        """
        try:
            return _decode(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise AgentError(
                f"{self._file} cannot be read: {error}", hint="Remove it, and enter the models again"
            ) from error

    def add(self, name: str) -> None:
        self._write([*(one for one in self.names() if one != name), name])

    def remove(self, name: str) -> None:
        self._write([one for one in self.names() if one != name])

    def _write(self, names: list[str]) -> None:
        write_private(str(self._file), msgspec.json.encode(names))
