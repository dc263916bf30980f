"""A session that can go back: its checkpoints, returning to one, and letting one take over from a kernel that died.

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
from msgspec.structs import replace

from cellwright.engine import recovery
from cellwright.engine.books import Services
from cellwright.engine.checked import Checked
from cellwright.engine.document import Keeper
from cellwright.engine.executions import Execution
from cellwright.engine.ids import new_checkpoint_id
from cellwright.engine.jupyter_sessions import refuse_elsewhere
from cellwright.engine.lineage import Lineage, contains, cut, returned
from cellwright.engine.records import (
    Batch,
    CheckpointRecord,
    ExecutionRecord,
    SessionRecord,
    put_execution,
    put_session,
)
from cellwright.errors import CellwrightError, HostLost, KernelError, SandboxError, UnknownCheckpoint
from cellwright.hosts import protocol
from cellwright.notebook import CellMetadataSet

__all__ = ["NOT_FILES", "NO_FILES", "Returning", "RolledBack"]

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


class Returning(Checked):
    """A notebook with a kernel that it can go back to earlier states of."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self.notice: str | None = None
        """What happened to the kernel since something last ran, for whoever runs something next."""
        self.runs.undo = lambda execution: services.in_background(partial(self.undo, execution))

    def undo_what_is_due(self) -> None:
        """See to executions that failed and were to leave no trace, whose engine did not live to see to them."""
        for execution in self.runs.to_undo:
            self.runs.undo(execution)

    @property
    def checkpoints(self) -> tuple[CheckpointRecord, ...]:
        """Those that are kept, oldest first."""
        return self.record.checkpoints

    async def checkpoint(self, name: str | None = None) -> CheckpointRecord:
        """Keep the kernel's whole state and the working directory's files as they are now.

        Raises:
            CheckpointRefused: the kernel cannot be forked now; the message is the reason, and nothing has changed.
            KernelBusy: a cell is running.
        """
        refuse_elsewhere(self.record, "checkpoints")
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                kernel_id = await self._ensure_kernel()
                request = protocol.Freeze(kernel_id, new_checkpoint_id(), name)
                status = await self.host.call(request, protocol.CheckpointStatus)
                batch = Batch()
                record = self.keep(batch, status, lineage=cut(self.record.lineage, self.runs.count + 1))
                await self._services.recorder.commit(batch)
        return record

    async def drop_checkpoint(self, wanted: str) -> None:
        """Let a checkpoint go, by its id or name."""
        record = self.find_checkpoint(wanted)
        kernel_id = self.record.kernel_id or self.record.left_by
        if kernel_id is not None:
            await self.host.call(protocol.DropCheckpoint(kernel_id, record.id), type(None))
        batch = Batch()
        self.forget(batch, (record.id,))
        await self._services.recorder.commit(batch)

    def find_checkpoint(self, wanted: str) -> CheckpointRecord:
        """A kept checkpoint by its id or its name, the newest of that name.

        Raises:
            UnknownCheckpoint: there is none.
        """
        for record in reversed(self.record.checkpoints):
            if wanted in (record.id, record.name):
                return record
        known = ", ".join(record.name or record.id for record in self.record.checkpoints) or "none"
        raise UnknownCheckpoint(
            f"Session {self.id} keeps no checkpoint {wanted!r}",
            hint=f"It keeps: {known}; `checkpoint_list` shows them",
        )

    async def roll_back(self, wanted: str | None = None, *, cell_id: str | None = None) -> RolledBack:
        """Go back to a kept checkpoint: by its id or name, by the cell it was taken before, or to the newest.

        Whatever runs is ended. The state, the files and the numbers of cells are as they were then; the generation rises.

        Raises:
            UnknownCheckpoint: it is not kept, or there is none before that cell.
            FileFailed: the files could not be put back. The kernel is gone; the checkpoints are still kept.
        """
        record = self._wanted_checkpoint(wanted, cell_id)
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                await self.host.connect()
                done = await self._return_to(record)
        return done

    def _wanted_checkpoint(self, wanted: str | None, cell_id: str | None) -> CheckpointRecord:
        if wanted is not None:
            return self.find_checkpoint(wanted)
        if cell_id is not None:
            self.keeper.document.cell(cell_id)
            found = [record for record in self.record.checkpoints if record.cell_id == cell_id]
        else:
            found = list(self.record.checkpoints)
        if not found:
            where = f"before cell {cell_id!r}" if cell_id is not None else "at all"
            raise UnknownCheckpoint(
                f"Session {self.id} keeps no checkpoint {where}",
                hint="Take one with `checkpoint_create`, or run cells with on_error=rollback",
            )
        return found[-1]

    # Going back --------------------------------------------------------------------------------------------------

    async def _return_to(self, checkpoint: CheckpointRecord) -> RolledBack:
        ready = await self._begin_return(checkpoint)
        return await self._complete_return(checkpoint, ready.lost)

    async def _begin_return(self, checkpoint: CheckpointRecord) -> protocol.KernelReady:
        """Let the host do it. What is wanted is journalled first, so that another engine can complete it."""
        old_kernel = self.record.kernel_id or self.record.left_by
        if old_kernel is None:
            raise UnknownCheckpoint(
                f"Checkpoint {checkpoint.id} went with the kernel that held it",
                hint="Make the state again with `notebook_replay`",
            )
        batch = Batch()
        self._propose_record(batch, returning_to=checkpoint.id)
        await self._services.recorder.commit(batch)
        request = protocol.RollBack(old_kernel, checkpoint.id, self._next_kernel)
        try:
            return await self.host.call(request, protocol.KernelReady)
        except (KernelError, SandboxError):
            await self._note_if_ended(old_kernel)
            raise
        finally:
            self.record = replace(self.record, returning_to=None)

    async def _note_if_ended(self, kernel_id: str) -> None:
        """A return that failed half-way has ended the kernel, and left the checkpoints."""
        status = await self.host.call(protocol.Status(), protocol.Attached)
        if kernel_id not in {kernel.kernel_id for kernel in status.kernels}:
            self.record = replace(self.record, kernel_id=None, left_by=kernel_id)
            await self._record_state({"session": "suspended", "reason": "A rollback could not be completed"})

    async def complete_what_began(self, living: set[str]) -> str | None:
        """Take note of a return that the host has done for an engine that did not live to; tells the kernel."""
        wanted, kernel_id = self.record.returning_to, self._next_kernel
        self.record = replace(self.record, returning_to=None)
        kept = next((one for one in self.record.checkpoints if one.id == wanted), None)
        if kept is None or kernel_id not in living:
            return None
        await self._complete_return(kept, ())
        return kernel_id

    @property
    def _next_kernel(self) -> str:
        return f"{self.id}.{self.generation + 1}"

    async def _complete_return(self, checkpoint: CheckpointRecord, lost: Sequence[str]) -> RolledBack:
        history = await self._own_history()
        batch = Batch()
        self.end_live(batch, f"The session was rolled back to checkpoint {checkpoint.id}")
        undone = self._undo(batch, history, checkpoint.lineage)
        self.record = replace(
            self.record,
            generation=self.generation + 1,
            kernel_id=self._next_kernel,
            left_by=None,
            reason=None,
            lineage=returned(checkpoint.lineage, self.generation + 1),
            former=(),
        )
        stale = self.mark_stale(batch, history)
        files = [f"the file {name}" for name in checkpoint.files_left_out]
        not_restored = (*dict.fromkeys([*checkpoint.cannot_return, *lost, *files]), NOT_FILES)
        done = RolledBack(checkpoint, self.generation, stale, undone, not_restored, lost=tuple(lost))
        self.tell_rolled_back(batch, done)
        await self._services.recorder.commit(batch)
        return done

    def tell_rolled_back(self, batch: Batch, done: RolledBack) -> None:
        """Journal that the session has gone back."""
        data = {
            "checkpoint": done.checkpoint.id if done.checkpoint is not None else None,
            "by": done.by,
            "stale": list(done.stale),
            "undone": list(done.undone),
            "not_restored": list(done.not_restored),
        }
        self._services.recorder.note(batch, "notebook.session.rolled_back", self.record, data)
        batch.statements.append(put_session(self.record))
        self._touch()

    async def state_history(self) -> list[ExecutionRecord]:
        """What made the state of its kernel, in order, also in the sessions that it was grown from."""
        journal, lineage = self._services.recorder.journal, self.record.lineage
        await journal.flush()
        ran = recovery.load_lineage(journal, self.id, lineage)
        return [record for record in ran if contains(lineage, record)]

    async def _own_history(self) -> list[ExecutionRecord]:
        journal = self._services.recorder.journal
        await journal.flush()
        return [found.record for found in recovery.load_executions(journal, self.id, outputs=False)]

    def _undo(self, batch: Batch, history: list[ExecutionRecord], lineage: Lineage) -> tuple[str, ...]:
        """Mark what is part of no state any more, and what is one again; tells what was undone just now."""
        undone: list[str] = []
        for record in history:
            is_kept = contains(lineage, record)
            if contains(self.record.lineage, record) and not is_kept and not record.undone:
                undone.append(record.id)
            if record.undone == is_kept:
                self._mark_undone(batch, replace(record, undone=not is_kept))
        return tuple(undone)

    def _mark_undone(self, batch: Batch, record: ExecutionRecord) -> None:
        held = self.runs.find(record.id)
        if held is not None:
            held.record = record = replace(held.record, undone=record.undone)
        batch.statements.append(put_execution(record))

    def mark_stale(self, batch: Batch, history: list[ExecutionRecord]) -> tuple[str, ...]:
        """Say in every cell that has run whether its outputs are of the state that there is."""
        newest = {record.cell_id: record for record in history if record.started_at is not None}
        stale: list[str] = []
        for cell in self.keeper.document.cells:
            ours = cell.metadata.get("cellwright")
            if cell.id not in newest or not isinstance(ours, dict):
                continue
            is_stale = not contains(self.record.lineage, newest[cell.id])
            if is_stale:
                stale.append(cell.id)
            if bool(ours.get("stale")) != is_stale:
                kept = {key: value for key, value in ours.items() if key != "stale"}
                marked = {**kept, "stale": True} if is_stale else kept
                self.change(batch, CellMetadataSet(cell.id, {**cell.metadata, "cellwright": marked}))
        return tuple(stale)

    # Undoing what failed -----------------------------------------------------------------------------------------

    async def undo(self, execution: Execution) -> None:
        """Go back to before an execution that failed and was to leave no trace, then release whoever waits for it."""
        try:
            async with self._submitting:
                with anyio.CancelScope(shield=True):
                    await self._undo_failed(execution)
        except CellwrightError as error:
            self._note_on(execution, f"It could not be rolled back: {error.message}")
        except Exception:  # noqa: BLE001  # boundary: in the background nothing may be raised
            _log.exception("undo_failed session=%s execution=%s", self.id, execution.id)
            self._note_on(execution, "It could not be rolled back; look at the log")
        finally:
            execution.settle()

    async def _undo_failed(self, execution: Execution) -> None:
        await self.host.connect()
        record = execution.record
        kept = next((one for one in self.record.checkpoints if one.id == record.checkpoint), None)
        if kept is None:
            why = record.no_checkpoint or "the checkpoint before it is not kept any more"
            self._note_on(execution, f"It was not rolled back: {why}")
            return
        done = await self._return_to(kept)
        told = f"The session is as it was before this cell (generation {done.generation})"
        if done.lost:
            told += f", but for {', '.join(done.lost)}"
        self._note_on(execution, told, rolled_back=True)

    def _note_on(self, execution: Execution, note: str, *, rolled_back: bool = False) -> None:
        execution.record = replace(execution.record, note=note, rolled_back=rolled_back)
        batch = Batch(statements=[put_execution(execution.record)])
        data = {"note": note, "rolled_back": rolled_back}
        self._services.recorder.note(
            batch, "notebook.cell.undone", self.record, data, execution=execution.record
        )
        self._services.recorder.commit(batch)

    # Taking over -------------------------------------------------------------------------------------------------

    async def _ensure_kernel(self, *, fresh: bool = False) -> str:
        await self._reach_host()
        if self.record.kernel_id is None and self.record.left_by is not None and self.record.checkpoints:
            await self._take_over()
        return await super()._ensure_kernel(fresh=fresh)

    async def _take_over(self) -> None:
        """Let the newest checkpoint go on where a kernel died; where that fails, the session starts empty."""
        why, newest = self.record.reason, self.record.checkpoints[-1]
        try:
            done = await self._return_to(newest)
        except (KernelError, HostLost) as error:
            _log.warning("no_takeover session=%s %s", self.id, error)
            self.record = replace(self.record, checkpoints=(), left_by=None)
            return
        lost = await self._cells_of(done.undone)
        self.notice = (
            f"The kernel had died ({why}). Checkpoint {newest.name or newest.id} took over, generation "
            f"{done.generation}. Lost: {lost or 'nothing'}"
        )

    async def _cells_of(self, executions: tuple[str, ...]) -> str:
        journal = self._services.recorder.journal
        found = [recovery.load_execution(journal, execution_id) for execution_id in executions]
        names = [f"cell {run.cell_id}" if run.cell_id else f"execution {run.id}" for run in found if run]
        return ", ".join(dict.fromkeys(names))

    async def _let_kernel_go(self, reason: str | None) -> None:
        left_by = self.record.left_by
        await super()._let_kernel_go(reason)
        if left_by is not None:
            with suppress(HostLost):
                await self.host.call(protocol.StopKernel(left_by), type(None))
        if self.record.checkpoints or left_by is not None:
            batch = Batch()
            self.record = replace(self.record, left_by=None)
            self.forget(batch, tuple(record.id for record in self.record.checkpoints))
            await self._services.recorder.commit(batch)
