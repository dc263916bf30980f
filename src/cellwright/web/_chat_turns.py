"""A conversation's turns as the page shows them: what was asked, how far it is, what was answered. Asks, changes nothing."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from markupsafe import Markup

from cellwright.delegation import Delegate, DelegatedRun
from cellwright.errors import CellwrightError, RunStopped, UnknownRun
from cellwright.formats.highlight import code_html
from cellwright.formats.prose import ProseWriter
from cellwright.text_budget import cut_middle

__all__ = [
    "StepView",
    "entries_in",
    "entry_of",
    "live_run",
    "number_of",
    "prose_html",
    "session_of_run",
    "step_views",
    "total_of",
    "turn_of",
    "words_of",
]

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
    told = run.entries(0) if run is not None else []
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
    entries = run.entries(0)
    return Progress(
        steps=step_views(entries, goes_on=True),
        words=words_of(entries),
        doing=run.brief(),
        total=total_of(entries),
        limits=run.limits,
        session_id=session_of_run(run),
    )


def session_of_run(run: DelegatedRun) -> str | None:
    """The notebook that a run works in, once there is one."""
    return next((one["session_id"] for one in reversed(run.entries(0)) if _names_the_notebook(one)), None)


def _names_the_notebook(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("session_id")) and entry.get("branch", "main") == "main"


# Steps of a run in short, as the page tells them. Pure.

Entry: TypeAlias = Mapping[str, Any]

_LONGEST = 4_000

_HEARD = 1_500

# What begins and ends a run is shown around its steps, not among them.
_UNTOLD = frozenset({"question", "answer", "stop"})

_DONE = {
    "cell_add_and_run": "Ran a new cell",
    "cell_execute": "Ran a cell",
    "cell_add": "Added a cell",
    "cell_update": "Changed a cell",
    "cell_delete": "Deleted a cell",
    "cell_visualize": "Drew a chart",
    "visualize": "Drew a chart",
    "execution_wait": "Waited for a cell",
    "package_install": "Installed packages",
    "plan_create": "Made a plan",
    "plan_run": "Carried out the plan",
    "plan_status": "Looked at the plan",
    "plan_fix": "Fixed a step of the plan",
    "python_execute": "Ran Python apart from the notebook",
    "node_execute": "Ran JavaScript apart from the notebook",
    "file_system": "Looked at files",
    "web_fetch": "Fetched a page",
    "calculator": "Calculated",
}

_KINDS = {
    "choose": "Chose how to go about it",
    "repair": "Fixed a cell by rule",
    "branch": "Branched",
    "adopt": "Took over a branch",
    "compact": "Summed up what was said",
    "correct": "Sent an answer back",
    "verify": "Ran the notebook from the top",
}


@dataclass(frozen=True, slots=True)
class CodeView:
    """Code that a step ran, and what it put out."""

    code: Markup
    state: str
    printed: str
    problem: str


@dataclass(frozen=True, slots=True)
class StepView:
    """One step."""

    number: int
    sentence: str
    branch: str
    """Empty on the main branch."""
    state: Literal["running", "unfinished", "ok", "failed"]
    """``unfinished``: it has no end, and nobody is at it any more."""
    seconds: float | None
    note: str
    said: str
    runs: tuple[CodeView, ...]


def entry_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step of a trace as an entry."""
    parts = (step.get("reply") or {}).get("parts", ())
    said = [part["content"] for part in parts if part.get("part_kind") == "text" and part.get("content")]
    names = ("kind", "role", "branch", "tool", "model", "took", "runs", "result", "note", "error")
    return {
        **{name: step.get(name) for name in names},
        "event": "began" if step["state"] == "open" else "ended",
        "step": step["number"],
        "failed": step["state"] == "failed",
        "text": "\n".join(said),
    }


def step_views(entries: Sequence[Entry], *, goes_on: bool) -> list[StepView]:
    """What happened, in order. What a model said last is left out where it is the answer."""
    steps: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if entry["event"] != "heard":
            steps[entry["step"]] = {**steps.get(entry["step"], {}), **entry}
    labels = {step.get("branch") or "main" for step in steps.values()}
    requests = [step for step in steps.values() if step["kind"] == "request"]
    answered = requests and any(step["kind"] == "answer" for step in steps.values())
    last = requests[-1]["step"] if answered else None
    return [
        _view(step, labels, goes_on=goes_on, says=step["step"] != last)
        for step in steps.values()
        if step["kind"] not in _UNTOLD
    ]


