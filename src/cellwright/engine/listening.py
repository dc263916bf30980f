"""What the host tells about a session, folded into its executions, its document and its record.

It only takes in and journals; who asks the host for anything stands in ``sessions``.
"""

from __future__ import annotations

import time
from functools import partial

from msgspec.structs import replace

from cellwright.engine.limits import explained
from cellwright.engine.records import Batch, ExecutionRecord, put_session
from cellwright.engine.workplaces import Workplace
from cellwright.hosts import protocol

__all__ = ["Listener"]


class Listener(Workplace):
    """A notebook in its place, of which the host tells."""

    def take(self, batch: Batch, event: protocol.Event) -> None:
        """Fold one of the host's events into the session."""
        match event.body:
            case protocol.NetworkUsed(entry):
                self._note_request(batch, entry, event.time)
                return
            case protocol.Started(execution_id):
                self.runs.started(batch, self.record, execution_id, event.time)
            case protocol.Output(execution_id, kind, content):
                self.runs.output(batch, self.record, execution_id, kind, content, event.time)
            case protocol.Finished() as finished:
                execution = self.runs.find(finished.execution_id)
                self.runs.finished(batch, self.record, self._explained(finished), event.time)
                if execution is not None and execution.record.started_at is not None:
                    self._went_on(batch, execution.record)
                    execution.expect_files()
                    look = partial(self._note_files, execution)
                    batch.after.append(partial(self._services.in_background, look))
            case protocol.KernelDied() as died:
                if event.kernel_id == self.record.kernel_id and not died.expected:
                    message = explained(died.message, self.record.limits) or died.message
                    self.lose_kernel(batch, message, died.next_step, cause=died.cause)
        self._touch()

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

    def lose_kernel(self, batch: Batch, message: str, next_step: str, *, cause: str) -> None:
        """The kernel is gone without being asked to go: what ran is over, and everybody is told."""
        for execution in self.runs.live:
            body = protocol.Finished(execution.id, "died", 0.0, reason=message)
            self.runs.finished(batch, self.record, body, time.time())
        data = {"code": "kernel_died", "message": message, "hint": next_step, "cause": cause}
        self._services.recorder.note(batch, "notebook.error", self.record, data)
        self.record = replace(self.record, kernel_id=None, reason=message)
        batch.statements.append(put_session(self.record))

    def drop_unknown(self, batch: Batch, known: set[str | None]) -> None:
        """End what the journal has as unfinished and the host never got: its engine died between the two."""
        for execution in self.runs.live:
            if execution.id not in known:
                reason = "It never reached the kernel: the engine ended first; run it again"
                body = protocol.Finished(execution.id, "interrupted", 0.0, reason=reason)
                self.runs.finished(batch, self.record, body, time.time())
