"""Runs of the data agent: a list of them, one as a whole, and each of its steps."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlencode

import anyio.to_thread
import msgspec
from starlette.responses import Response

from cellwright.engine import Execution
from cellwright.errors import CellwrightError, UnknownRun
from cellwright.formats.display_data import bare_text, exhibits_of
from cellwright.web._live import Change, LiveResponse
from cellwright.web._templates import DiffLine, diff_lines, render
from cellwright.web.requests import PageRequest, attachment, page

if TYPE_CHECKING:
    from cellwright.delegation import Delegate, DelegatedRun

__all__ = ["WIDTH", "Span", "StepFilter", "attempts_in", "chosen", "messages_of", "span_of", "waterfall"]

_PART = "run"

_WAIT_S = 15.0

_MOST_CONVERSATIONS = 200


async def _runs(request: PageRequest) -> Response:
    delegate = request.site.delegate
    found: list[dict[str, Any]] = []
    live = {run.id for run in delegate.live()}
    for brief in (await delegate.conversations())[:_MOST_CONVERSATIONS]:
        if brief.get("trouble"):
            continue
        try:
            conversation = await delegate.conversation(brief["id"])
        except CellwrightError:  # it was deleted meanwhile, or cannot be read: the others are there
            continue
        found += [
            {**run, "conversation_id": brief["id"], "going_on": run["run_id"] in live}
            for run in conversation["runs"]
        ]
    found.sort(key=lambda run: run["began"], reverse=True)
    return request.html("runs.html", title="Runs", runs=found)


async def _run(request: PageRequest) -> Response:
    run_id = request.http.path_params["run_id"]
    trace = await request.site.delegate.trace(run_id)
    choice = _choice(request)
    values = _values(trace, choice)
    return request.html(
        "run.html", title=f"Run {run_id}", query=_query(choice), going_on=_going_on(request), **values
    )


def _values(trace: dict[str, Any], choice: StepFilter) -> dict[str, Any]:
    steps = trace["steps"]
    now = time.time()
    wanted = chosen(steps, choice)
    return {
        "trace": trace,
        "choice": choice,
        "steps": wanted,
        "bars": waterfall(span_of(step, now) for step in wanted),
        "width": WIDTH,
        "cells": attempts_in(wanted),
        "kinds": sorted({step["kind"] for step in steps}),
        "roles": sorted({step["role"] for step in steps if step.get("role")}),
        "branches": sorted({step["branch"] for step in steps if step.get("branch")}),
        "sessions": sorted({step["session_id"] for step in steps if step.get("session_id")}),
    }


def _choice(request: PageRequest) -> StepFilter:
    asked = request.http.query_params
    texts = {name: asked.get(name, "")[:500] for name in ("kind", "role", "branch", "search")}
    return StepFilter(**texts, failed=asked.get("failed") == "yes")


def _query(choice: StepFilter) -> str:
    """The choice as a part of an address."""
    said = {name: getattr(choice, name) for name in ("kind", "role", "branch", "search")}
    return urlencode(
        {name: value for name, value in said.items() if value} | ({"failed": "yes"} if choice.failed else {})
    )


def _going_on(request: PageRequest) -> bool:
    try:
        return not request.site.delegate.run(request.http.path_params["run_id"]).done
    except UnknownRun:
        return False


async def _step(request: PageRequest) -> Response:
    run_id, number = request.http.path_params["run_id"], request.http.path_params["number"]
    trace = await request.site.delegate.trace(run_id)
    step = next((one for one in trace["steps"] if one["number"] == number), None)
    if step is None:
        raise UnknownRun(f"Run {run_id} has no step {number}", hint="Load the run again")
    attempts = [
        (cell, attempt)
        for cell, tries in attempts_in(trace["steps"]).items()
        for attempt in tries
        if attempt.step == number
    ]
    return request.fragment(
        "run_step.html",
        step=step,
        prompt=list(messages_of(step.get("prompt") or ())),
        reply=list(messages_of([step["reply"]] if step.get("reply") else ())),
        arguments=json.dumps(step.get("arguments"), ensure_ascii=False, indent=2)
        if step.get("arguments")
        else "",
        attempts=attempts,
    )


async def _export_run(request: PageRequest) -> Response:
    run_id = request.http.path_params["run_id"]
    trace = await request.site.delegate.trace(run_id)
    body = json.dumps(trace, ensure_ascii=False, indent=1).encode(errors="replace")
    return Response(body, media_type="application/json", headers=attachment(f"{run_id}.json"))


class _Source:
    """A run as one part, while it goes on."""

    def __init__(self, delegate: Delegate, run_id: str, run: DelegatedRun | None, choice: StepFilter) -> None:
        self._delegate = delegate
        self._id = run_id
        self._run = run
        self._choice = choice

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        last = since or 0
        if self._run is None:  # the daemon that it went on in is gone, and it with that
            yield Change(last + 1, frozenset({_PART}))
            return
        while True:
            over = self._run.done
            told = self._run.entries(last)
            # Words that come one by one change nothing here.
            if any(entry["event"] != "heard" for entry in told) or over:
                yield Change(told[-1]["number"] if told else last, frozenset({_PART}))
            if over:
                return
            last = told[-1]["number"] if told else last
            await self._run.changed(last, _WAIT_S)

    async def render(self, part: str, upto: int) -> str | None:
        del part, upto  # there is one, and it is made from the log as it is
        values = _values(await self._delegate.trace(self._id), self._choice)
        going_on = self._run is not None and not self._run.done
        return render("run_content.html", query=_query(self._choice), going_on=going_on, **values)


async def _live(request: PageRequest) -> Response:
    delegate, run_id = request.site.delegate, request.http.path_params["run_id"]
    try:
        run = delegate.run(run_id)
    except UnknownRun:
        await delegate.trace(run_id)  # one that never was is not found
        run = None
    return LiveResponse(request.http, _Source(delegate, run_id, run, _choice(request)))


_RUN_PAGES = [
    page("/runs", _runs),
    page("/runs/{run_id}", _run),
    page("/runs/{run_id}/live", _live),
    page("/runs/{run_id}/steps/{number:int}", _step),
    page("/runs/{run_id}/trace.json", _export_run),
]

# A trace's steps as the page shows them: a line each, chosen by what is asked for, and one in full. Pure.


@dataclass(frozen=True, slots=True)
class StepFilter:
    """Which steps are wanted; what is empty does not narrow."""

    kind: str = ""
    role: str = ""
    branch: str = ""
    failed: bool = False
    search: str = ""

    @property
    def narrows(self) -> bool:
        return self != StepFilter()


def chosen(steps: Iterable[Mapping[str, Any]], choice: StepFilter) -> list[Mapping[str, Any]]:
    """The steps that are wanted, in order."""
    return [step for step in steps if _fits(step, choice)]


def _fits(step: Mapping[str, Any], choice: StepFilter) -> bool:
    for name in ("kind", "role", "branch"):
        wanted = getattr(choice, name)
        if wanted and (step.get(name) or "") != wanted:
            return False
    if choice.failed and step.get("state") == "ok":
        return False
    return not choice.search or _holds(step, choice.search.casefold())


def _holds(value: Any, wanted: str) -> bool:
    """Whether a text is anywhere in it."""
    if isinstance(value, str):
        return wanted in value.casefold()
    if isinstance(value, Mapping):
        return any(_holds(inner, wanted) for inner in value.values())
    if isinstance(value, Sequence):
        return any(_holds(inner, wanted) for inner in value)
    return wanted == str(value)


def span_of(step: Mapping[str, Any], now: float) -> Span:
    """A step on the line of time; one that goes on lasts until now."""
    seconds = step.get("seconds") or {}
    took = step.get("took")
    about = step.get("tool") or step.get("model") or ""
    return Span(
        key=str(step["number"]),
        label=f"{step['number']} {step['kind']} {about}".strip(),
        began=step["began"],
        took=took if took is not None else max(now - step["began"], 0.0),
        spent=tuple((name, seconds.get(name) or 0.0) for name in ("engine", "kernel", "model")),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A piece of a prompt or of a reply."""

    role: str
    """``system``, ``user``, ``tool``, ``assistant``, ``thinking``, ``call``."""
    text: str
    name: str = ""
    """Of a tool."""


