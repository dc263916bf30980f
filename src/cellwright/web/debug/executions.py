"""What ran in a session, whoever asked for it: every attempt with what was changed, its streams and its times, and the raw events."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

import anyio.to_thread
import msgspec
from starlette.responses import Response

from cellwright.engine import Execution
from cellwright.formats.display_data import bare_text, exhibits_of
from cellwright.web.debug.waterfall import WIDTH, Span, waterfall
from cellwright.web.diffs import DiffLine, diff_lines
from cellwright.web.downloads import attachment
from cellwright.web.requests import PageRequest, page

__all__ = ["ROUTES"]

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
class Choice:
    """Which executions are wanted; what is empty does not narrow."""

    cell: str = ""
    search: str = ""
    failed: bool = False

    @property
    def narrows(self) -> bool:
        return self != Choice()

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
    choice = Choice(asked.get("cell", "")[:500], asked.get("search", "")[:500], asked.get("failed") == "yes")
    wanted = [one for one in await anyio.to_thread.run_sync(_ran, history) if choice.fits(one)]
    return request.html(
        "session_debug.html",
        title=f"{session.name}: what ran",
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


async def _export(request: PageRequest) -> Response:
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


ROUTES = [
    page("/sessions/{session_id}/debug", _executions),
    page("/sessions/{session_id}/executions.json", _export),
    page("/sessions/{session_id}/events", _events),
]
