"""A session's notebook: read, edited by cell id, kept in step with its file, journalled before anything is answered.

How document and file are merged and saved is in ``notebook_file``. Needs no kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import anyio

from cellwright.audit import NOBODY, actor
from cellwright.engine._context import SessionContext
from cellwright.engine._notebook_file import Halfway, Noticed
from cellwright.engine.event_kinds import EventKind
from cellwright.engine.journal import Statement
from cellwright.engine.records import Batch
from cellwright.errors import NotebookError, SaveFailed
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
    slug,
)
from cellwright.notebook.cell_edits import decode_step, encode_step, reversing
from cellwright.notebook.document import retitled

__all__ = ["SessionDocument"]

_HALFWAY_LOOK_S = 0.05
_MOST_TITLE = 200

_KEPT_STEPS = 100

_NEXT_UNDO = "SELECT number, step FROM edits WHERE session = ? AND person = ? AND NOT undone ORDER BY number DESC LIMIT 1"

_NEXT_REDO = (
    "SELECT number, step FROM edits WHERE session = ? AND person = ? AND undone ORDER BY number LIMIT 1"
)

_TURN_STEP = "UPDATE edits SET undone = ?, step = ? WHERE session = ? AND number = ?"

_DROP_OLD = f"""
DELETE FROM edits WHERE session = ?1 AND number <=
(SELECT number FROM edits WHERE session = ?1 ORDER BY number DESC LIMIT 1 OFFSET {_KEPT_STEPS})
"""  # noqa: S608  # a number from the lines above


class SessionDocument:
    """The notebook of one session."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._recorder = session.services.recorder

    @property
    def current(self) -> Document:
        """The notebook with the outputs of running executions so far."""
        self._session.runs.sync()
        return self._session.file.document

    # Editing -----------------------------------------------------------------------------------------------------

    async def add_cell(
        self, source: str, kind: CellKind, *, position: int | None, metadata: Mapping[str, Any] | None
    ) -> Cell:
        await self.refresh()
        limit = self._session.services.options.max_cells
        document = self._session.file.document
        change = add_cell(document, kind, source, position=position, max_cells=limit, metadata=metadata)
        await self.apply([change])
        return self._session.file.document.cell(change.cell_id)

    async def edit_cell(self, cell_id: str, source: str, *, expected_version: int | None) -> Cell:
        await self.refresh()
        document = self._session.file.document
        await self.apply([change_source(document, cell_id, source, expected_version=expected_version)])
        return self._session.file.document.cell(cell_id)

    async def delete_cell(self, cell_id: str, *, expected_version: int | None) -> None:
        await self.refresh()
        await self.apply(
            [delete_cell(self._session.file.document, cell_id, expected_version=expected_version)]
        )

    async def move_cell(self, cell_id: str, position: int) -> Cell:
        await self.refresh()
        await self.apply([move_cell(self._session.file.document, cell_id, position)])
        return self._session.file.document.cell(cell_id)

    async def apply(
        self, changes: Iterable[Change], *, told_as: tuple[EventKind, dict[str, Any]] | None = None
    ) -> None:
        """Make changes that were decided elsewhere, all in one step of the journal, with an event that says why."""
        batch = Batch()
        self._propose(batch, changes)
        if told_as is not None:
            self._session.note(batch, told_as[0], told_as[1])
        self._session.touch()
        await self._recorder.commit(batch)

    async def edit(self, make: Callable[[Document], Iterable[Change]], *, person: str) -> list[Change]:
        """Make the changes that a person decides on by the notebook as it is, so that the same person can undo them."""
        await self.refresh()
        document = self._session.file.document
        changes = list(make(document))
        if changes:
            step = encode_step(reversing(document, changes))
            await self._commit_step(changes, lambda number: _put_step(self._session.id, number, person, step))
        return changes

    async def undo(self, *, person: str, again: bool = False) -> list[Change]:
        """Take back the person's newest edit that was not, or make ``again`` the oldest that was; empty where none is.

        Raises:
            NotebookError: the notebook has changed so that it cannot be; it stays as it is.
        """
        await self.refresh()
        document = self._session.file.document
        found = self._recorder.journal.read(_NEXT_REDO if again else _NEXT_UNDO, (self._session.id, person))
        if not found:
            return []
        [(number, text)] = found
        changes = decode_step(text).fitting(document)
        step = encode_step(reversing(document, changes))
        statement = _TURN_STEP, (not again, step, self._session.id, number)
        await self._commit_step(changes, lambda _: [statement])
        return changes

    async def _commit_step(self, changes: list[Change], record: Callable[[int], list[Statement]]) -> None:
        batch = Batch()
        self._propose(batch, changes)
        # Each change has a number of its own, so that no two steps have the same.
        batch.statements += record(self._recorder.journal.last_seq)
        self._session.touch()
        await self._recorder.commit(batch)

    async def merge_remote(self, changes: Iterable[Change], conflicts: Iterable[Conflict] = ()) -> None:
        """Make changes that a person made to the notebook where it lies on a server (see ``jupyter.mirrors``).

        Raises:
            SaveFailed: they could not be journalled; none is made.
        """
        batch = Batch()
        self._propose(batch, changes, by="person")
        self._note_conflicts(batch, conflicts)
        self._session.touch()
        await self._recorder.commit(batch)

    def change(self, batch: Batch, change: Change) -> None:
        """Make one change that goes with something that has happened."""
        self._session.file.alter(partial(Document.apply, change=change))
        self._note_changes(batch, [change])

    def _propose(self, batch: Batch, changes: Iterable[Change], *, by: str | None = None) -> None:
        """Make changes unless the journal refuses them; ``by`` names their author, where that was not the caller."""
        requested, seq, file = list(changes), self._recorder.journal.last_seq + 1, self._session.file
        self._note_changes(batch, requested, by=by or actor())
        proposal = file.propose(partial(_apply, changes=requested), seq)
        batch.after.append(partial(file.accept, proposal))
        batch.undo.append(file.refuse)
        batch.lasting = True

    def _note_changes(self, batch: Batch, changes: Iterable[Change], *, by: str | None = None) -> None:
        for change in changes:
            data = {"change": json.loads(encode_change(change)), "cell_id": getattr(change, "cell_id", None)}
            if by is not None and by != NOBODY:
                data["by"] = by
            event = self._session.note(batch, "notebook.state.changed", data)
            batch.after.append(partial(self._session.note_author, event))

    def _note_conflicts(self, batch: Batch, conflicts: Iterable[Conflict]) -> None:
        for conflict in conflicts:
            data = {
                "code": "merge_conflict",
                "message": conflict.description,
                "cell_id": conflict.cell_id,
                "copy_id": conflict.copy_id,
                "hint": "Both versions are in the notebook; keep the one you want and delete the other",
            }
            self._session.note(batch, "notebook.error", data)

    # The file ----------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Merge what another program wrote to the file; every edit, run and save does so first."""
        noticed = await self._noticed()
        if noticed is None:
            return
        batch, document = Batch(), self._session.file.document
        change = DocumentReplaced(document.to_bytes().decode(), document.versions)
        data = {"change": json.loads(encode_change(change)), "by": "file"}
        self._session.note(batch, "notebook.state.changed", data)
        self._note_conflicts(batch, noticed.conflicts)
        batch.statements.append(self._session.file.base_row(self._session.id))
        self._session.touch(shown=True)
        self._recorder.commit(batch)
        # It is in the file, so that nobody is refused for it.
        await self._recorder.journal.catch_up()

    async def _noticed(self) -> Noticed | None:
        runs = self._session.runs
        while True:
            runs.sync()
            try:
                return self._session.file.notice(self._recorder.journal.last_seq, runs.by_hand)
            except Halfway:
                await anyio.sleep(_HALFWAY_LOOK_S)

    async def save(self) -> None:
        """Write the notebook to its file now."""
        await self.refresh()
        journal = self._recorder.journal
        if await self._session.file.save(lambda: journal.last_seq):
            journal.write([self._session.file.base_row(self._session.id)])
            await journal.catch_up()

    async def rename(self, title: str) -> None:
        """Put a title in the place of the notebook's heading, where it has one, and name its file after it.

        Raises:
            NotebookError: the title is none, or another program has the file open under its name.
        """
        session, title = self._session, " ".join(title.split())
        if not title or len(title) > _MOST_TITLE:
            raise NotebookError(
                f"A notebook's name has 1 to {_MOST_TITLE} characters, and this has {len(title)}",
                hint="Give another name",
            )
        if session.record.there is not None:
            raise NotebookError("This notebook lies on a Jupyter server", hint="Rename it there")
        if session.file.guests:
            raise NotebookError("This notebook is open in JupyterLab", hint="Close it there, then rename it")
        await self.save()
        if (change := retitled(session.file.document, title)) is not None:
            await self.apply([change])
        await self._rename_file(slug(title))
        await self.save()

    async def _rename_file(self, stem: str) -> None:
        session, before = self._session, self._session.file.path
        for number in count(1):
            path = before.with_name(f"{stem}{f'_{number}' if number > 1 else ''}.ipynb")
            if path == before:
                return
            try:
                if await session.file.rename(path):
                    break
            except OSError as error:
                raise SaveFailed(
                    f"{before} could not be renamed to {path.name}: {error.strerror}",
                    hint="Look at who may write in that folder",
                ) from error
        batch = Batch()
        session.propose(batch, name=path.stem, path=str(path))
        session.note(batch, "notebook.state.changed", {"session": session.state, "renamed": path.stem})
        batch.statements.append(session.file.base_row(session.id))
        try:
            await self._recorder.commit(batch)
        except SaveFailed:
            await session.file.rename(before)
            raise

    @contextmanager
    def open_elsewhere(self) -> Iterator[None]:
        """Another program has the notebook open meanwhile, and shows what it runs by itself (see ``notebook_file``)."""
        file = self._session.file
        file.guests.came(file.base)
        try:
            yield
        finally:
            file.guests.left()
            self._session.services.wake_saver()


def _put_step(session_id: str, number: int, person: str, step: str) -> list[Statement]:
    """Keep a step; what the person had undone cannot be made again after it."""
    return [
        ("DELETE FROM edits WHERE session = ? AND person = ? AND undone", (session_id, person)),
        ("INSERT INTO edits VALUES (?,?,?,0,?)", (session_id, number, person, step)),
        (_DROP_OLD, (session_id,)),
    ]


def _apply(document: Document, changes: Iterable[Change]) -> None:
    for change in changes:
        document.apply(change)