_ROLES = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "tool",
    "text": "assistant",
    "thinking": "thinking",
    "tool-call": "call",
}


def messages_of(messages: Iterable[Any]) -> Iterator[Message]:
    """The pieces of messages as pydantic-ai writes them, in order; what is unknown is shown as it is."""
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if instructions := message.get("instructions"):
            yield Message("system", str(instructions))
        for part in message.get("parts") or ():
            kind = str(part.get("part_kind", ""))
            content = part.get("args") if kind == "tool-call" else part.get("content")
            yield Message(_ROLES.get(kind, kind or "part"), _text(content), str(part.get("tool_name") or ""))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(one, str) for one in content):
        return "\n".join(content)
    return json.dumps(content, ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time that a cell ran, with what was changed since the time before."""

    step: int
    number: int
    code: str
    state: str
    stdout: str
    stderr: str
    seconds: float | None
    changed: tuple[DiffLine, ...] = field(default=())


def attempts_in(steps: Iterable[Mapping[str, Any]]) -> dict[str, list[Attempt]]:
    """Every run of every cell, by the cell; code in no cell is by its session."""
    found: dict[str, list[Attempt]] = {}
    for step in steps:
        for run in step.get("runs") or ():
            key = run.get("cell_id") or f"code in {step.get('session_id') or 'no session'}"
            earlier = found.setdefault(key, [])
            code = str(run.get("code") or "")
            changed = diff_lines(earlier[-1].code, code) if earlier and earlier[-1].code != code else []
            earlier.append(
                Attempt(
                    step["number"],
                    len(earlier) + 1,
                    code,
                    str(run.get("state") or ""),
                    str(run.get("stdout") or ""),
                    str(run.get("stderr") or ""),
                    run.get("seconds"),
                    tuple(changed),
                )
            )
    return found


# What ran in a session, whoever asked for it: every attempt with what was changed, its streams and its
# times, and the raw events.

_MOST = 200

_EVENTS = 200

_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Ran:
    """An execution, and what was changed since the one of the same cell before it."""

    execution: Execution
    stdout: str
    stderr: str
    changed: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """Which executions are wanted; what is empty does not narrow."""

    cell: str = ""
    search: str = ""
    failed: bool = False

    @property
    def narrows(self) -> bool:
        return self != ExecutionFilter()

    def fits(self, ran: Ran) -> bool:
        run = ran.execution
        texts = (run.id, run.record.source, ran.stdout, ran.stderr, run.reason or "")
        return (
            self.cell in ("", run.cell_id)
            and not (self.failed and run.state == "ok")
            and any(self.search.casefold() in text.casefold() for text in texts)
        )


async def _executions(request: PageRequest) -> Response:
    session = request.session()
    history = await _newest(request)
    asked = request.http.query_params
    choice = ExecutionFilter(
        asked.get("cell", "")[:500], asked.get("search", "")[:500], asked.get("failed") == "yes"
    )
    wanted = [one for one in await anyio.to_thread.run_sync(_ran, history) if choice.fits(one)]
    return request.html(
        "session_debug.html",
        title=f"{session.title}: what ran",
        session=session,
        ran=wanted[::-1],
        cells=sorted({one.cell_id for one in history if one.cell_id is not None}),
        choice=choice,
        bars=waterfall(_span(one.execution) for one in wanted),
        width=WIDTH,
        most=_MOST,
    )


async def _newest(request: PageRequest) -> list[Execution]:
    session = request.session()
    return await request.engine.history(session.id, after=max(session.runs.count - _MOST, 0))


async def _export_executions(request: PageRequest) -> Response:
    """The same as data, with all that was put out."""
    told = [msgspec.to_builtins(one.record) | {"outputs": one.outputs} for one in await _newest(request)]
    body = json.dumps(told, indent=1)
    name = f"{request.session().name} executions.json"
    return Response(body, media_type="application/json", headers=attachment(name))


def _ran(history: list[Execution]) -> list[Ran]:
    found, sources = [], dict[str, str]()
    for execution in history:
        source, cell_id = execution.record.source, execution.cell_id
        before = sources.get(cell_id) if cell_id is not None else None
        changed = diff_lines(before, source) if before is not None and before != source else []
        if cell_id is not None:
            sources[cell_id] = source
        exhibits = exhibits_of(execution.outputs)
        errors = "".join(bare_text(one.text) for one in exhibits if one.kind in {"stderr", "error"})
        told = "".join(
            bare_text(one.plain) + "\n" * (one.kind != "stdout")
            for one in exhibits
            if one.kind not in {"stderr", "error"}
        )
        found.append(Ran(execution, _cut(told), _cut(errors), tuple(changed)))
    return found


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n[{len(text) - _LONGEST:,} more characters: the notebook's page has all]"


def _span(execution: Execution) -> Span:
    record = execution.record
    ended = record.ended_at or time.time()
    started = record.started_at or ended
    spent = (("queue", started - record.queued_at), ("kernel", ended - started))
    label = f"{execution.cell_id or 'code'} {execution.state}"
    return Span(execution.id, label, record.queued_at, ended - record.queued_at, spent)  # type: ignore[arg-type]


async def _events(request: PageRequest) -> Response:
    """Raw events, a page at a time."""
    session = request.session()
    asked = request.http.query_params.get("since", "0")
    since = int(asked) if asked.isdecimal() and len(asked) < 19 else 0  # what fits the journal
    events = request.engine.events(since=since, session_id=session.id, limit=_EVENTS)
    lines: list[dict[str, Any]] = [
        {
            "seq": one.seq,
            "kind": one.kind,
            "time": one.time,
            "text": json.dumps(asdict(one), ensure_ascii=False)[:_LONGEST],
        }
        for one in events
    ]
    after = events[-1].seq if len(events) == _EVENTS else None
    return request.fragment("session_events.html", session=session, events=lines, after=after)


_EXECUTION_PAGES = [
    page("/sessions/{session_id}/debug", _executions),
    page("/sessions/{session_id}/executions.json", _export_executions),
    page("/sessions/{session_id}/events", _events),
]


# Where the time went: each step as a bar on one line of time, in parts for model, kernel, engine and queue.
# Pure.

Spent: TypeAlias = Literal["queue", "model", "kernel", "engine", "other"]

WIDTH = 1_000
"""Units from the first beginning to the last end."""

_THINNEST = 2.0


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time, and on what."""

    key: str
    label: str
    began: float
    took: float
    spent: Sequence[tuple[Spent, float]] = ()
    """In the order in which it was spent; what is missing to ``took`` is ``other``."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar."""

    spent: Spent
    x: float
    width: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as it is drawn."""

    key: str
    label: str
    row: int
    after: float
    """Seconds from the beginning of all."""
    took: float
    parts: tuple[Part, ...]


def waterfall(spans: Iterable[Span]) -> list[Bar]:
    """Bars in the order in which they began, one below the other."""
    ordered = sorted(spans, key=lambda span: span.began)
    if not ordered:
        return []
    start = ordered[0].began
    whole = max(max(span.began + span.took for span in ordered) - start, 1e-9)
    return [
        Bar(
            span.key,
            span.label,
            row,
            span.began - start,
            span.took,
            tuple(_parts(span, (span.began - start) / whole * WIDTH, WIDTH / whole)),
        )
        for row, span in enumerate(ordered)
    ]


def _parts(span: Span, x: float, scale: float) -> Iterable[Part]:
    known = [(spent, seconds) for spent, seconds in span.spent if seconds > 0]
    total = sum(seconds for _, seconds in known)
    # Clocks of three processes: what they measured may add up to a little more than the step took.
    shrink = min(1.0, span.took / total) if total else 1.0
    rest = span.took - total * shrink
    pieces = [*((spent, seconds * shrink) for spent, seconds in known), ("other", rest)]
    drawn = [
        (spent, seconds) for spent, seconds in pieces if seconds * scale >= 0.5
    ] or [  # half a unit is not seen
        max(pieces, key=lambda piece: piece[1])
    ]
    for spent, seconds in drawn:
        width = max(seconds * scale, _THINNEST)
        yield Part(spent, round(min(x, WIDTH - _THINNEST), 2), round(width, 2), seconds)
        x += width


# What a run did, for whoever wants to know exactly: prompts, code, calls, times and money, step by step.

ROUTES = [*_RUN_PAGES, *_EXECUTION_PAGES]
