"""One session's executions: what the host's events do to them and to the document.

Live and in recovery the same functions fold the same events, so that a restart ends where the crash began.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from cellwright.engine.executions import Execution
from cellwright.engine.keeping import Keeper
from cellwright.engine.records import (
    FINAL_STATES,
    Batch,
    ExecutionRecord,
    Recorder,
    SessionRecord,
    put_execution,
)
from cellwright.hosts.protocol import Finished
from cellwright.notebook import (
    CellMetadataSet,
    DisplayUpdate,
    Document,
    OutputsSet,
    encode_change,
    ran_mark,
    updated_outputs,
)

__all__ = ["Runs", "cell_completed", "cell_started"]


def cell_started(document: Document, cell_id: str | None) -> None:
    """An execution began: what an earlier one showed is gone."""
    if cell_id is not None and cell_id in document:
        document.apply(OutputsSet(cell_id, [], None))


def cell_completed(document: Document, record: ExecutionRecord, outputs: list[dict[str, Any]]) -> None:
    """An execution ended: the cell shows its outputs and says how it went."""
    cell_id = record.cell_id
    if cell_id is None or cell_id not in document:
        return
    document.apply(OutputsSet(cell_id, outputs, record.execution_count))
    metadata = dict(document.cell(cell_id).metadata)
    ours = dict(metadata.get("cellwright") or {})
    ours.pop("stale", None)
    ours.pop("inputs", None)  # of the run before; whoever watches this one tells anew
    ours |= {
        "state": record.state,
        "seconds": round(record.seconds or 0.0, 3),
        "attempt": record.attempt,
        "generation": record.generation,
        "ran": ran_mark(record.source),
    }
    document.apply(CellMetadataSet(cell_id, {**metadata, "cellwright": ours}))


class Runs:
    """The executions of a session that are not over, and the newest of each cell."""

    def __init__(self, keeper: Keeper, recorder: Recorder) -> None:
        self._keeper = keeper
        self._recorder = recorder
        self._live: dict[str, Execution] = {}
        self._ending: list[Execution] = []
        """Ended, but the journal may not have that yet, and would give back one that never ends."""
        self._newest: dict[str, Execution] = {}
        self._attempts: dict[str, int] = {}
        self._unsynced: set[str] = set()
        self.count = 0
        self.to_undo: list[Execution] = []
        """Failed when no engine was there to see to it."""
        self.undo: Callable[[Execution], None] = Execution.settle
        """Sees to an execution that failed and is to leave no trace, and settles it then."""
        self.settle: Callable[[Execution], None] = Execution.settle
        """Sees to what any other one left, and settles it."""

    @property
    def live(self) -> list[Execution]:
        """Executions that have not ended, oldest first."""
        return list(self._live.values())

    @property
    def by_hand(self) -> frozenset[str]:
        """The cells whose newest execution is shown by whoever asked for it."""
        return frozenset(cell_id for cell_id, run in self._newest.items() if run.record.asker is not None)

    def find(self, execution_id: str) -> Execution | None:
        if execution_id in self._live:
            return self._live[execution_id]
        known = (*self._newest.values(), *self._ending)
        return next((run for run in known if run.id == execution_id), None)

    def adopt(self, execution: Execution) -> None:
        """Take in an execution from the journal, oldest first."""
        record = execution.record
        self.count = max(self.count, record.number)
        if record.cell_id is not None:
            self._attempts[record.cell_id] = max(self._attempts.get(record.cell_id, 0), record.attempt)
        if record.is_to_undo:
            self.to_undo.append(execution)
        if record.state not in FINAL_STATES:
            self._live[record.id] = execution
            if record.cell_id is not None:
                self._newest[record.cell_id] = execution

    def queue(self, batch: Batch, session: SessionRecord, record: ExecutionRecord) -> Execution:
        """Begin an execution: journalled as queued."""
        execution = Execution(record)
        self.adopt(execution)
        data = {"state": "queued", "attempt": record.attempt, "source": record.source}
        self._recorder.note(batch, "notebook.cell.executing", session, data, execution=record)
        batch.statements.append(put_execution(record))
        return execution

    def next_attempt(self, cell_id: str | None) -> int:
        return self._attempts.get(cell_id, 0) + 1 if cell_id is not None else 1

    # What the host tells -----------------------------------------------------------------------------------------

    def started(self, batch: Batch, session: SessionRecord, execution_id: str, at: float) -> None:
        execution = self._live.get(execution_id)
        if execution is None:
            return
        execution.record = replace(execution.record, state="running", started_at=at)
        cell_started(self._keeper.document, execution.cell_id)
        data = {"state": "running", "attempt": execution.record.attempt}
        self._recorder.note(
            batch, "notebook.cell.executing", session, data, execution=execution.record, at=at
        )
        batch.statements.append(put_execution(execution.record))

    def output(
        self, batch: Batch, session: SessionRecord, execution_id: str, kind: str, content: bytes, at: float
    ) -> None:
        execution = self.find(execution_id)
        if execution is None:
            return
        decoded = json.loads(content)
        update = execution.collector.add(kind, decoded)
        self._unsynced.add(execution.id)
        if update is not None:
            self._update_displays(batch, session, execution, update)
        data = {"type": kind, "content": decoded}
        self._recorder.note(batch, "notebook.cell.output", session, data, execution=execution.record, at=at)

    def finished(self, batch: Batch, session: SessionRecord, body: Finished, at: float) -> None:
        execution = self._live.pop(body.execution_id, None)
        if execution is None:
            return
        self._unsynced.discard(execution.id)
        self._ending = [one for one in self._ending if not one.settled] + [execution]
        record = execution.record = replace(
            execution.record,
            state=body.state,
            ended_at=at,
            seconds=body.seconds,
            execution_count=body.execution_count,
            error=body.error,
            reason=body.reason,
            dropped_bytes=body.dropped_bytes,
            dropped_messages=body.dropped_messages,
            exit_code=body.exit_code,
        )
        if record.started_at is not None:
            cell_completed(self._keeper.document, record, execution.outputs)
            self._keeper.dirty = True
        data = {
            "state": record.state,
            "seconds": record.seconds,
            "execution_count": record.execution_count,
            "error": record.error,
            "reason": record.reason,
            "dropped_bytes": record.dropped_bytes,
            "dropped_messages": record.dropped_messages,
        }
        self._recorder.note(batch, "notebook.cell.completed", session, data, execution=record, at=at)
        batch.statements.append(put_execution(record))
        if record.is_to_undo:
            batch.after.append(partial(self.undo, execution))
        else:
            batch.after.append(partial(self.settle, execution))

    def add_output(
        self,
        batch: Batch,
        session: SessionRecord,
        execution: Execution,
        kind: str,
        content: dict[str, Any],
    ) -> None:
        """Let an execution that has ended show something more: what was made of what it left."""
        execution.collector.add(kind, content)
        data = {"type": kind, "content": content}
        self._recorder.note(batch, "notebook.cell.output", session, data, execution=execution.record)
        cell_id, document = execution.cell_id, self._keeper.document
        if cell_id is None or cell_id not in document:
            return
        change = OutputsSet(cell_id, execution.outputs, execution.record.execution_count)
        document.apply(change)
        changed = {"cell_id": cell_id, "change": json.loads(encode_change(change))}
        self._recorder.note(batch, "notebook.state.changed", session, changed)
        self._keeper.dirty = True

    def sync(self) -> None:
        """Show in the document what running executions have put out so far."""
        while self._unsynced:
            execution = self.find(self._unsynced.pop())
            if (
                execution is None
                or execution.cell_id is None
                or execution.cell_id not in self._keeper.document
            ):
                continue
            count = execution.record.execution_count
            self._keeper.document.apply(OutputsSet(execution.cell_id, execution.outputs, count))
            self._keeper.dirty = True

    def _update_displays(
        self, batch: Batch, session: SessionRecord, source: Execution, update: DisplayUpdate
    ) -> None:
        document = self._keeper.document
        for cell_id, execution in self._newest.items():
            if execution is source or cell_id not in document:
                continue
            cell = document.cell(cell_id)
            outputs = updated_outputs(cell.outputs, execution.collector.displays, update)
            if outputs is not None:
                change = OutputsSet(cell_id, outputs, cell.execution_count)
                document.apply(change)
                data = {"cell_id": cell_id, "change": json.loads(encode_change(change))}
                self._recorder.note(batch, "notebook.state.changed", session, data)
                self._keeper.dirty = True
