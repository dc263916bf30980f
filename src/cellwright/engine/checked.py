"""A notebook whose types are looked at while its cells run: nobody waits for it, and it stops nothing.

Only notebooks that bring compiler options are checked, which is how they ask for it. How a check is made is
``kernels.typecheck``'s; what it found is kept with each cell, and told as an event.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from cellwright.engine.books import Services
from cellwright.engine.charted import Charted
from cellwright.engine.document import Keeper
from cellwright.engine.environment import runtime_of
from cellwright.engine.records import Batch, ExecutionRecord, SessionRecord
from cellwright.errors import CellwrightError
from cellwright.hosts import protocol
from cellwright.notebook import Cell, CellMetadataSet, Change, Document
from cellwright.notebook.languages import cell_filename, cell_language, notebook_tsconfig, own_section

__all__ = ["Checked", "diagnostics_of"]

_log = logging.getLogger(__name__)
_KEY = "diagnostics"
_MOST_TOLD = 20


def diagnostics_of(cell: Cell) -> list[Mapping[str, Any]]:
    """What the last check found in a cell: ``line``, ``column``, ``code`` and ``message`` of each."""
    held = own_section(cell.metadata).get(_KEY)
    return [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []


class Checked(Charted):
    """A notebook whose types may be checked."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self._checking = False
        self._check_again = False

    def take(self, batch: Batch, event: protocol.Event) -> None:
        """Fold one of the host's events into the session, and have types checked beside what has just begun."""
        super().take(batch, event)
        if isinstance(event.body, protocol.Started):
            execution = self.runs.find(event.body.execution_id)
            if execution is not None and self._is_checked(execution.record):
                self._check_soon(batch)

    def _is_checked(self, record: ExecutionRecord) -> bool:
        language = record.language or self.language
        return runtime_of(language) == "deno" and notebook_tsconfig(self.keeper.document) is not None

    def _check_soon(self, batch: Batch) -> None:
        if self._checking:
            self._check_again = True
            return
        self._checking = True
        batch.after.append(lambda: self._services.in_background(self._check))

    async def _check(self) -> None:
        try:
            await self._check_once()
            while self._check_again:
                self._check_again = False
                await self._check_once()
        except (CellwrightError, TimeoutError) as error:
            # No cell depends on it: whoever wants to know finds it in the log.
            _log.warning("types_not_checked session=%s %s", self.id, error)
        finally:
            self._checking = self._check_again = False

    async def _check_once(self) -> None:
        document = self.keeper.document
        request = protocol.CheckTypes(
            cells=_sources(document),
            cwd=str(self.cwd),
            place=self.place,
            policy=self.own_policy,
            tsconfig=notebook_tsconfig(document),
        )
        found = await self.host.call(request, list[protocol.Diagnostic])
        by_cell: dict[str, list[protocol.Diagnostic]] = defaultdict(list)
        for one in found:
            by_cell[one.cell_id or ""].append(one)
        await self.apply(_changes(self.keeper.document, by_cell))
        batch = Batch()
        data = {"diagnostics": to_builtins(found[:_MOST_TOLD]), "more": max(0, len(found) - _MOST_TOLD)}
        self._services.recorder.note(batch, "notebook.types.checked", self.record, data)
        await self._services.recorder.commit(batch)


def _sources(document: Document) -> tuple[protocol.CellSource, ...]:
    found: list[protocol.CellSource] = []
    for cell in document.cells:
        language = cell_language(document, cell)
        if cell.kind == "code" and cell.source.strip() and runtime_of(language) == "deno":
            found.append(protocol.CellSource(cell.id, cell.source, cell_filename(cell), language))
    return tuple(found)


def _changes(document: Document, found: Mapping[str, Sequence[protocol.Diagnostic]]) -> list[Change]:
    """What brings every cell's metadata to what was found, and leaves those alone that say it already."""
    changes: list[Change] = []
    for cell in document.cells:
        told = [
            {"line": one.line, "column": one.column, "code": one.code, "message": one.message}
            for one in found.get(cell.id, ())
        ]
        if told == diagnostics_of(cell):
            continue
        own = {key: value for key, value in own_section(cell.metadata).items() if key != _KEY}
        changes.append(
            CellMetadataSet(cell.id, {**cell.metadata, "cellwright": own | ({_KEY: told} if told else {})})
        )
    return changes
