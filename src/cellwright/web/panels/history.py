"""Every execution of a session, the newest first: how it ended, what ran, which cell it was and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from cellwright.engine import Execution
from cellwright.engine.records import ExecutionRecord
from cellwright.engine.timeline import places_of
from cellwright.errors import UnknownExecution
from cellwright.formats.display_data import (
    PICTURES,
    Exhibit,
    bare_text,
    cut_text,
    exhibits_of,
    picture_bytes,
)
from cellwright.formats.highlight import code_html
from cellwright.notebook.cells import RunTimes
from cellwright.web.requests import PageRequest, page

__all__ = [
    "ROUTES",
    "Shown",
    "history",
    "history_page",
    "remarks_on",
    "shown_outputs",
]

STATES = ("ok", "error", "timeout", "interrupted", "died", "running", "queued")

_PAGE = 30

_LINE = 80


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some executions, and the number before which the next older ones are; None where these are the oldest."""

    runs: list[Execution]
    older: int | None


async def history(request: PageRequest) -> dict[str, Any]:
    """A page of the executions that were asked for."""
    session, asked = request.session(), request.http.query_params
    cell_id, state = asked.get("cell") or None, asked.get("state") or None
    found = await request.engine.history(session.id, cell_id=cell_id, outputs=False)
    said = asked.get("before", "")
    before = int(said) if said.isdecimal() and len(said) < 12 else None  # more than anything ran
    # Those that go on are known better by the session than by the journal.
    known = [session.runs.find(one.id) or one for one in found]
    shown = history_page(known, state=state, before=before)
    return {
        "runs": shown.runs,
        "older": shown.older,
        "is_first": before is None,
        "cell": cell_id or "",
        "state": state or "",
        "states": STATES,
        "places": places_of(session.cells),
        "first_line": _first_line,
        "remarks": remarks_on,
        "times": lambda record: RunTimes(record.started_at, record.ended_at),
        "code": lambda record: Markup(code_html(record.source, record.language or session.language)),  # noqa: S704  # pygments escapes
    }


def history_page(found: Iterable[Execution], *, state: str | None, before: int | None) -> HistoryPage:
    """The newest first, of one state where one is named, below a number where one is given."""
    wanted = [
        one
        for one in found
        if (state is None or one.state == state) and (before is None or one.record.number < before)
    ]
    wanted.reverse()
    is_more = len(wanted) > _PAGE
    runs = wanted[:_PAGE]
    return HistoryPage(runs, runs[-1].record.number if is_more else None)


def remarks_on(record: ExecutionRecord) -> list[str]:
    """What else is to be said of a run, in few words."""
    told = (
        f"attempt {record.attempt}" if record.attempt > 1 else None,
        "rolled back: it failed and left no trace" if record.rolled_back else None,
        "undone" if record.undone and not record.rolled_back else None,
        "run again" if record.replays is not None else None,
        f"by {record.asker.client}" if record.asker is not None else None,
        f"no checkpoint: {record.no_checkpoint}" if record.no_checkpoint is not None else None,
        record.reason,
        record.note,
    )
    return [words for words in told if words]


def _first_line(source: str) -> str:
    line = next((line.strip() for line in source.splitlines() if line.strip()), "")
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


async def _outputs(request: PageRequest) -> Response:
    session, execution_id = request.session(), request.http.path_params["execution_id"]
    execution = request.engine.execution(execution_id)
    if execution.session_id != session.id:
        raise UnknownExecution(f"Session {session.id} has no execution {execution_id!r}")
    return request.fragment(
        "outputs_past.html",
        outputs=shown_outputs(execution.outputs),
        late=shown_outputs(execution.late_outputs),
    )


ROUTES = (page("/sessions/{session_id}/executions/{execution_id}/outputs", _outputs),)


# Outputs as texts and pictures that stand for themselves: what ran once, beside what a cell shows now. Pure.

_CHARACTERS = 20_000

_LINES = 300

_MOST_OUTPUTS = 50

_PICTURE_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Shown:
    """One output: its text, and its picture where it has one."""

    kind: str
    text: str
    picture: str | None = None
    """As a link that holds it."""
    description: str = ""


def shown_outputs(outputs: Iterable[Any]) -> list[Shown]:
    """Each output in order; what is too long or too many is cut, and that is said."""
    exhibits = exhibits_of(outputs)
    shown = [_shown(exhibit) for exhibit in exhibits[:_MOST_OUTPUTS]]
    if len(exhibits) > _MOST_OUTPUTS:
        shown.append(
            Shown("display", f"… {len(exhibits) - _MOST_OUTPUTS:,} more outputs are left out here …")
        )
    return shown


def _shown(exhibit: Exhibit) -> Shown:
    forms = exhibit.forms or {}
    head, left_out, tail = cut_text(bare_text(exhibit.plain), characters=_CHARACTERS, lines=_LINES)
    text = f"{head}\n{left_out}\n{tail}" if left_out else head
    if not text and forms:
        text = f"({', '.join(sorted(forms))})"
    for mime in PICTURES:
        content = forms.get(mime, "")
        if content and len(content) <= _PICTURE_CHARACTERS and picture_bytes(mime, content) is not None:
            link = f"data:{mime};base64,{''.join(content.split())}"
            return Shown(exhibit.kind, text, link, exhibit.description)
    return Shown(exhibit.kind, text)
