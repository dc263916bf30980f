"""A session's notebook: read, edited by cell id, kept in step with its file, journalled before anything is answered.

The half of a session that needs no kernel; ``sessions`` adds the other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from cellwright.audit import AuditLog
from cellwright.charts import Renderer
from cellwright.engine.document import Halfway, Keeper, Noticed
from cellwright.engine.events import EventKind
from cellwright.engine.executions import Runs
from cellwright.engine.host_link import HostLink
from cellwright.engine.hosts import Hosts
from cellwright.engine.journal import Journal
from cellwright.engine.network_log import network_opening
from cellwright.engine.records import Batch, Recorder, SessionRecord, SessionState, put_session
from cellwright.notebook import (
    Cell,
    CellKind,
    Change,
    Conflict,
    Document,
    DocumentReplaced,
    add_cell,
    change_source,
    delete_cell,
    encode_change,
    move_cell,
)
from cellwright.sandbox.network_rules import NetworkMode
from cellwright.sandbox.policy import Mode
from cellwright.sandbox.tiers import UNSAFE_BANNER, Tier
from cellwright.sandbox.workspace import PRIVATE, Place
from cellwright.settings import Settings

__all__ = ["Book", "Services"]

_HALFWAY_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Services:
    """What every session shares."""

    settings: Settings
    recorder: Recorder
    audit: AuditLog
    hosts: Hosts
    environment: Mapping[str, str]
    home: Path
    """The user's home, which no session may see as a whole."""
    admit: Callable[[Book | None], None]
    """Raises where one more active session is too many."""
    wake_saver: Callable[[], None]
    in_background: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    """Does something later that nobody waits for."""
    renderer: Renderer
    """Draws charts, in a process of its own."""
    notebooks: Callable[[], Collection[Path]]
    """The files of all sessions, which are written here and by no cell."""


