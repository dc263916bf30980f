"""What the host tells about a session, folded into its executions, its document and its record.

It only takes in and journals; who asks the host for anything stands in ``sessions``.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from cellwright.engine.holding import Holding
from cellwright.engine.jupyter_sessions import is_elsewhere
from cellwright.engine.limits import explained
from cellwright.engine.lineage import Lineage, before
from cellwright.engine.records import Batch, CheckpointRecord, ExecutionRecord, put_execution, put_session
from cellwright.hosts import protocol

__all__ = ["Listener"]

FOUND_AGAIN = "Go on: the next call finds it again, with its state"
LEFT = "Go on: the next call goes on from its last checkpoint"


class Listener(Holding):
    """A notebook in its place, of which the host tells."""

    def take(self, batch: Batch, event: protocol.Event) -> None:
        """Fold one of the host's events into the session."""
        shown = self._is_shown(event.body)
        match event.body:
            case protocol.NetworkUsed(entry):
                self._note_request(batch, entry, event.time)
                return
            case protocol.Started(execution_id):
                self.runs.started(batch, self.record, execution_id, event.time)
            case protocol.Output(execution_id, kind, content):
                self.runs.output(batch, self.record, execution_id, kind, content, event.time)
            case protocol.Finished() as finished:
                self._finished(batch, finished, event.time)
            case protocol.Checkpointed() as checkpointed:
                self._note_checkpoint(batch, checkpointed)
            case protocol.CheckpointsDropped(gone):
                self.forget(batch, gone)
            case protocol.Expiring(ends_at):
                self._note_expiry(batch, ends_at)
                return
            case protocol.KernelDied() as died:
                if event.kernel_id == self.record.kernel_id and not died.expected:
                    message = explained(died.message, self.record.limits) or died.message
                    next_step = LEFT if died.checkpoints else died.next_step
                    self.lose_kernel(batch, message, next_step, cause=died.cause, left=died.checkpoints)
        self._touch(shown=shown)

    def _is_shown(self, body: protocol.EventBody) -> bool:
        """Whether it is about an execution whose asker shows it by itself, or that nobody finds in the notebook."""
        match body:
            case protocol.Started() | protocol.Output() | protocol.Finished():
                execution = self.runs.find(body.execution_id)
                return execution is not None and (
                    execution.record.asker is not None or execution.record.cell_id is None
                )
            case _:
                return False

    def _finished(self, batch: Batch, finished: protocol.Finished, at: float) -> None:
        execution = self.runs.find(finished.execution_id)
        self.runs.finished(batch, self.record, self._explained(finished), at)
        if execution is not None and execution.record.started_at is not None:
            self._went_on(batch, execution.record)
            if is_elsewhere(self.record):
                return
            execution.expect_files()
            self._newest_ended = execution
            look = partial(self._note_files, execution, at)
            batch.after.append(partial(self._services.in_background, look))

    def _went_on(self, batch: Batch, ran: ExecutionRecord) -> None:
        """Something new that ran well is the beginning of another state than the one that was lost."""
        if (
            self.record.former
            and ran.state == "ok"
            and ran.replays is None
            and ran.generation == self.generation
        ):
            self.record = replace(self.record, former=())
            batch.statements.append(put_session(self.record))

    def lose_host(self, batch: Batch, why: str) -> None:
        """The process that owned its kernel is gone."""
        if self.record.remote is not None:
            message = (
                f"{why}; the kernel lives on on its Jupyter server, and what ran there was lost sight of"
            )
            self.lose_kernel(batch, message, FOUND_AGAIN, cause="host_lost")
            return
        self.lose_kernel(
            batch,
            f"{why}, and the kernel's state with it",
            "Run the cells again; the next one starts a new kernel. `notebook_replay` brings its state back",
            cause="host_lost",
        )

    def lose_sight(self, batch: Batch, why: str) -> None:
        """Its host cannot be reached; its kernel goes on, as far as anybody knows."""
        self._note_host(batch, {"reachable": False, "reason": why})

    def see_again(self, batch: Batch) -> None:
        """Its host is reached again, and what it said meanwhile was taken in."""
        self._note_host(batch, {"reachable": True})

    def _note_expiry(self, batch: Batch, ends_at: float) -> None:
        self.record = replace(self.record, expires_at=ends_at)
        batch.statements.append(put_session(self.record))
        self._note_host(batch, {"reachable": True, "expires_at": ends_at})
        batch.after.append(partial(self._services.in_background, self._expire))

    async def _expire(self) -> None:
        """What it does, where anything, when the end of its host is near; that was told already."""

    def _note_host(self, batch: Batch, data: dict[str, Any]) -> None:
        told = {"host": self.record.on or self.record.host, **data}
        self._services.recorder.note(batch, "notebook.host.changed", self.record, told)

    def lose_kernel(
        self, batch: Batch, message: str, next_step: str, *, cause: str, left: tuple[str, ...] = ()
    ) -> None:
        """The kernel is gone without being asked to go: what ran is over, and everybody is told.

        ``left`` are the checkpoints that outlived it.
        """
        self.end_live(batch, message)
        data = {"code": "kernel_died", "message": message, "hint": next_step, "cause": cause}
        self._services.recorder.note(batch, "notebook.error", self.record, data)
        left_by = self.record.kernel_id if left else None
        # One on a Jupyter server may live on though we lost it.
        remote = self.record.remote if cause in ("host_lost", "unreachable") else None
        self.record = replace(self.record, kernel_id=None, reason=message, left_by=left_by, remote=remote)
        self.forget(batch, tuple(kept.id for kept in self.record.checkpoints if kept.id not in left))
        batch.statements.append(put_session(self.record))

    def end_live(self, batch: Batch, message: str) -> None:
        """What ran is over, for its kernel is."""
        for execution in self.runs.live:
            body = protocol.Finished(execution.id, "died", 0.0, reason=message)
            self.runs.finished(batch, self.record, body, time.time())

    # Checkpoints -------------------------------------------------------------------------------------------------

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
            generation=self.generation,
            lineage=lineage,
            cell_id=execution.cell_id if execution is not None else None,
            execution_id=execution.id if execution is not None else None,
            private_bytes=status.private_bytes,
            cannot_return=status.cannot_return,
            files=status.files,
            files_left_out=status.files_left_out,
        )
        # More may be known about one that was told before.
        others = tuple(one for one in self.record.checkpoints if one.id != kept.id)
        self.record = replace(self.record, checkpoints=(*others, kept))
        batch.statements.append(put_session(self.record))
        data = to_builtins(kept)
        self._services.recorder.note(
            batch, "notebook.checkpoint.created", self.record, data, execution=execution
        )
        return kept

    def forget(self, batch: Batch, gone: tuple[str, ...]) -> None:
        """Note that the host has let checkpoints go."""
        if not gone:
            return
        kept = tuple(one for one in self.record.checkpoints if one.id not in gone)
        self.record = replace(self.record, checkpoints=kept)
        batch.statements.append(put_session(self.record))
        data = {"checkpoints": list(gone)}
        self._services.recorder.note(batch, "notebook.checkpoint.dropped", self.record, data)

    def _note_checkpoint(self, batch: Batch, told: protocol.Checkpointed) -> None:
        execution = self.runs.find(told.execution_id)
        if execution is None:
            return
        record = execution.record
        if told.status is not None:
            lineage = before(self.record.lineage, record)
            self.keep(batch, told.status, lineage=lineage, execution=record)
            execution.record = replace(record, checkpoint=told.status.id)
        else:
            execution.record = replace(record, no_checkpoint=told.refused)
        batch.statements.append(put_execution(execution.record))

    def drop_unknown(self, batch: Batch, known: set[str | None]) -> None:
        """End what the journal has as unfinished and the host never got: its engine died between the two."""
        for execution in self.runs.live:
            if execution.id not in known:
                reason = "It never reached the kernel: the engine ended first; run it again"
                body = protocol.Finished(execution.id, "interrupted", 0.0, reason=reason)
                self.runs.finished(batch, self.record, body, time.time())
