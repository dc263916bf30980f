"""Steps of a run, as they happen: who did what on which branch, what went in, what came out, what it took.

Where they are kept, told and exported is not decided here: whoever wants to know watches.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse

from cellwright.agent.models.requests import Delta
from cellwright.agent.trace.redaction import Redactor
from cellwright.delegation import Usage
from cellwright.engine import Engine, Execution, Session
from cellwright.errors import UnknownSession
from cellwright.notebook.outputs import clean

__all__ = ["CellRun", "Seconds", "Step", "StepEvents", "StepKind", "Trace", "Watcher", "runs_since"]

_log = logging.getLogger(__name__)

StepKind: TypeAlias = Literal[
    "question",  # what was asked, with which data
    "choose",  # a pattern was chosen, and why
    "request",  # one request to a model
    "call",  # one call of a tool
    "repair",  # a fixer fixed a cell
    "branch",  # branches were made
    "adopt",  # one was taken back
    "compact",  # a new history began
    "correct",  # an answer named what is not there, or left out what it rests on
    "verify",  # the notebook was run from the top
    "answer",  # the end, with an answer
    "stop",  # the end, without
]


@dataclass(frozen=True, slots=True)
class CellRun:
    """One execution that a call brought about."""

    execution_id: str
    cell_id: str | None
    """None for code in no cell."""
    code: str
    state: str
    stdout: str = ""
    """With plain results."""
    stderr: str = ""
    """With the error."""
    seconds: float = 0.0


@dataclass(slots=True)
class Seconds:
    """Where the time of a step went."""

    model: float = 0.0
    kernel: float = 0.0
    engine: float = 0.0


@dataclass(slots=True)
class Step:
    """One step. Filled in while it goes on."""

    number: int
    """From 1, in the order in which steps began."""
    kind: StepKind
    role: str
    pattern: str
    branch: str
    """``main``, or ``main.1`` for a branch of it."""
    began: float
    """Seconds since 1970."""
    session_id: str | None = None
    model: str | None = None
    """``provider:name``."""
    prompt: Sequence[ModelMessage] = ()
    """All that the model was sent, as pydantic-ai writes it; pictures as base64."""
    reply: ModelResponse | None = None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    result: str | None = None
    pictures: int = 0
    """How many pictures came with the result."""
    runs: list[CellRun] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    seconds: Seconds = field(default_factory=Seconds)
    took: float = 0.0
    """Seconds."""
    note: str | None = None
    """Why, in words."""
    failed: bool = False
    error: str | None = None
    """What was raised."""


class Watcher(Protocol):
    """Is told each step of a run: the trace's file, the engine's events, the spans, whoever shows the run.

    Must not raise, and must not take long: it is called in the loop.
    """

    def began(self, step: Step) -> None: ...

    def heard(self, step: Step, delta: Delta) -> None: ...

    async def ended(self, step: Step) -> None: ...


class Trace:
    """The steps of one run, in order of their beginning."""

    def __init__(self, run_id: str, watchers: Sequence[Watcher] = ()) -> None:
        self.run_id = run_id
        self.pattern = ""
        self.steps: list[Step] = []
        self._watchers = tuple(watchers)

    @asynccontextmanager
    async def step(
        self, kind: StepKind, *, role: str = "", branch: str = "main", tool: str | None = None
    ) -> AsyncIterator[Step]:
        """A step, for as long as it takes. What is raised inside is noted and goes on.

        Its end is told to everybody, also where the run is cancelled.
        """
        step = Step(len(self.steps) + 1, kind, role, self.pattern, branch, time.time(), tool=tool)
        began = time.monotonic()
        self.steps.append(step)
        for watcher in self._watchers:
            watcher.began(step)
        try:
            yield step
        except BaseException as error:
            step.failed, step.error = True, f"{type(error).__name__}: {error}"
            raise
        finally:
            step.took = time.monotonic() - began
            step.seconds.engine = max(0.0, step.took - step.seconds.model - step.seconds.kernel)
            step.prompt = tuple(step.prompt)  # a history goes on, what was sent does not
            with anyio.CancelScope(shield=True):
                for watcher in self._watchers:
                    await _tell_end(watcher, step)

    def heard(self, step: Step, delta: Delta) -> None:
        """A piece of a model's reply came."""
        for watcher in self._watchers:
            watcher.heard(step, delta)