class Book:
    """A notebook that is open."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        self.record = record
        self.keeper = keeper
        self.runs = Runs(keeper, services.recorder)
        self.last_active = time.monotonic()
        self.changed_at = time.monotonic()
        self.sharing: str | None = None
        """How its notebook on a server is kept in step with it, in words; None where it lies here."""
        self._services = services

    # What it is --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def path(self) -> Path:
        return self.keeper.path

    @property
    def language(self) -> str:
        return self.record.language

    @property
    def state(self) -> SessionState:
        """``active`` while its kernel is alive, else ``suspended``."""
        return self.record.state

    @property
    def generation(self) -> int:
        """How many kernels it has had; state in memory is lost whenever this rises."""
        return self.record.generation

    @property
    def reason(self) -> str | None:
        """Why it has no kernel, where that was not asked for."""
        return self.record.reason

    @property
    def host(self) -> HostLink:
        """The host that has its kernel, or had its last one."""
        return self._services.hosts.of(self.record)

    @property
    def folder(self) -> Path:
        """Where its notebook belongs, and where the search for its project and interpreter begins."""
        return Path(self.record.cwd) if self.record.cwd is not None else self.path.parent

    @property
    def storage(self) -> Path:
        """The session's own directory, which goes with it."""
        return self._services.settings.storage / "sessions" / self.id

    @property
    def cwd(self) -> Path:
        """Where its kernel works, as its code sees it."""
        if self.mode != "private":
            return self.folder
        return Path(self.record.seen_at) if self.record.seen_at is not None else self.storage / PRIVATE

    @property
    def mode(self) -> Mode:
        """How it works on files: on a view of the project, in a folder of its own, or where the notebook lies."""
        return self.record.mode

    @property
    def tier(self) -> Tier | None:
        """How strongly its kernel is confined; None while it never had one."""
        return self.record.tier

    @property
    def network(self) -> NetworkMode:
        """How far its code reaches."""
        limits = self.record.limits
        if self.tier == "C" or (limits is not None and limits.network is not None):
            return "off"
        opening = network_opening(self._services.settings)
        return opening.mode if opening is not None else "off"

    @property
    def banner(self) -> str | None:
        """What every reply about this session must say first, if anything."""
        outlived = (
            self.state == "active" and self.tier == "none"
        )  # it was started by an engine that confined nothing
        return UNSAFE_BANNER if outlived or self._services.settings.unsafe_no_sandbox else None

    @property
    def place(self) -> Place:
        """Where it works and what of the project it sees there."""
        settings = self._services.settings
        return Place(
            mode=self.mode,
            cwd=str(self.cwd),
            project=self.record.project,
            storage=str(self.storage),
            hidden=(str(settings.storage),),
        )

    @property
    def document(self) -> Document:
        """The notebook with its outputs so far, to read; ``apply`` and the calls below change it."""
        self.runs.sync()
        return self.keeper.document

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells with their outputs so far."""
        return self.document.cells

    def cell(self, cell_id: str) -> Cell:
        """One cell with its outputs so far.

        Raises:
            UnknownCell: no cell has that id.
        """
        return self.document.cell(cell_id)

    # Editing -----------------------------------------------------------------------------------------------------

    async def add_cell(
        self,
        source: str,
        kind: CellKind = "code",
        *,
        position: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Cell:
        """Add a cell at the end or at a position.

        Raises:
            TooManyCells: the notebook has as many cells as ``max_cells`` allows.
        """
        await self.refresh()
        change = add_cell(
            self.keeper.document,
            kind,
            source,
            position=position,
            max_cells=self._services.settings.max_cells,
            metadata=metadata,
        )
        await self.apply([change])
        return self.keeper.document.cell(change.cell_id)

    async def edit_cell(self, cell_id: str, source: str, *, expected_version: int | None = None) -> Cell:
        """Replace a cell's source.

        Raises:
            UnknownCell: no cell has that id.
            StaleEdit: the cell is no longer at ``expected_version``; the error shows the difference.
        """
        await self.refresh()
        change = change_source(self.keeper.document, cell_id, source, expected_version=expected_version)
        await self.apply([change])
        return self.keeper.document.cell(cell_id)

    async def delete_cell(self, cell_id: str, *, expected_version: int | None = None) -> None:
        """Delete a cell; what it defined stays in the kernel."""
        await self.refresh()
        await self.apply([delete_cell(self.keeper.document, cell_id, expected_version=expected_version)])

    async def move_cell(self, cell_id: str, position: int) -> Cell:
        """Move a cell to a position, counted without it."""
        await self.refresh()
        await self.apply([move_cell(self.keeper.document, cell_id, position)])
        return self.keeper.document.cell(cell_id)

    async def refresh(self) -> None:
        """Take in what somebody else wrote to the file; every edit, run and save does so first."""
        recorder = self._services.recorder
        noticed = await self._noticed(recorder.journal)
        if noticed is None:
            return
        batch = Batch()
        document = self.keeper.document
        change = DocumentReplaced(document.to_bytes().decode(), document.versions)
        data = {"change": json.loads(encode_change(change)), "by": "file"}
        recorder.note(batch, "notebook.state.changed", self.record, data)
        self._note_conflicts(batch, noticed.conflicts)
        batch.statements.append(self.keeper.base_row(self.id))
        self._touch(shown=True)
        recorder.commit(batch)
        # It is in the file, so that nobody is refused for it.
        await recorder.journal.catch_up()

    async def _noticed(self, journal: Journal) -> Noticed | None:
        while True:
            self.runs.sync()
            try:
                return self.keeper.notice(journal.last_seq, self.runs.by_hand)
            except Halfway:
                await anyio.sleep(_HALFWAY_LOOK_S)

    def _note_conflicts(self, batch: Batch, conflicts: Iterable[Conflict]) -> None:
        for conflict in conflicts:
            data = {
                "code": "merge_conflict",
                "message": conflict.description,
                "cell_id": conflict.cell_id,
                "copy_id": conflict.copy_id,
                "hint": "Both versions are in the notebook; keep the one you want and delete the other",
            }
            self._services.recorder.note(batch, "notebook.error", self.record, data)

    async def save(self) -> None:
        """Write the notebook to its file now.

        Raises:
            SaveFailed: the file could not be written; the journal still has everything.
        """
        await self.refresh()
        journal = self._services.recorder.journal
        if await self.keeper.save(lambda: journal.last_seq):
            journal.write([self.keeper.base_row(self.id)])
            await journal.catch_up()

    async def apply(
        self, changes: Iterable[Change], *, told_as: tuple[EventKind, dict[str, Any]] | None = None
    ) -> None:
        """Make changes that were decided elsewhere, all in one step of the journal, with an event that says why.

        Raises:
            NotebookError: one of them does not fit the document; none is made.
            SaveFailed: they could not be journalled; none is made.
        """
        batch = Batch()
        self._propose(batch, changes)
        if told_as is not None:
            self._services.recorder.note(batch, told_as[0], self.record, told_as[1])
        self._touch()
        await self._services.recorder.commit(batch)

    def tell(self, kind: EventKind, data: dict[str, Any]) -> None:
        """Have it told that something happened that changes nothing here. Waits for nobody."""
        batch = Batch()
        self._services.recorder.note(batch, kind, self.record, data)
        self._services.recorder.commit(batch)

    async def take_in(self, changes: Iterable[Change], conflicts: Iterable[Conflict] = ()) -> None:
        """Make changes that a person made to the notebook where it lies on a server (see ``mirrors``).

        Raises:
            SaveFailed: they could not be journalled; none is made.
        """
        batch = Batch()
        self._propose(batch, changes, by="person")
        self._note_conflicts(batch, conflicts)
        self._touch()
        await self._services.recorder.commit(batch)

    def change(self, batch: Batch, change: Change) -> None:
        """Have one change in the document that goes with something that has happened."""
        self.keeper.alter(partial(Document.apply, change=change))
        self._note_changes(batch, [change])

    def _propose(self, batch: Batch, changes: Iterable[Change], *, by: str | None = None) -> None:
        """Make changes unless the journal refuses them; ``by`` says who did, where that was not the session's own caller."""
        wanted, seq = list(changes), self._services.recorder.journal.last_seq + 1
        self._note_changes(batch, wanted, by=by)
        proposal = self.keeper.propose(partial(_apply, changes=wanted), seq)
        batch.after.append(partial(self.keeper.accept, proposal))
        batch.undo.append(self.keeper.refuse)
        batch.lasting = True

    def _propose_record(self, batch: Batch, **fields: Any) -> None:
        """Have the session's record say something else unless the journal refuses it."""
        before = {name: getattr(self.record, name) for name in fields}
        self.record = replace(self.record, **fields)
        batch.statements.append(put_session(self.record))
        batch.undo.append(partial(self._withdraw_record, before))
        batch.lasting = True

    def _withdraw_record(self, before: Mapping[str, Any]) -> None:
        self.record = replace(self.record, **before)
        # What happened meanwhile was journalled with the record as it was then.
        self._services.recorder.commit(Batch(statements=[put_session(self.record)]))

    def _note_changes(self, batch: Batch, changes: Iterable[Change], *, by: str | None = None) -> None:
        for change in changes:
            data = {"change": json.loads(encode_change(change)), "cell_id": getattr(change, "cell_id", None)}
            if by is not None:
                data["by"] = by
            self._services.recorder.note(batch, "notebook.state.changed", self.record, data)

    @contextmanager
    def shown_elsewhere(self) -> Iterator[None]:
        """Another program has the notebook open meanwhile, and shows what it runs by itself (see ``document``)."""
        self.keeper.guests.came(self.keeper.base)
        try:
            yield
        finally:
            self.keeper.guests.left()
            self._services.wake_saver()

    def _touch(self, *, shown: bool = False) -> None:
        """Something changed; ``shown`` by whoever has the file open, who need not find it there."""
        self.keeper.dirty = True
        self.keeper.owed = self.keeper.owed or not shown
        self.last_active = self.changed_at = time.monotonic()
        self._services.wake_saver()


def _apply(document: Document, changes: Iterable[Change]) -> None:
    for change in changes:
        document.apply(change)
