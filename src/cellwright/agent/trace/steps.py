"""Steps of a run, as they happen: who did what on which branch, what went in, what came out, what it took.

Where they are kept, told and exported is not decided here: whoever wants to know watches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse

from cellwright.agent.models.requests import Delta
from cellwright.delegation import Usage

__all__ = ["CellRun", "Seconds", "Step", "StepKind", "Trace", "Watcher"]

_log = logging.getLogger(__name__)

StepKind: TypeAlias = Literal[
    "question",  # what was asked, with which data
    "choose",  # a pattern was chosen, and why
    "request",  # one request to a model
    "call",  # one call of a tool
    "repair",  # a fixer mended a cell
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
    code: str
    state: str
    stdout: str = ""
    stderr: str = ""
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
    kind: StepKind
    role: str
    pattern: str
    branch: str
    began: float
    """Seconds since 1970."""
    session_id: str | None = None
    model: str | None = None
    prompt: Sequence[ModelMessage] = ()
    """All that the model was sent."""
    reply: ModelResponse | None = None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    result: str | None = None
    pictures: int = 0
    runs: list[CellRun] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    seconds: Seconds = field(default_factory=Seconds)
    took: float = 0.0
    note: str | None = None
    """Why, in words."""
    failed: bool = False
    error: str | None = None


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
