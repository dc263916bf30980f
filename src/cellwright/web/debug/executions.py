"""What ran in a session, whoever asked for it: every attempt with what was changed, its streams and its times, and the raw events."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

import anyio.to_thread
from starlette.responses import Response

from cellwright.engine import Execution
from cellwright.formats.exhibits import bare_text, exhibits_of
from cellwright.web.debug.waterfall import WIDTH, Span, waterfall
from cellwright.web.diffs import DiffLine, diff_lines
from cellwright.web.visits import Visit, page

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


async def _executions(visit: Visit) -> Response:
    session = visit.session()
    history = await visit.engine.history(session.id, after=max(session.runs.count - _MOST, 0))
    ran = await anyio.to_thread.run_sync(_ran, history)
    return visit.html(
        "session_debug.html",
        title=f"{session.name}: what ran",
        session=session,
        ran=ran[::-1],
        bars=waterfall(_span(one) for one in history),
        width=WIDTH,
        most=_MOST,
    )


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


async def _events(visit: Visit) -> Response:
    """Raw events, a page at a time."""
    session = visit.session()
    asked = visit.request.query_params.get("since", "0")
    since = int(asked) if asked.isdecimal() and len(asked) < 19 else 0  # noqa: PLR2004  # what fits the journal
    events = visit.engine.events(since=since, session_id=session.id, limit=_EVENTS)
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
    return visit.fragment("session_events.html", session=session, events=lines, after=after)


ROUTES = [
    page("/sessions/{session_id}/debug", _executions),
    page("/sessions/{session_id}/events", _events),
]
