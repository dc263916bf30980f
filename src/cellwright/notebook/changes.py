"""What can happen to a document, as plain facts that can be written to a journal and replayed.

A change is already decided: it was checked (see edits) and holds everything needed to apply it again with the same
result (see document). Encoded with the standard library's JSON, because notebooks hold what stricter encoders
refuse or lose: ``NaN`` and lone surrogates.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from cellwright.notebook.cells import CellKind
from cellwright.notebook.jsontext import encode

__all__ = [
    "CellAdded",
    "CellDeleted",
    "CellMetadataSet",
    "CellMoved",
    "Change",
    "DocumentReplaced",
    "NotebookMetadataSet",
    "OutputsSet",
    "SourceChanged",
    "decode_change",
    "encode_change",
]


class _Change(msgspec.Struct, frozen=True, tag_field="change"):
    """Base of all changes; the tag names the kind in the journal and must stay what it is."""


class CellAdded(_Change, frozen=True, tag="cell_added"):
    """A new cell stands at ``position``."""

    cell_id: str
    kind: CellKind
    source: str
    position: int
    metadata: dict[str, Any] = {}


class SourceChanged(_Change, frozen=True, tag="source_changed"):
    """The cell's whole source is now this; its outputs stay until it runs."""

    cell_id: str
    source: str


class CellDeleted(_Change, frozen=True, tag="cell_deleted"):
    """The cell is gone."""

    cell_id: str


class CellMoved(_Change, frozen=True, tag="cell_moved"):
    """The cell now stands at ``position``, counted without it."""

    cell_id: str
    position: int


class OutputsSet(_Change, frozen=True, tag="outputs_set"):
    """A code cell's outputs and prompt number are now these."""

    cell_id: str
    outputs: list[dict[str, Any]]
    execution_count: int | None


class CellMetadataSet(_Change, frozen=True, tag="cell_metadata_set"):
    """The cell's whole metadata is now this."""

    cell_id: str
    metadata: dict[str, Any]


class NotebookMetadataSet(_Change, frozen=True, tag="notebook_metadata_set"):
    """The notebook's whole metadata is now this."""

    metadata: dict[str, Any]


class DocumentReplaced(_Change, frozen=True, tag="document_replaced"):
    """The whole file is now this text, with these cell versions: the result of a merge."""

    content: str
    versions: dict[str, int]


Change: TypeAlias = (
    CellAdded
    | SourceChanged
    | CellDeleted
    | CellMoved
    | OutputsSet
    | CellMetadataSet
    | NotebookMetadataSet
    | DocumentReplaced
)


def encode_change(change: Change) -> bytes:
    """The change as one line of JSON."""
    text = json.dumps(msgspec.to_builtins(change), ensure_ascii=False, separators=(",", ":"))
    return encode(text)


def decode_change(data: bytes) -> Change:
    """The change that was encoded.

    Raises:
        ValueError: this is no change; a ``msgspec.ValidationError`` where it is JSON.
    """
    change: Change = msgspec.convert(json.loads(data), Change)
    return change
