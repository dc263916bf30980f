"""Input and output of a format. Holds data; the formats themselves are beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cellwright.errors import TooManyCells
from cellwright.notebook import CellAdded, CellKind, Document, NotebookMetadataSet, OutputsSet
from cellwright.notebook.cells import derived_id, is_valid_id
from cellwright.notebook.languages import canonical_language, cell_metadata

__all__ = [
    "Draft",
    "DraftCell",
    "Exported",
    "FindFile",
    "Imported",
    "Reading",
    "Writing",
    "Written",
    "check_size",
    "document_of",
]

FindFile: TypeAlias = Callable[[str], bytes | None]
"""A file beside the one that is read, by its relative name; none where it is not to be had."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How a notebook is to be written. Outputs that are not wanted are gone from the document already."""

    name: str
    files_at: str | None = None
    """The directory for pictures, relative to the page; none where the page is all there will be."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a writer made of a notebook."""

    content: bytes
    notices: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    suffix: str | None = None
    """Where it depends on the notebook, as a script's does."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A notebook in some format."""

    content: bytes
    mime: str
    suffix: str
    notices: tuple[str, ...] = ()
    """What the format could not hold, a sentence each."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the content refers to, by names relative to it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a content comes from, and how much of it is taken."""

    name: str
    max_cells: int
    find_file: FindFile = lambda _: None


@dataclass(frozen=True, slots=True)
class Imported:
    """A notebook that was read from some format."""

    document: Document
    title: str | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftCell:
    kind: CellKind
    source: str
    id: str | None = None
    language: str | None = None
    """Its own, where it is not the notebook's."""
    filename: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[dict[str, Any]] = ()
    execution_count: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A notebook that was read and is not yet one of ours."""

    cells: tuple[DraftCell, ...]
    title: str | None = None
    language: str = "python"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The notebook's, beside what its language brings along."""
    notices: tuple[str, ...] = ()


def document_of(draft: Draft, *, max_cells: int) -> Document:
    """A document with a draft's cells. The same draft always gets the same ids.

    Raises:
        TooManyCells: there are more than a notebook may hold.
    """
    check_size(len(draft.cells), max_cells=max_cells)
    document = Document.new(language=canonical_language(draft.language))
    if draft.metadata:
        document.apply(NotebookMetadataSet({**document.metadata, **draft.metadata}))
    wanted = {cell.id for cell in draft.cells if is_valid_id(cell.id)}
    for position, cell in enumerate(draft.cells):
        keeps = is_valid_id(cell.id) and cell.id not in document
        cell_id = cell.id if keeps and cell.id else derived_id(cell.source, _Taken(document, wanted))
        metadata = cell_metadata(
            language=cell.language, filename=cell.filename, tags=cell.tags, also=cell.metadata
        )
        document.apply(CellAdded(cell_id, cell.kind, cell.source, position, metadata))
        if cell.kind == "code" and (cell.outputs or cell.execution_count is not None):
            document.apply(OutputsSet(cell_id, list(cell.outputs), cell.execution_count))
    return document


@dataclass(frozen=True, slots=True)
class _Taken:
    """Ids that are in the document, or will be."""

    document: Document
    wanted: set[str | None]

    def __contains__(self, cell_id: object) -> bool:
        return cell_id in self.document or cell_id in self.wanted


def check_size(cells: int, *, max_cells: int) -> None:
    """Refuse a notebook with more cells than one may hold.

    Raises:
        TooManyCells: it has.
    """
    if cells > max_cells:
        raise TooManyCells(
            f"The notebook has {cells} cells, and the setting max_cells allows {max_cells}",
            hint="Import a part of it, or raise CELLWRIGHT_MAX_CELLS",
        )
