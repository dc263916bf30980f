"""Rebuilds sessions from the journal: the last saved document, the events since, and the executions not yet over.

Only reads. It folds with the same functions that the live engine uses, so both end at the same document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from cellwright.engine._executions import Execution, cell_completed, cell_started
from cellwright.engine._notebook_file import NotebookFile
from cellwright.engine.journal import Event, Journal
from cellwright.engine.records import FINAL_STATES, ExecutionRecord, SessionRecord, Span
from cellwright.errors import UnknownExecution
from cellwright.notebook import Document, FileState, decode_change

__all__ = ["load_execution", "load_executions", "load_file", "load_session_records", "read_event_rows"]


def load_session_records(journal: Journal) -> list[SessionRecord]:
    rows = journal.read("SELECT record FROM sessions")
    records = [msgspec.json.decode(row[0], type=SessionRecord) for row in rows]
    # What was adopted is another's history now.
    living = [record for record in records if record.adopted_by is None]
    return sorted(living, key=lambda record: record.created_at)


def load_session_record(journal: Journal, session_id: str) -> SessionRecord | None:
    rows = journal.read("SELECT record FROM sessions WHERE id = ?", (session_id,))
    return msgspec.json.decode(rows[0][0], type=SessionRecord) if rows else None


def load_adopted(journal: Journal, session_id: str) -> list[str]:
    """The branches that a session took back, which are kept for their history only."""
    rows = journal.read("SELECT record FROM sessions")
    records = [msgspec.json.decode(row[0], type=SessionRecord) for row in rows]
    return [record.id for record in records if record.adopted_by == session_id]


def load_file(journal: Journal, record: SessionRecord) -> NotebookFile:
    """Rebuild a session's document: as last in common with its file, then every event since."""
    query = "SELECT seq, content, versions, file FROM documents WHERE session = ?"
    seq, content, versions, stat = journal.read(query, (record.id,))[0]
    base = Document.from_bytes(content.encode(), name=record.path)
    base.restore_versions(json.loads(versions))
    document = base.copy()
    events = read_event_rows(journal, "session = ? AND seq > ?", (record.id, seq))
    for event in events:
        _fold(journal, document, event)
    state = FileState(**json.loads(stat)) if stat is not None else None
    file = NotebookFile(Path(record.path), document, base=base, file=state, seq=seq)
    file.dirty = bool(events)
    return file


def load_executions(
    journal: Journal, session_id: str, *, cell_id: str | None = None, after: int = 0, outputs: bool = True
) -> list[Execution]:
    """Every execution of a session, or of one of its cells, with a number above ``after``, oldest first."""
    condition, parameters = "session = ? AND number > ?", [session_id, after]
    if cell_id is not None:
        condition, parameters = condition + " AND cell = ?", [*parameters, cell_id]
    rows = journal.read(f"SELECT record FROM executions WHERE {condition} ORDER BY number", tuple(parameters))  # noqa: S608  # only the lines above
    records = [msgspec.json.decode(row[0], type=ExecutionRecord) for row in rows]
    return [_with_outputs(journal, record) if outputs else Execution(record) for record in records]


def load_lineage(journal: Journal, session_id: str, lineage: Sequence[Span]) -> list[ExecutionRecord]:
    """Every execution of a session, and those of others that its lineage names."""
    own = [execution.record for execution in load_executions(journal, session_id, outputs=False)]
    others = [
        execution.record
        for other in {span.session for span in lineage} - {None, session_id}
        for execution in load_executions(journal, str(other), outputs=False)
        if any(
            span.session == other
            and span.generation == execution.record.generation
            and (span.upto is None or execution.record.number < span.upto)
            for span in lineage
        )
    ]
    return [*others, *own]


def refuse_if_let_go(journal: Journal, session: SessionRecord, lineage: Sequence[Span]) -> None:
    """Refuse to make a state again of which something that made it is no longer kept (see ``_background.Retention``).

    Raises:
        UnknownExecution: it is not.
    """
    for span in lineage:
        own = span.session in (None, session.id)
        record = session if own else load_session_record(journal, str(span.session))
        if record is not None and span.generation <= record.let_go:
            raise UnknownExecution(
                f"Part of what made the state of session {session.id} is no longer kept",
                hint="Run the notebook's cells instead; history_days and max_journal say how much history is kept",
            )


def load_execution(journal: Journal, execution_id: str) -> Execution | None:
    rows = journal.read("SELECT record FROM executions WHERE id = ?", (execution_id,))
    return _with_outputs(journal, msgspec.json.decode(rows[0][0], type=ExecutionRecord)) if rows else None


def load_live_executions(journal: Journal, session_id: str) -> list[Execution]:
    """All executions of a session for taking it up again; only those that are not over carry outputs."""
    return [
        execution if execution.record.state in FINAL_STATES else _with_outputs(journal, execution.record)
        for execution in load_executions(journal, session_id, outputs=False)
    ]


def read_event_rows(
    journal: Journal, condition: str, parameters: tuple[Any, ...], limit: int = -1
) -> list[Event]:
    query = (
        "SELECT seq, time, kind, session, generation, cell, execution, data FROM events "  # noqa: S608  # conditions come from this package
        f"WHERE {condition} ORDER BY seq LIMIT ?"
    )
    return [_event(row) for row in journal.read(query, (*parameters, limit))]


def _event(row: tuple[Any, ...]) -> Event:
    seq, at, kind, session_id, generation, cell_id, execution_id, data = row
    return Event(seq, at, kind, session_id, generation, cell_id, execution_id, json.loads(data))


def _fold(journal: Journal, document: Document, event: Event) -> None:
    match event.kind:
        case "notebook.state.changed" if "change" in event.data:
            document.apply(decode_change(json.dumps(event.data["change"]).encode()))
        case "notebook.cell.executing" if event.data["state"] == "running":
            cell_started(document, event.cell_id)
        case "notebook.cell.completed":
            execution = load_execution(journal, event.execution_id or "")
            if execution is not None and execution.record.started_at is not None:
                cell_completed(document, execution.record, execution.outputs)
        case _:
            pass


def _with_outputs(journal: Journal, record: ExecutionRecord) -> Execution:
    execution = Execution(record)
    condition = "execution = ? AND kind IN ('notebook.cell.output', 'notebook.cell.late_output')"
    for event in read_event_rows(journal, condition, (record.id,)):
        is_late = event.kind == "notebook.cell.late_output"
        add = execution.add_late if is_late else execution.collector.add
        add(event.data["type"], event.data["content"])
    return execution