async def _tell_end(watcher: Watcher, step: Step) -> None:
    try:
        await watcher.ended(step)
    except Exception:  # noqa: BLE001  # boundary: one watcher that breaks its word must not cost the others the step
        _log.exception("watcher_failed step=%s", step.number)


# Tells each step that ended as an event of the session it worked on, in short. The whole is kept by
# ``store``.

_MOST_WAITING = 200

_LONGEST_NOTE = 200


class StepEvents:
    """Watches a run for those who follow its notebooks. A session that is gone is told nothing."""

    def __init__(self, engine: Engine, run_id: str, redactor: Redactor) -> None:
        self._engine = engine
        self._run_id = run_id
        self._redactor = redactor
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        """Steps from before there was a session; the oldest go first."""

    def began(self, step: Step) -> None:
        """The execution of a cell tells its own beginning."""

    def heard(self, step: Step, delta: Delta) -> None:
        """Too small to be told."""

    async def ended(self, step: Step) -> None:
        """Have the step told, and those that came before there was a session."""
        self._waiting.append(self._redactor.value(told(self._run_id, step)))
        if step.session_id is None:
            return
        try:
            session = self._engine.session(step.session_id)
        except UnknownSession:
            return
        while self._waiting:
            session.tell("notebook.agent.step", self._waiting.popleft())


def told(run_id: str, step: Step) -> dict[str, Any]:
    """What an event says of a step."""
    return {
        "run_id": run_id,
        "step": step.number,
        "step_kind": step.kind,
        "role": step.role,
        "pattern": step.pattern,
        "branch": step.branch,
        "model": step.model,
        "tool": step.tool,
        "tokens_in": step.usage.tokens_in,
        "tokens_out": step.usage.tokens_out,
        "cached": step.usage.cached,
        "money": step.usage.money,
        "seconds": {
            "model": step.seconds.model,
            "kernel": step.seconds.kernel,
            "engine": step.seconds.engine,
            "took": step.took,
        },
        "state": "failed" if step.failed else "ok",
        "note": _first_line(step.note or step.error or ""),
        "executions": [run.execution_id for run in step.runs],
    }


def _first_line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= _LONGEST_NOTE else f"{line[: _LONGEST_NOTE - 1]}…"


# What a session ran since somebody last looked, as a step keeps it. Only reads.


async def runs_since(engine: Engine, session: Session, count: int) -> list[CellRun]:
    """The executions of a session since its ``runs.count`` was this, oldest first; the last may still be running."""
    if session.runs.count <= count:
        return []
    return [_run(execution) for execution in await engine.history(session.id, after=count)]


def _run(execution: Execution) -> CellRun:
    outputs = execution.outputs
    reason = f"{execution.reason}\n" if execution.reason else ""
    return CellRun(
        execution_id=execution.id,
        cell_id=execution.cell_id,
        code=execution.record.source,
        state=execution.state,
        stdout=clean("".join(_shown(outputs))),
        stderr=clean("".join(_complained(outputs)) + reason),
        seconds=execution.seconds or 0.0,
    )


def _shown(outputs: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """What was printed, and the plain form of what was shown."""
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] != "stderr":
            yield _joined(output["text"])
        elif "text/plain" in output.get("data", {}):
            yield _joined(output["data"]["text/plain"]) + "\n"


def _complained(outputs: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] == "stderr":
            yield _joined(output["text"])
        elif output["output_type"] == "error":
            lines = output.get("traceback") or [f"{output['ename']}: {output['evalue']}"]
            yield "\n".join(lines) + "\n"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
