"""Tells each step that ended as an event of the session it worked on, in short. The whole is kept by ``store``."""

from __future__ import annotations

from collections import deque
from typing import Any

from cellwright.agent.models.requests import Delta
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.steps import Step
from cellwright.engine import Engine
from cellwright.errors import UnknownSession

__all__ = ["StepEvents", "told"]

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
