"""One execution as the engine holds it: its record, its outputs so far, and whoever waits for its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace

from cellwright.audit import NOBODY, actor
from cellwright.engine._notebook_file import NotebookFile
from cellwright.engine.digests import note_digest_failures
from cellwright.engine.journal import Event
from cellwright.engine.records import (
    FINAL_STATES,
    Batch,
    ExecutionRecord,
    LeftFile,
    Recorder,
    SessionRecord,
    put_execution,
)
from cellwright.hosts.protocol import ExecutionState, Finished, earlier_failed, failed_earlier
from cellwright.notebook import (
    CellMetadataSet,
    Document,
    OutputCollector,
    OutputsSet,
    encode_change,
    ran_mark,
)
from cellwright.notebook.cells import TIMES_SECTION, RunTimes

__all__ = ["Execution", "Runs", "cell_completed", "cell_started", "text_of"]


class Execution:
    """A run of a cell that anyone may wait for. It belongs to the engine, not to whoever asked for it."""

    def __init__(self, record: ExecutionRecord, collector: OutputCollector | None = None) -> None:
        self.record = record
        self.collector = collector if collector is not None else OutputCollector()
        self.late: OutputCollector | None = None
        """What was said in its name after its end."""
        self._settled = record.state in FINAL_STATES
        self._expects_files = False
        # Made only while somebody waits: most executions are waited for once or never, and each is kept with its cell.
        self._changed: anyio.Event | None = None

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def session_id(self) -> str:
        return self.record.session_id

    @property
    def cell_id(self) -> str | None:
        return self.record.cell_id

    @property
    def state(self) -> ExecutionState:
        return self.record.state

    @property
    def ok(self) -> bool:
        return self.record.state == "ok"

    @property
    def done(self) -> bool:
        return self.record.state in FINAL_STATES

    @property
    def generation(self) -> int:
        return self.record.generation

    @property
    def seconds(self) -> float | None:
        return self.record.seconds

    @property
    def error(self) -> dict[str, Any] | None:
        """What the code raised, as ``ename``, ``evalue`` and ``traceback``."""
        return self.record.error

    @property
    def reason(self) -> str | None:
        """Why it did not end by itself, and the setting behind that."""
        return self.record.reason

    @property
    def files(self) -> tuple[LeftFile, ...]:
        """What it left in the working directory; known a moment after its end."""
        return self.record.files

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The outputs so far, as nbformat has them."""
        return self.collector.outputs

    @property
    def late_outputs(self) -> list[dict[str, Any]]:
        """What was said in its name after its end, by a thread of it or by anything else: no part of what it did."""
        return self.late.outputs if self.late is not None else []

    def add_late(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take in a message that came after its end."""
        if self.late is None:
            self.late = OutputCollector(keeps_updates=True)
        self.late.add(kind, content)

    @property
    def text(self) -> str:
        """What a terminal would have shown: streams, plain results and the error's last line."""
        return text_of(self.outputs)

    @property
    def settled(self) -> bool:
        """Whether it has ended, and that is journalled."""
        return self._settled

    async def wait(self, timeout_s: float | None = None) -> Execution:
        """Return when it has ended and that is journalled, or after ``timeout_s`` with it still running."""
        with anyio.move_on_after(timeout_s):
            while not self._settled:
                await self._change()
        return self

    async def wait_for_files(self, timeout_s: float) -> None:
        """Return when it is known what it left in the working directory, or after ``timeout_s``."""
        with anyio.move_on_after(timeout_s):
            while self._expects_files:
                await self._change()

    def expect_files(self) -> None:
        """Somebody will look at what it left."""
        self._expects_files = True

    def files_known(self) -> None:
        self._expects_files = False
        self._tell_change()

    def settle(self) -> None:
        """Release whoever waits; called once the end is in the journal."""
        self._settled = True
        self._tell_change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _tell_change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def __repr__(self) -> str:
        return f"<Execution {self.id} {self.state} of cell {self.cell_id}>"


def text_of(outputs: Iterable[Mapping[str, Any]]) -> str:
    """Outputs as a terminal would show them."""
    parts: list[str] = []
    for output in outputs:
        if output["output_type"] == "stream":
            parts.append(_joined(output["text"]))
        elif output["output_type"] == "error":
            parts.append(f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
        elif "text/plain" in output.get("data", {}):
            parts.append(_joined(output["data"]["text/plain"]) + "\n")
    return "".join(parts)


def _joined(text: Any) -> str:
    """A text as a file may have it: whole, in lines, or as something else altogether."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


# One session's executions: what the host's events do to them and to the document.


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
    times = RunTimes(record.started_at, record.ended_at).to_metadata()
    document.apply(CellMetadataSet(cell_id, {**metadata, "cellwright": ours, TIMES_SECTION: times}))


class Runs:
    """The executions of a session that are not over, and the newest of each cell."""

    def __init__(self, file: NotebookFile, recorder: Recorder, note_author: Callable[[Event], None]) -> None:
        self._file = file
        self._recorder = recorder
        self._note_author = note_author
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

    def newest(self, cell_id: str) -> Execution | None:
        """The newest execution of a cell, as far as it ran since the engine was opened."""
        return self._newest.get(cell_id)

    def late_outputs(self, cell_id: str) -> list[dict[str, Any]]:
        """What was said in the name of a cell after its newest execution had ended."""
        newest = self.newest(cell_id)
        return newest.late_outputs if newest is not None else []

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
        """Begin an execution: journalled as queued, and forgotten where the journal refuses that."""
        execution = Execution(record)
        batch.undo.append(partial(self._forget, execution, self._newest.get(record.cell_id or "")))
        self.adopt(execution)
        data: dict[str, Any] = {"state": "queued", "attempt": record.attempt, "source": record.source}
        if (by := actor()) != NOBODY:
            data["by"] = by
        event = self._recorder.note(batch, "notebook.cell.executing", session, data, execution=record)
        batch.after.append(partial(self._note_author, event))
        batch.statements.append(put_execution(record))
        return execution

    def _forget(self, execution: Execution, before: Execution | None) -> None:
        del self._live[execution.id]
        cell_id = execution.cell_id
        if cell_id is not None:
            self._attempts[cell_id] -= 1
            del self._newest[cell_id]
            if before is not None:
                self._newest[cell_id] = before

    def next_attempt(self, cell_id: str | None) -> int:
        return self._attempts.get(cell_id, 0) + 1 if cell_id is not None else 1

    # What the host tells -----------------------------------------------------------------------------------------

    def started(self, batch: Batch, session: SessionRecord, execution_id: str, at: float) -> None:
        execution = self._live.get(execution_id)
        if execution is None:
            return
        execution.record = replace(execution.record, state="running", started_at=at)
        self._file.alter(partial(cell_started, cell_id=execution.cell_id))
        data = {"state": "running", "attempt": execution.record.attempt}
        self._recorder.note(
            batch, "notebook.cell.executing", session, data, execution=execution.record, at=at
        )
        batch.statements.append(put_execution(execution.record))

    def output(
        self, batch: Batch, session: SessionRecord, execution_id: str, kind: str, content: bytes, at: float
    ) -> None:
        decoded = json.loads(content)
        execution = self._live.get(execution_id)
        if execution is None:
            self._late_output(batch, session, execution_id, {"type": kind, "content": decoded}, at)
            return
        display_id = execution.collector.add(kind, decoded)
        self._unsynced.add(execution.id)
        data = {"type": kind, "content": decoded}
        for earlier in self._showing(display_id, but=execution):
            self._late_output(batch, session, earlier.id, {**data, "by": execution.id}, at)
        self._recorder.note(batch, "notebook.cell.output", session, data, execution=execution.record, at=at)

    def finished(self, batch: Batch, session: SessionRecord, body: Finished, at: float) -> None:
        execution = self._live.pop(body.execution_id, None)
        if execution is None:
            return
        self._unsynced.discard(execution.id)
        if body.digest_failures:
            note_digest_failures(body.digest_failures)
        self._ending = [one for one in self._ending if not one.settled] + [execution]
        record = execution.record = replace(
            execution.record,
            state=body.state,
            ended_at=at,
            seconds=body.seconds,
            execution_count=body.execution_count,
            error=body.error,
            reason=self._in_cells(body.reason),
            dropped_bytes=body.dropped_bytes,
            dropped_messages=body.dropped_messages,
            exit_code=body.exit_code,
        )
        if record.started_at is not None:
            self._file.alter(partial(cell_completed, record=record, outputs=execution.outputs))
            self._file.dirty = True
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

    def _in_cells(self, reason: str | None) -> str | None:
        """A host's reason with a cell where it names an execution that failed: hosts know no cells."""
        if reason is None:
            return None
        failed = self.find(failed_earlier(reason) or "")
        return earlier_failed(failed.cell_id) if failed is not None and failed.cell_id else reason

    def end_live(
        self,
        batch: Batch,
        session: SessionRecord,
        state: ExecutionState,
        reason: str,
        but: Container[str | None] = (),
    ) -> None:
        """End what has not ended, except for the executions ``but``, which go on."""
        for execution in self.live:
            if execution.id not in but:
                self.finished(batch, session, Finished(execution.id, state, 0.0, reason=reason), time.time())

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
        cell_id = execution.cell_id
        if cell_id is None or cell_id not in self._file.document:
            return
        change = OutputsSet(cell_id, execution.outputs, execution.record.execution_count)
        self._file.alter(partial(Document.apply, change=change))
        changed = {"cell_id": cell_id, "change": json.loads(encode_change(change))}
        self._recorder.note(batch, "notebook.state.changed", session, changed)
        self._file.dirty = True

    def sync(self) -> None:
        """Show in the document what running executions have put out so far."""
        while self._unsynced:
            execution = self.find(self._unsynced.pop())
            if execution is None or execution.cell_id is None or execution.cell_id not in self._file.document:
                continue
            count = execution.record.execution_count
            change = OutputsSet(execution.cell_id, execution.outputs, count)
            self._file.alter(partial(Document.apply, change=change))
            self._file.dirty = True

    def late_output(
        self, batch: Batch, session: SessionRecord, execution_id: str, message: Mapping[str, Any]
    ) -> None:
        """Keep what a widget of an execution put out when somebody used it."""
        kind, content = message.get("type"), message.get("content")
        if isinstance(kind, str) and isinstance(content, dict):
            self._late_output(batch, session, execution_id, {"type": kind, "content": content}, time.time())

    def _showing(self, display_id: str | None, *, but: Execution) -> list[Execution]:
        """The executions whose outputs show a display, besides one."""
        if display_id is None:
            return []
        known = [execution for execution in self._newest.values() if execution is not but]
        return [execution for execution in known if execution.collector.shows(display_id)]

    def _late_output(
        self, batch: Batch, session: SessionRecord, execution_id: str, data: dict[str, Any], at: float
    ) -> None:
        """Keep what is said for an execution that has ended apart from its outputs: anything may say so."""
        execution = self.find(execution_id)
        record = execution.record if execution is not None else self._recorder.recorded(execution_id)
        if record is None or record.session_id != session.id:
            return
        first = execution is None or not execution.late_outputs
        if execution is not None:
            execution.add_late(data["type"], data["content"])
        details = {**data, "first": first}
        self._recorder.note(batch, "notebook.cell.late_output", session, details, execution=record, at=at)
