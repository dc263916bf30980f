"""Checks the types of a notebook while its cells run: nobody waits for it, and it stops nothing.

Only notebooks that bring compiler options are checked, which is how they ask for it. How a check is made is
``kernels.typecheck``'s; what it found is kept with each cell, and told as an event.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import to_builtins

from cellwright.engine._context import SessionContext
from cellwright.engine._document import SessionDocument
from cellwright.engine.kernel import runtime_of
from cellwright.engine.records import Batch
from cellwright.engine.workspace import SessionWorkspace
from cellwright.errors import CellwrightError
from cellwright.hosts import protocol
from cellwright.notebook import CellMetadataSet, Change, Document
from cellwright.notebook.cells import own_section

__all__ = ["TypeChecks"]

_log = logging.getLogger(__name__)
_KEY = "diagnostics"
_MOST_REPORTED = 20


class TypeChecks:
    """The type checks of one session."""

    def __init__(
        self, session: SessionContext, document: SessionDocument, workspace: SessionWorkspace
    ) -> None:
        self._session = session
        self._document = document
        self._workspace = workspace
        self._services = session.services
        self.checking = False
        """Whether a check is under way or due."""
        self._check_again = False

    def check_soon(self, batch: Batch) -> None:
        """Have types checked beside an execution that has just begun, where its notebook asks for that."""
        if self._session.file.document.tsconfig is None:
            return
        if self.checking:
            self._check_again = True
            return
        self.checking = True
        batch.after.append(lambda: self._services.in_background(self._check))

    def prepare(self) -> None:
        """Have what checks types started before the first cell runs, where the notebook asks for checks."""
        if self._session.file.document.tsconfig is not None and not self.checking:
            self.checking = True
            self._services.in_background(self._check)

    async def _check(self) -> None:
        try:
            await self._check_once()
            while self._check_again:
                self._check_again = False
                await self._check_once()
        except (CellwrightError, TimeoutError) as error:
            # No cell depends on it: whoever wants to know finds it in the log.
            _log.warning("types_not_checked session=%s %s", self._session.id, error)
        finally:
            self.checking = self._check_again = False

    async def _check_once(self) -> None:
        document = self._session.file.document
        request = protocol.CheckTypes(
            cells=_sources(document),
            cwd=str(self._workspace.cwd),
            place=self._workspace.place,
            policy=self._workspace.own_policy,
            tsconfig=document.tsconfig,
        )
        found = await self._session.host.call(request, list[protocol.Diagnostic])
        if not request.cells:
            return
        by_cell: dict[str, list[protocol.Diagnostic]] = defaultdict(list)
        for one in found:
            by_cell[one.cell_id or ""].append(one)
        await self._document.apply(_changes(self._session.file.document, by_cell))
        batch = Batch()
        data = {
            "diagnostics": to_builtins(found[:_MOST_REPORTED]),
            "more": max(0, len(found) - _MOST_REPORTED),
        }
        self._session.note(batch, "notebook.types.checked", data)
        await self._services.recorder.commit(batch)


def _sources(document: Document) -> tuple[protocol.CellSource, ...]:
    found: list[protocol.CellSource] = []
    for cell in document.cells:
        language = document.language_of(cell)
        if cell.kind == "code" and cell.source.strip() and runtime_of(language) == "deno":
            found.append(protocol.CellSource(cell.id, cell.source, cell.filename, language))
    return tuple(found)


def _changes(document: Document, found: Mapping[str, Sequence[protocol.Diagnostic]]) -> list[Change]:
    """What brings every cell's metadata to what was found, and leaves those alone that say it already."""
    changes: list[Change] = []
    for cell in document.cells:
        diagnostics = [
            {"line": one.line, "column": one.column, "code": one.code, "message": one.message}
            for one in found.get(cell.id, ())
        ]
        if diagnostics == cell.diagnostics:
            continue
        own = {key: value for key, value in own_section(cell.metadata).items() if key != _KEY}
        changes.append(
            CellMetadataSet(
                cell.id, {**cell.metadata, "cellwright": own | ({_KEY: diagnostics} if diagnostics else {})}
            )
        )
    return changes