def words_of(entries: Sequence[Entry]) -> str:
    """The last words of a reply that is coming; empty where none is."""
    heard: dict[int, str] = {}
    for entry in entries:
        if entry["event"] == "ended" or entry.get("kind") == "again":
            heard.pop(entry["step"], None)
        elif entry["event"] == "heard":
            heard[entry["step"]] = heard.get(entry["step"], "") + entry["text"]
    words = next(reversed(heard.values()), "")
    return words if len(words) <= _HEARD else f"…{words[-_HEARD:]}"


def total_of(entries: Sequence[Entry]) -> Mapping[str, Any]:
    """What was spent up to the last step that ended."""
    nothing = {"tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "usd": 0.0, "requests": 0}
    return next((entry["total"] for entry in reversed(entries) if "total" in entry), nothing)


def _view(step: Entry, labels: set[str], *, goes_on: bool, says: bool) -> StepView:
    ended = step["event"] == "ended"
    note = step.get("note") or step.get("error") or ""
    return StepView(
        number=step["step"],
        sentence=_sentence(step),
        branch=_branch(step.get("branch") or "main", labels),
        state=_state(step, goes_on=goes_on),
        seconds=step["took"] if ended else None,
        note=cut_middle(note, _LONGEST),
        said=cut_middle(step.get("text") or "", _LONGEST) if says else "",
        runs=tuple(_codes(step.get("runs") or ())),
    )


def _state(step: Entry, *, goes_on: bool) -> Literal["running", "unfinished", "ok", "failed"]:
    if step["event"] != "ended":
        return "running" if goes_on else "unfinished"
    return "failed" if step["failed"] else "ok"


def _sentence(step: Entry) -> str:
    match step["kind"]:
        case "request":
            role = step.get("role") or "act"
            return f"Asked {step.get('model') or 'a model'}" + (f" ({role})" if role != "act" else "")
        case "call":
            tool = step.get("tool") or "a tool"
            return _DONE.get(tool, f"Called {tool}")
        case kind:
            return _KINDS.get(kind, str(kind))


def _branch(label: str, labels: set[str]) -> str:
    """``main.2`` as ``branch 2 of 3``."""
    above, dot, number = label.rpartition(".")
    if not dot:
        return ""
    beside = [one for one in labels if one.rpartition(".")[0] == above]
    within = _branch(above, labels)
    return f"branch {number} of {len(beside)}" + (f" of {within}" if within else "")


def _codes(runs: Sequence[Mapping[str, Any]]) -> Iterator[CodeView]:
    """Without those that did the same as the one before: a cell is run once more to find out why it failed."""
    before = None
    for run in runs:
        facts = tuple(run.get(name) or "" for name in ("code", "state", "stdout", "stderr"))
        if facts != before:
            code, state, printed, problem = facts
            yield CodeView(
                coloured(cut_middle(code, _LONGEST)),
                state,
                cut_middle(printed, _LONGEST),
                cut_middle(problem, _LONGEST),
            )
        before = facts


# Markdown of a model as a part of the page. Pure.

# The writer escapes what stands in texts and attributes, so that a tag is found by its marks.
_HEADING = re.compile(r"<h[1-6]\b|</h[1-6]>")

_ANCHOR = re.compile(r'<a class="anchor" [^>]*>#</a>')

_SCROLLED = re.compile(r'<div class="wide" tabindex="0">')


@functools.lru_cache(maxsize=256)
def prose_html(text: str, place: str) -> Markup:
    """A text as HTML; ``place`` is a name that nothing else on the page has."""
    html = ProseWriter(code_html, prefix=f"{place}-", styles="none").html(text, {})
    html = _HEADING.sub(lambda tag: "</h3>" if tag[0].startswith("</") else "<h3", html)
    html = _ANCHOR.sub("", html)
    html = _SCROLLED.sub('<div class="wide" tabindex="0" role="region" aria-label="Table">', html)
    return Markup(html)  # noqa: S704  # written by ``formats``, which lets nothing through


@functools.lru_cache(maxsize=512)
def coloured(code: str, language: str = "python") -> Markup:
    """Code as HTML. Kept, as a page that is live shows the same again and again."""
    return Markup(code_html(code, language))  # noqa: S704  # pygments escapes
