"""A conversation's turns as the page shows them: what was asked, how far it is, what was answered. Asks, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from cellwright.errors import CellwrightError, RunStopped, UnknownRun
from cellwright.mcp.delegates import Delegate, DelegatedRun
from cellwright.web.chat.steps import StepView, step_views, total_of, words_of
from cellwright.web.prose import prose_html

__all__ = ["Progress", "Turn", "entries_in", "live_run", "number_of", "turn_of"]

_ENTRIES = 10_000_000
"""More than a run tells."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run that goes on."""

    steps: list[StepView]
    words: str
    doing: str
    total: Mapping[str, Any]
    limits: Mapping[str, float | None]
    session_id: str | None
    """The notebook that it works in, once there is one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question."""

    run_id: str
    question: str
    began: float
    state: Literal["running", "answered", "unanswered", "stopped", "failed", "lost"]
    """``unanswered``: it came to its end, and says why there is no answer. ``lost``: nobody is at it any more."""
    answer: Markup
    problem: CellwrightError | None
    progress: Progress | None


def live_run(conversation: Mapping[str, Any], delegate: Delegate) -> DelegatedRun | None:
    """The run that works at a conversation now: there is never more than one."""
    run = _known(conversation["runs"][-1]["run_id"], delegate) if conversation["runs"] else None
    return run if run is not None and not run.done else None


def number_of(conversation: Mapping[str, Any], run: DelegatedRun | None) -> int:
    """How far a conversation is, with its run that goes on. Grows with everything, also across restarts of the daemon."""
    whole = 2 * len(conversation["runs"]) + (run is None)
    told = run.told(0) if run is not None else []
    return whole * _ENTRIES + (told[-1]["number"] if told else 0)


def entries_in(number: int) -> int:
    """How much of it the run has told."""
    return number % _ENTRIES


def turn_of(run: Mapping[str, Any], delegate: Delegate) -> Turn:
    """A turn, from what the conversation says of its run and from the run itself where it is here."""
    known = _known(run["run_id"], delegate)
    goes_on = known is not None and not known.done
    return Turn(
        run_id=run["run_id"],
        question=run["question"],
        began=run["began"],
        state="running" if goes_on else _ended(run, known),
        answer=prose_html(run["answer"], f"said-{run['run_id']}"),
        problem=known.failure if known is not None else None,
        progress=_progress(known) if known is not None and goes_on else None,
    )


def _known(run_id: str, delegate: Delegate) -> DelegatedRun | None:
    try:
        return delegate.run(run_id)
    except UnknownRun:
        return None


def _ended(
    run: Mapping[str, Any], known: DelegatedRun | None
) -> Literal["answered", "unanswered", "stopped", "failed", "lost"]:
    if run["ok"] is not None:
        return "answered" if run["ok"] else "unanswered"
    if known is None or known.failure is None:
        return "lost"
    return "stopped" if isinstance(known.failure, RunStopped) else "failed"


def _progress(run: DelegatedRun) -> Progress:
    entries = run.told(0)
    return Progress(
        steps=step_views(entries, goes_on=True),
        words=words_of(entries),
        doing=run.brief(),
        total=total_of(entries),
        limits=run.limits,
        session_id=next((one["session_id"] for one in reversed(entries) if _names_the_notebook(one)), None),
    )


def _names_the_notebook(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("session_id")) and entry.get("branch", "main") == "main"
