"""A session's checkpoints: taking and dropping them, going back to one, and letting one take over from a dead kernel.

What a frozen kernel is stands in ``kernels``; which checkpoints are kept is the host's to decide. How a state is made
again without one is ``replay``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

import anyio
from msgspec import to_builtins
from msgspec.structs import replace

from cellwright.engine import _recovery
from cellwright.engine._context import SessionContext
from cellwright.engine._document import SessionDocument
from cellwright.engine._executions import Execution
from cellwright.engine.lineage import Lineage, before, contains, cut, returned
from cellwright.engine.records import (
    Batch,
    CheckpointRecord,
    ExecutionRecord,
    new_checkpoint_id,
    put_execution,
    put_session,
)
from cellwright.errors import CellwrightError, HostLost, KernelError, SandboxError, UnknownCheckpoint
from cellwright.hosts import protocol
from cellwright.notebook import CellMetadataSet

__all__ = ["NOT_FILES", "Checkpoints", "RolledBack"]

_log = logging.getLogger(__name__)

NOT_FILES = "files outside the working directory, such as those in /tmp"
NO_FILES = "files: they are as they were when the cells ran again"


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A session that has gone back, and what did not come back with it."""

    checkpoint: CheckpointRecord | None
    """None where the state was made again."""
    generation: int
    stale: tuple[str, ...]
    """Cells whose outputs are of what was undone."""
    undone: tuple[str, ...]
    """Executions that were undone, oldest first."""
    not_restored: tuple[str, ...]
    """What cannot come back, in words."""
    by: Literal["checkpoint", "replay"] = "checkpoint"
    lost: tuple[str, ...] = ()
    """Of that, what the kernels had and went only now."""


