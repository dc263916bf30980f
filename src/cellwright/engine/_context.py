"""What the parts of one session share: its record, its notebook's file, its executions and the engine's services.

Each part (``document``, ``workspace``, ``kernel``, ``execution_queue``, ``checkpoints``, …) is a class of its own that
gets this and the parts it works with; ``session`` puts them together. Decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from cellwright.audit import AuditLog
from cellwright.charts import Renderer
from cellwright.engine._authors import Authors
from cellwright.engine._executions import Runs
from cellwright.engine._notebook_file import NotebookFile
from cellwright.engine.approvals import Approvals
from cellwright.engine.event_kinds import EventKind
from cellwright.engine.hosts import HostLink, Hosts
from cellwright.engine.journal import Event
from cellwright.engine.options import EngineOptions
from cellwright.engine.records import (
    Batch,
    ExecutionRecord,
    Recorder,
    SessionRecord,
    SessionState,
    put_session,
)

__all__ = ["Services", "SessionContext"]


@dataclass(frozen=True, slots=True)
class Services:
    """What every session shares."""

    options: EngineOptions
    recorder: Recorder
    audit: AuditLog
    approvals: Approvals
    hosts: Hosts
    environment: Mapping[str, str]
    admit: Callable[..., AbstractAsyncContextManager[None]]
    """Counts the session of a record as active while its kernel starts (see ``_admission``)."""
    wake_saver: Callable[[], None]
    in_background: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    """Starts a task that nobody waits for."""
    renderer: Renderer
    """Draws charts, in a process of its own."""
    notebooks: Callable[[], Collection[Path]]
    """The files of all sessions, which are written here and by no cell."""


class SessionContext:
    """One session's state, as its parts share it."""

    def __init__(self, record: SessionRecord, file: NotebookFile, services: Services) -> None:
        self.record = record
        self.file = file
        self.services = services
        self.authors = Authors(services.recorder.journal, record.id)
        """Who edited and ran its cells last."""
        self.runs = Runs(file, services.recorder, self.note_author)
        self.turn = anyio.Lock()
        """Held while a kernel is started, stopped or given something to run, so that calls keep their order."""
        self.notice: str | None = None
        """What happened to the kernel since something last ran, for whoever runs something next."""
        self.at_work = 0
        """How many are at work on it beyond single executions, such as a plan's run."""
        self.last_active = time.monotonic()
        self.changed_at = time.monotonic()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def language(self) -> str:
        return self.record.language

    @property
    def generation(self) -> int:
        return self.record.generation

    @property
    def state(self) -> SessionState:
        return self.record.state

    @property
    def host(self) -> HostLink:
        return self.services.hosts.of(self.record)

    @property
    def next_kernel(self) -> str:
        """The id of the kernel that the session gets next."""
        return f"{self.id}.{self.generation + 1}"

    def note_author(self, event: Event) -> None:
        """Take in who wrote or queued a cell, if somebody has looked at the authors before; the journal has it anyway."""
        if self.authors.is_read:
            self.authors.take(event)

    def note(
        self,
        batch: Batch,
        kind: EventKind,
        data: dict[str, Any],
        *,
        execution: ExecutionRecord | None = None,
    ) -> Event:
        """Add an event about the session to a batch."""
        return self.services.recorder.note(batch, kind, self.record, data, execution=execution)

    def update(self, batch: Batch, **fields: Any) -> None:
        """Change the session's record for something that has happened."""
        self.record = replace(self.record, **fields)
        batch.statements.append(put_session(self.record))

    def propose(self, batch: Batch, **fields: Any) -> None:
        """Change the session's record, unless the journal refuses the batch."""
        before = {name: getattr(self.record, name) for name in fields}
        self.update(batch, **fields)
        batch.undo.append(partial(self._withdraw, before))
        batch.lasting = True

    def _withdraw(self, before: Mapping[str, Any]) -> None:
        # What happened meanwhile was journalled with the record as it was then.
        batch = Batch()
        self.update(batch, **before)
        self.services.recorder.commit(batch)

    async def record_state(self, data: dict[str, Any], batch: Batch | None = None) -> None:
        """Journal the record as it is now, with an event that says what changed."""
        batch = batch or Batch()
        self.note(batch, "notebook.state.changed", data)
        batch.statements.append(put_session(self.record))
        self.last_active = time.monotonic()
        await self.services.recorder.commit(batch)

    def touch(self, *, shown: bool = False) -> None:
        """Mark the notebook as changed; ``shown`` by whoever has the file open, who need not find it there."""
        self.file.dirty = True
        self.file.owed = self.file.owed or not shown
        self.last_active = self.changed_at = time.monotonic()
        self.services.wake_saver()
