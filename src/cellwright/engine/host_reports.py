"""Applies what a host reports about a session to its executions, its document and its record, and journals it.

Asks the host for nothing: that is ``kernel``'s and ``execution_queue``'s.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cellwright.engine.checkpoints import Checkpoints
from cellwright.engine.context import SessionContext
from cellwright.engine.placement import is_foreign
from cellwright.engine.records import Batch, ExecutionRecord
from cellwright.engine.replay import Replays
from cellwright.engine.typecheck import TypeChecks
from cellwright.engine.workspace import SessionWorkspace, explained
from cellwright.hosts import protocol

__all__ = ["HostReports"]

FOUND_AGAIN = "Go on: the next call finds it again, with its state"
LEFT = "Go on: the next call goes on from its last checkpoint"


class HostReports:
    """What one session makes of its host's reports."""

    def __init__(
        self,
        session: SessionContext,
        workspace: SessionWorkspace,
        checkpoints: Checkpoints,
        replays: Replays,
        types: TypeChecks,
    ) -> None:
        self._session = session
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._replays = replays
        self._types = types

    def take(self, batch: Batch, event: protocol.Event) -> None:
        """Fold one of the host's events into the session."""
        shown = self._is_shown(event.body)
        match event.body:
            case protocol.NetworkUsed(entry):
                self._workspace.note_request(batch, entry, event.time)
                return
            case protocol.Started(execution_id):
                self._session.runs.started(batch, self._session.record, execution_id, event.time)
                self._types.check_beside(batch, execution_id)
            case protocol.Output(execution_id, kind, content):
                self._session.runs.output(
                    batch, self._session.record, execution_id, kind, content, event.time
                )
            case protocol.Finished() as finished:
                self._finished(batch, finished, event.time)
            case protocol.Checkpointed() as checkpointed:
                self._checkpoints.note(batch, checkpointed)
            case protocol.CheckpointsDropped(gone):
                self._checkpoints.forget(batch, gone)
            case protocol.Expiring(ends_at):
                self._note_expiry(batch, ends_at)
                return
            case protocol.KernelDied() as died:
                if event.kernel_id == self._session.record.kernel_id and not died.expected:
                    message = explained(died.message, self._session.record.limits) or died.message
                    next_step = LEFT if died.checkpoints else died.next_step
                    self.lose_kernel(batch, message, next_step, cause=died.cause, left=died.checkpoints)
        self._session.touch(shown=shown)

    def _is_shown(self, body: protocol.EventBody) -> bool:
        """Whether it is about an execution whose asker shows it by itself, or that nobody finds in the notebook."""
        match body:
            case protocol.Started() | protocol.Output() | protocol.Finished():
                execution = self._session.runs.find(body.execution_id)
                return execution is not None and (
                    execution.record.asker is not None or execution.record.cell_id is None
                )
            case _:
                return False

    def _finished(self, batch: Batch, finished: protocol.Finished, at: float) -> None:
        execution = self._session.runs.find(finished.execution_id)
        self._session.runs.finished(batch, self._session.record, self._workspace.explained(finished), at)
        if execution is not None and execution.record.started_at is not None:
            self._went_on(batch, execution.record)
            if not is_foreign(self._session.record):
                self._workspace.look_later(batch, execution, at)

    def _went_on(self, batch: Batch, ran: ExecutionRecord) -> None:
        """Something new that ran well is the beginning of another state than the one that was lost."""
        if (
            self._session.record.former
            and ran.state == "ok"
            and ran.replays is None
            and ran.generation == self._session.generation
        ):
            self._session.update(batch, former=())

    def lose_host(self, batch: Batch, why: str) -> None:
        """The process that owned its kernel is gone."""
        if self._session.record.remote is not None:
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
        self._session.update(batch, expires_at=ends_at)
        self._note_host(batch, {"reachable": True, "expires_at": ends_at})
        if self._session.services.options.moves_on_expiry:
            leave = partial(self._replays.move_before, ends_at)
            batch.after.append(partial(self._session.services.in_background, leave))

    def _note_host(self, batch: Batch, data: dict[str, Any]) -> None:
        told = {"host": self._session.record.on or self._session.record.host, **data}
        self._session.note(batch, "notebook.host.changed", told)

    def lose_kernel(
        self, batch: Batch, message: str, next_step: str, *, cause: str, left: tuple[str, ...] = ()
    ) -> None:
        """The kernel is gone without being asked to go: what ran is over, and everybody is told.

        ``left`` are the checkpoints that outlived it.
        """
        self._session.runs.end_live(batch, self._session.record, "died", message)
        data = {"code": "kernel_died", "message": message, "hint": next_step, "cause": cause}
        self._session.note(batch, "notebook.error", data)
        left_by = self._session.record.kernel_id if left else None
        # One on a Jupyter server may live on though we lost it.
        remote = self._session.record.remote if cause in ("host_lost", "unreachable") else None
        self._session.update(batch, kernel_id=None, reason=message, left_by=left_by, remote=remote)
        self._checkpoints.forget(
            batch, tuple(kept.id for kept in self._session.record.checkpoints if kept.id not in left)
        )

    def drop_unknown(self, batch: Batch, known: set[str | None]) -> None:
        """End what the journal has as unfinished and the host never got: its engine died between the two."""
        reason = "It never reached the kernel: the engine ended first; run it again"
        self._session.runs.end_live(batch, self._session.record, "interrupted", reason, but=known)