class Checkpoints:
    """The checkpoints of one session."""

    def __init__(self, session: SessionContext, document: SessionDocument) -> None:
        self._session = session
        self._document = document
        self._recorder = session.services.recorder
        in_background = session.services.in_background
        session.runs.undo = lambda execution: in_background(partial(self.undo, execution))

    # Taking and dropping -----------------------------------------------------------------------------------------

    async def take(self, kernel_id: str, name: str | None) -> CheckpointRecord:
        """Have the host freeze the kernel and its files as they are now, for whoever has the session's turn."""
        request = protocol.Freeze(kernel_id, new_checkpoint_id(), name)
        status = await self._session.host.call(request, protocol.CheckpointStatus)
        batch = Batch()
        record = self.keep(
            batch, status, lineage=cut(self._session.record.lineage, self._session.runs.count + 1)
        )
        await self._recorder.commit(batch)
        return record

    def keep(
        self,
        batch: Batch,
        status: protocol.CheckpointStatus,
        *,
        lineage: Lineage,
        execution: ExecutionRecord | None = None,
    ) -> CheckpointRecord:
        """Note a checkpoint that the host keeps."""
        kept = CheckpointRecord(
            id=status.id,
            name=status.name,
            time=status.time,
            generation=self._session.generation,
            lineage=lineage,
            cell_id=execution.cell_id if execution is not None else None,
            execution_id=execution.id if execution is not None else None,
            private_bytes=status.private_bytes,
            cannot_return=status.cannot_return,
            files=status.files,
            files_left_out=status.files_left_out,
        )
        # More may be known about one that was told before.
        others = tuple(one for one in self._session.record.checkpoints if one.id != kept.id)
        self._session.update(batch, checkpoints=(*others, kept))
        self._session.note(batch, "notebook.checkpoint.created", to_builtins(kept), execution=execution)
        return kept

    def forget(self, batch: Batch, gone: tuple[str, ...]) -> None:
        """Note that the host has let checkpoints go."""
        if not gone:
            return
        kept = tuple(one for one in self._session.record.checkpoints if one.id not in gone)
        self._session.update(batch, checkpoints=kept)
        self._session.note(batch, "notebook.checkpoint.dropped", {"checkpoints": list(gone)})

    def note(self, batch: Batch, report: protocol.Checkpointed) -> None:
        """Note with an execution the checkpoint that was taken before it, or why none was."""
        execution = self._session.runs.find(report.execution_id)
        if execution is None:
            return
        record = execution.record
        if report.status is not None:
            lineage = before(self._session.record.lineage, record)
            self.keep(batch, report.status, lineage=lineage, execution=record)
            execution.record = replace(record, checkpoint=report.status.id)
        else:
            execution.record = replace(record, no_checkpoint=report.refused)
        batch.statements.append(put_execution(execution.record))

    async def drop(self, requested: str) -> None:
        """Let a checkpoint go, by its id or name."""
        record = self.find(requested)
        kernel_id = self._session.record.kernel_id or self._session.record.left_by
        if kernel_id is not None:
            await self._session.host.call(protocol.DropCheckpoint(kernel_id, record.id), type(None))
        batch = Batch()
        self.forget(batch, (record.id,))
        await self._recorder.commit(batch)

    def find(self, requested: str) -> CheckpointRecord:
        """A kept checkpoint by its id or its name, the newest of that name.

        Raises:
            UnknownCheckpoint: there is none.
        """
        for record in reversed(self._session.record.checkpoints):
            if requested in (record.id, record.name):
                return record
        known = ", ".join(record.name or record.id for record in self._session.record.checkpoints) or "none"
        raise UnknownCheckpoint(
            f"Session {self._session.id} keeps no checkpoint {requested!r}",
            hint=f"It keeps: {known}; `checkpoint_list` shows them",
        )

    async def roll_back(self, requested: str | None = None, *, cell_id: str | None = None) -> RolledBack:
        """Go back to a kept checkpoint: by its id or name, by the cell it was taken before, or to the newest.

        Raises:
            UnknownCheckpoint: it is not kept, or there is none before that cell.
            FileFailed: the files could not be put back. The kernel is gone; the checkpoints are still kept.
        """
        record = self._requested(requested, cell_id)
        async with self._session.turn:
            with anyio.CancelScope(shield=True):
                await self._session.host.connect()
                done = await self._return_to(record)
        return done

    def _requested(self, requested: str | None, cell_id: str | None) -> CheckpointRecord:
        if requested is not None:
            return self.find(requested)
        if cell_id is not None:
            self._session.file.document.cell(cell_id)
            found = [record for record in self._session.record.checkpoints if record.cell_id == cell_id]
        else:
            found = list(self._session.record.checkpoints)
        if not found:
            where = f"before cell {cell_id!r}" if cell_id is not None else "at all"
            raise UnknownCheckpoint(
                f"Session {self._session.id} keeps no checkpoint {where}",
                hint="Take one with `checkpoint_create`, or run cells with on_error=rollback",
            )
        return found[-1]

    # Going back --------------------------------------------------------------------------------------------------

    async def _return_to(self, checkpoint: CheckpointRecord) -> RolledBack:
        ready = await self._begin_return(checkpoint)
        return await self._complete_return(checkpoint, ready.lost)

    async def _begin_return(self, checkpoint: CheckpointRecord) -> protocol.KernelReady:
        """Let the host do it. What is wanted is journalled first, so that another engine can complete it."""
        old_kernel = self._session.record.kernel_id or self._session.record.left_by
        if old_kernel is None:
            raise UnknownCheckpoint(
                f"Checkpoint {checkpoint.id} went with the kernel that held it",
                hint="Make the state again with `notebook_replay`",
            )
        batch = Batch()
        self._session.propose(batch, returning_to=checkpoint.id)
        await self._recorder.commit(batch)
        request = protocol.RollBack(old_kernel, checkpoint.id, self._session.next_kernel)
        try:
            return await self._session.host.call(request, protocol.KernelReady)
        except (KernelError, SandboxError):
            await self._note_if_ended(old_kernel)
            raise
        finally:
            self._session.record = replace(self._session.record, returning_to=None)

    async def _note_if_ended(self, kernel_id: str) -> None:
        """A return that failed half-way has ended the kernel, and left the checkpoints."""
        status = await self._session.host.call(protocol.Status(), protocol.Attached)
        if kernel_id not in {kernel.kernel_id for kernel in status.kernels}:
            self._session.record = replace(self._session.record, kernel_id=None, left_by=kernel_id)
            await self._session.record_state(
                {"session": "suspended", "reason": "A rollback could not be completed"}
            )

    async def complete_return(self, living: set[str]) -> str | None:
        """Journal a return that the host completed for an engine that ended meanwhile; returns the kernel's id."""
        target, kernel_id = self._session.record.returning_to, self._session.next_kernel
        self._session.record = replace(self._session.record, returning_to=None)
        kept = next((one for one in self._session.record.checkpoints if one.id == target), None)
        if kept is None or kernel_id not in living:
            return None
        await self._complete_return(kept, ())
        return kernel_id

    async def _complete_return(self, checkpoint: CheckpointRecord, lost: Sequence[str]) -> RolledBack:
        history = await self.own_history()
        batch = Batch()
        reason = f"The session was rolled back to checkpoint {checkpoint.id}"
        self._session.runs.end_live(batch, self._session.record, "died", reason)
        undone = self._undo(batch, history, checkpoint.lineage)
        self._session.record = replace(
            self._session.record,
            generation=self._session.generation + 1,
            kernel_id=self._session.next_kernel,
            left_by=None,
            reason=None,
            lineage=returned(checkpoint.lineage, self._session.generation + 1),
            former=(),
        )
        stale = self.mark_stale(batch, history)
        files = [f"the file {name}" for name in checkpoint.files_left_out]
        not_restored = (*dict.fromkeys([*checkpoint.cannot_return, *lost, *files]), NOT_FILES)
        done = RolledBack(checkpoint, self._session.generation, stale, undone, not_restored, lost=tuple(lost))
        self._note_rolled_back(batch, done)
        await self._recorder.commit(batch)
        return done

    async def note_remade(self, undone: tuple[str, ...]) -> RolledBack:
        """Journal that the session went back by a replay, without the executions ``undone``."""
        history = await self.own_history()
        batch = Batch()
        self._session.record = replace(self._session.record, former=())
        stale = self.mark_stale(batch, history)
        not_restored = (NO_FILES, NOT_FILES)
        done = RolledBack(None, self._session.generation, stale, undone, not_restored, by="replay")
        self._note_rolled_back(batch, done)
        await self._recorder.commit(batch)
        return done

    def _note_rolled_back(self, batch: Batch, done: RolledBack) -> None:
        """Journal that the session has gone back."""
        data = {
            "checkpoint": done.checkpoint.id if done.checkpoint is not None else None,
            "by": done.by,
            "stale": list(done.stale),
            "undone": list(done.undone),
            "not_restored": list(done.not_restored),
        }
        self._session.note(batch, "notebook.session.rolled_back", data)
        batch.statements.append(put_session(self._session.record))
        self._session.touch()

    async def state_history(self) -> list[ExecutionRecord]:
        """What made the state of its kernel, in order, also in the sessions that it was grown from."""
        journal, lineage = self._recorder.journal, self._session.record.lineage
        await journal.flush()
        ran = _recovery.load_lineage(journal, self._session.id, lineage)
        return [record for record in ran if contains(lineage, record)]

    async def own_history(self) -> list[ExecutionRecord]:
        journal = self._recorder.journal
        await journal.flush()
        return [found.record for found in _recovery.load_executions(journal, self._session.id, outputs=False)]

    def _undo(self, batch: Batch, history: list[ExecutionRecord], lineage: Lineage) -> tuple[str, ...]:
        """Mark what is part of no state any more, and what is one again; tells what was undone just now."""
        undone: list[str] = []
        for record in history:
            is_kept = contains(lineage, record)
            if contains(self._session.record.lineage, record) and not is_kept and not record.undone:
                undone.append(record.id)
            if record.undone == is_kept:
                self._mark_undone(batch, replace(record, undone=not is_kept))
        return tuple(undone)

    def _mark_undone(self, batch: Batch, record: ExecutionRecord) -> None:
        held = self._session.runs.find(record.id)
        if held is not None:
            held.record = record = replace(held.record, undone=record.undone)
        batch.statements.append(put_execution(record))

    def mark_stale(self, batch: Batch, history: list[ExecutionRecord]) -> tuple[str, ...]:
        """Say in every cell that has run whether its outputs are of the state that there is."""
        newest = {record.cell_id: record for record in history if record.started_at is not None}
        stale: list[str] = []
        for cell in self._session.file.document.cells:
            ours = cell.metadata.get("cellwright")
            if cell.id not in newest or not isinstance(ours, dict):
                continue
            is_stale = not contains(self._session.record.lineage, newest[cell.id])
            if is_stale:
                stale.append(cell.id)
            if bool(ours.get("stale")) != is_stale:
                kept = {key: value for key, value in ours.items() if key != "stale"}
                marked = {**kept, "stale": True} if is_stale else kept
                self._document.change(
                    batch, CellMetadataSet(cell.id, {**cell.metadata, "cellwright": marked})
                )
        return tuple(stale)

    # Undoing what failed -----------------------------------------------------------------------------------------

    async def undo(self, execution: Execution) -> None:
        """Go back to before an execution that failed and was to leave no trace, then release whoever waits for it."""
        try:
            async with self._session.turn:
                with anyio.CancelScope(shield=True):
                    await self._undo_failed(execution)
        except CellwrightError as error:
            self._note_on(execution, f"It could not be rolled back: {error.message}")
        except Exception:  # noqa: BLE001  # boundary: in the background nothing may be raised
            _log.exception("undo_failed session=%s execution=%s", self._session.id, execution.id)
            self._note_on(execution, "It could not be rolled back; look at the log")
        finally:
            execution.settle()

    def undo_pending(self) -> None:
        """Undo executions that failed and were to leave no trace, whose engine did not live to do so."""
        for execution in self._session.runs.to_undo:
            self._session.runs.undo(execution)

    async def _undo_failed(self, execution: Execution) -> None:
        await self._session.host.connect()
        record = execution.record
        kept = next((one for one in self._session.record.checkpoints if one.id == record.checkpoint), None)
        if kept is None:
            why = record.no_checkpoint or "the checkpoint before it is not kept any more"
            self._note_on(execution, f"It was not rolled back: {why}")
            return
        done = await self._return_to(kept)
        message = f"The session is as it was before this cell (generation {done.generation})"
        if done.lost:
            message += f", but for {', '.join(done.lost)}"
        self._note_on(execution, message, rolled_back=True)

    def _note_on(self, execution: Execution, note: str, *, rolled_back: bool = False) -> None:
        execution.record = replace(execution.record, note=note, rolled_back=rolled_back)
        batch = Batch(statements=[put_execution(execution.record)])
        data = {"note": note, "rolled_back": rolled_back}
        self._session.note(batch, "notebook.cell.undone", data, execution=execution.record)
        self._recorder.commit(batch)

    # Taking over -------------------------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Let the newest checkpoint go on where a kernel died; where that fails, the session starts empty."""
        why, newest = self._session.record.reason, self._session.record.checkpoints[-1]
        try:
            done = await self._return_to(newest)
        except (KernelError, HostLost) as error:
            _log.warning("no_takeover session=%s %s", self._session.id, error)
            self._session.record = replace(self._session.record, checkpoints=(), left_by=None)
            return
        lost = await self._cells_of(done.undone)
        self._session.notice = (
            f"The kernel had died ({why}). Checkpoint {newest.name or newest.id} took over, generation "
            f"{done.generation}. Lost: {lost or 'nothing'}"
        )

    async def _cells_of(self, executions: tuple[str, ...]) -> str:
        journal = self._recorder.journal
        found = [_recovery.load_execution(journal, execution_id) for execution_id in executions]
        names = [f"cell {run.cell_id}" if run.cell_id else f"execution {run.id}" for run in found if run]
        return ", ".join(dict.fromkeys(names))

    async def release(self, left_by: str | None) -> None:
        """Let all checkpoints go: with the kernel that was stopped, or with the dead one, ``left_by``, that left them."""
        if left_by is not None:
            with suppress(HostLost):
                await self._session.host.call(protocol.StopKernel(left_by), type(None))
        if self._session.record.checkpoints or left_by is not None:
            batch = Batch()
            self._session.record = replace(self._session.record, left_by=None)
            self.forget(batch, tuple(record.id for record in self._session.record.checkpoints))
            await self._recorder.commit(batch)
