"""A notebook in memory: an ordered set of cells, addressed by id, altered only by changes.

Keeps the bytes of what nobody touched, so that saving costs one join and a diff shows what was done and no more.
Decides nothing (see edits for what is allowed) and touches no disk (see files).
"""

from __future__ import annotations

import ast
import difflib
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, assert_never, get_args

import msgspec

from cellwright.errors import NotebookError, StaleEdit, TooManyCells, UnknownCell
from cellwright.notebook._parse import Parsed, Shell, parse
from cellwright.notebook.cells import (
    OWN_SECTION,
    Cell,
    CellKind,
    CellRecord,
    encode,
    is_plain_path,
    is_valid_id,
    new_id,
    own_section,
)
from cellwright.notebook.languages import canonical_language, new_notebook_metadata

__all__ = [
    "CellAdded",
    "CellDeleted",
    "CellMetadataSet",
    "CellMoved",
    "Change",
    "Comment",
    "Document",
    "DocumentReplaced",
    "NotebookMetadataSet",
    "OutputsSet",
    "SourceChanged",
    "add_cell",
    "change_source",
    "comments_of",
    "decode_change",
    "delete_cell",
    "encode_change",
    "inject_parameters",
    "move_cell",
    "parse_parameter",
    "retitled",
    "title_of",
    "with_comment",
    "with_tsconfig",
    "without_comment",
]

_SHOWN_IDS = 5


class Document:
    """A notebook. ``apply`` is the only way to alter it; everything else reads."""

    __slots__ = ("_bytes", "_order", "_records", "_shell", "_versions", "repairs")

    repairs: tuple[str, ...]
    """What was fixed on reading, a sentence each: an upgraded format, ids given to cells without one."""

    def __init__(
        self,
        shell: Shell,
        records: Sequence[CellRecord],
        *,
        versions: Mapping[str, int] | None = None,
        repairs: tuple[str, ...] = (),
    ) -> None:
        self._shell = shell
        self._records = {record.id: record for record in records}
        self._order = list(self._records)
        self._versions = dict.fromkeys(self._order, 1)
        self._bytes: bytes | None = None
        self.repairs = repairs
        self.restore_versions(versions or {})

    @classmethod
    def new(cls, *, language: str = "python") -> Document:
        """An empty notebook of this language."""
        return cls(Shell.new(new_notebook_metadata(language)), [])

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> Document:
        """Read a notebook; ``name`` is what errors call it.

        Raises:
            NotebookFormatError: it is not a notebook that this version reads.
        """
        parsed: Parsed = parse(data, name)
        document = cls(parsed.shell, parsed.records, repairs=parsed.repairs)
        if not parsed.repairs:
            document._bytes = data.removeprefix(b"\xef\xbb\xbf")
        return document

    def to_bytes(self) -> bytes:
        """The file's content. Only touched cells are encoded; all else is joined from the bytes that were read."""
        if self._bytes is None:
            self._bytes = self._shell.render([self._records[cell_id].raw for cell_id in self._order])
        return self._bytes

    def copy(self) -> Document:
        """A document of its own that shares the unchangeable records with this one."""
        twin = Document(self._shell, self.records, versions=self._versions, repairs=self.repairs)
        twin._bytes = self._bytes
        return twin

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, cell_id: object) -> bool:
        return cell_id in self._records

    @property
    def named_files(self) -> dict[str, str]:
        """The cells that others import by a file name, by that name; of two with the same, the later one."""
        named = ((cell.filename, cell) for cell in self.cells if cell.kind == "code")
        return {name: cell.source for name, cell in named if name is not None and is_plain_path(name)}

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in order."""
        return tuple(self.cell(cell_id) for cell_id in self._order)

    @property
    def counted(self) -> int:
        """How many cells count against ``max_cells``: all but those that a plan wrote to explain its steps."""
        return sum(not cell.explains for cell in self.cells)

    def cell(self, cell_id: str) -> Cell:
        """One cell.

        Raises:
            UnknownCell: no cell has that id.
        """
        return self._record(cell_id).view(self._versions[cell_id])

    def index(self, cell_id: str) -> int:
        """Where the cell stands, from 0.

        Raises:
            UnknownCell: no cell has that id.
        """
        self._record(cell_id)
        return self._order.index(cell_id)

    @property
    def metadata(self) -> dict[str, Any]:
        """The notebook's own metadata; a copy at its first level."""
        return dict(self._shell.metadata)

    @property
    def language(self) -> str:
        """The language that the notebook's metadata names; Python where it names none."""
        for owner, key in (("kernelspec", "language"), ("language_info", "name")):
            section = self._shell.metadata.get(owner)
            named = section.get(key) if isinstance(section, Mapping) else None
            if isinstance(named, str) and named.strip():
                return canonical_language(named)
        return "python"

    def language_of(self, cell: Cell) -> str:
        """The language of a code cell: its own, or the notebook's."""
        return canonical_language(cell.language) if cell.language else self.language

    @property
    def tsconfig(self) -> dict[str, Any] | None:
        """The compiler options that a TypeScript notebook brings along."""
        return self._own_object("tsconfig")

    @property
    def package(self) -> dict[str, Any] | None:
        """The ``package.json`` that a notebook brings along."""
        return self._own_object("package")

    def _own_object(self, key: str) -> dict[str, Any] | None:
        value = own_section(self._shell.metadata).get(key)
        return dict(value) if isinstance(value, Mapping) else None

    @property
    def versions(self) -> dict[str, int]:
        """Each cell's version, to be kept beside the file, which has no place for it."""
        return dict(self._versions)

    def restore_versions(self, versions: Mapping[str, int]) -> None:
        """Take up the versions that were kept; ids that are not in the document are passed over."""
        self._versions |= {
            cell_id: number for cell_id, number in versions.items() if cell_id in self._records
        }

    @property
    def records(self) -> tuple[CellRecord, ...]:
        """The cells as they are kept, for merging."""
        return tuple(self._records[cell_id] for cell_id in self._order)

    @property
    def shell(self) -> Shell:
        """The file without its cells, for merging."""
        return self._shell

    def apply(self, change: Change) -> Cell | None:
        """Alter the document, and return the cell concerned, if it is still there.

        The values inside the change become the document's: the caller does not alter them afterwards.

        Raises:
            UnknownCell: no cell has that id.
            NotebookError: the change does not fit this document.
        """
        match change:
            case CellAdded():
                self._add(change)
            case SourceChanged(cell_id, source):
                self._change_source(cell_id, source)
            case CellDeleted(cell_id):
                self._delete(cell_id)
            case CellMoved(cell_id, position):
                self._move(cell_id, position)
            case OutputsSet():
                self._set_outputs(change)
            case CellMetadataSet(cell_id, metadata):
                self._replace(self._record(cell_id).changed({"metadata": metadata}))
            case NotebookMetadataSet(metadata):
                self._shell = self._shell.with_metadata(metadata)
                self._bytes = None
            case DocumentReplaced(content, versions):
                self._become(content, versions)
            case _:
                assert_never(change)
        if isinstance(change, CellDeleted | NotebookMetadataSet | DocumentReplaced):
            return None
        return self.cell(change.cell_id)

    def _add(self, change: CellAdded) -> None:
        if change.cell_id in self._records:
            raise NotebookError(f"There is already a cell {change.cell_id!r}")
        self._check_position(change.position, last=len(self))
        self._order.insert(change.position, change.cell_id)
        self._versions[change.cell_id] = 1
        record = CellRecord.new(change.cell_id, change.kind, change.source, change.metadata)
        self._replace(record.changed(change.fields) if isinstance(change.fields, dict) else record)

    def _change_source(self, cell_id: str, source: str) -> None:
        record = self._record(cell_id)
        if record.source != source:
            self._versions[cell_id] += 1
            self._replace(record.changed({"source": source}))

    def _delete(self, cell_id: str) -> None:
        self._order.pop(self.index(cell_id))
        del self._records[cell_id], self._versions[cell_id]
        self._bytes = None

    def _move(self, cell_id: str, position: int) -> None:
        place = self.index(cell_id)
        self._check_position(position, last=len(self) - 1)
        self._order.insert(position, self._order.pop(place))
        self._bytes = None

    def _set_outputs(self, change: OutputsSet) -> None:
        record = self._record(change.cell_id)
        if record.kind != "code":
            raise NotebookError(f"Cell {change.cell_id!r} is a {record.kind} cell and has no outputs")
        self._replace(record.changed({"outputs": change.outputs, "execution_count": change.execution_count}))

    def _become(self, content: str, versions: Mapping[str, int]) -> None:
        other = Document.from_bytes(content.encode(), name="The merged notebook")
        other.restore_versions(versions)
        for slot in Document.__slots__:
            setattr(self, slot, getattr(other, slot))

    def _replace(self, record: CellRecord) -> None:
        self._records[record.id] = record
        self._bytes = None

    def _record(self, cell_id: str) -> CellRecord:
        try:
            return self._records[cell_id]
        except KeyError:
            raise UnknownCell(f"No cell has the id {cell_id!r}", hint=self._known_ids(cell_id)) from None

    def _known_ids(self, cell_id: str) -> str:
        if not self._order:
            return "The notebook has no cells; add one first"
        near = difflib.get_close_matches(cell_id, self._order, n=_SHOWN_IDS, cutoff=0.5)
        if near:
            return f"Did you mean {', '.join(near)}? The notebook has {len(self)} cells"
        shown = ", ".join(self._order[:_SHOWN_IDS]) + (", …" if len(self) > _SHOWN_IDS else "")
        return f"The notebook has {len(self)} cells: {shown}"

    def _check_position(self, position: int, *, last: int) -> None:
        if not 0 <= position <= last:
            raise NotebookError(f"There is no position {position} in a notebook of {len(self)} cells")


# What can happen to a document, as plain facts that can be written to a journal and replayed.


class _Change(msgspec.Struct, frozen=True, tag_field="change"):
    """Base of all changes; the tag names the kind in the journal and must stay what it is."""


class CellAdded(_Change, frozen=True, tag="cell_added"):
    """A new cell stands at ``position``."""

    cell_id: str
    kind: CellKind
    source: str
    position: int
    metadata: dict[str, Any] = {}
    fields: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """What else a file has of a cell, such as attachments; of one that was there before."""


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


# Edits of a document: each function checks a request and returns the change that fulfils it.


def add_cell(
    document: Document,
    kind: CellKind,
    source: str,
    *,
    max_cells: int,
    position: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    cell_id: str | None = None,
) -> CellAdded:
    """Add a cell at a position, or at the end; without ``cell_id`` it gets a new one.

    Raises:
        TooManyCells: the notebook is full.
        NotebookError: the position, kind or id cannot be had.
    """
    if len(document) >= max_cells and document.counted >= max_cells:
        raise TooManyCells(
            f"The notebook has {document.counted} cells, and the setting max_cells allows {max_cells}",
            hint="Delete cells, start another notebook, or raise CELLWRIGHT_MAX_CELLS",
        )
    if kind not in get_args(CellKind):
        raise NotebookError(f"There is no cell kind {kind!r}", hint="Use code, markdown or raw")
    place = len(document) if position is None else position
    _check_position(place, last=len(document))
    return CellAdded(
        cell_id=new_id(document) if cell_id is None else _free_id(document, cell_id),
        kind=kind,
        source=source,
        position=place,
        metadata=dict(metadata or {}),
    )


def change_source(
    document: Document, cell_id: str, source: str, *, expected_version: int | None = None
) -> SourceChanged:
    """Replace a cell's source.

    Raises:
        UnknownCell: no cell has that id.
        StaleEdit: the cell is no longer at the expected version, and its source is another.
    """
    cell = document.cell(cell_id)
    if cell.source != source:
        _check_version(cell, source, expected_version)
    return SourceChanged(cell_id, source)


def delete_cell(document: Document, cell_id: str, *, expected_version: int | None = None) -> CellDeleted:
    """Delete a cell.

    Raises:
        UnknownCell: no cell has that id.
        StaleEdit: the cell is no longer at the expected version.
    """
    _check_version(document.cell(cell_id), "", expected_version)
    return CellDeleted(cell_id)


def move_cell(document: Document, cell_id: str, position: int) -> CellMoved:
    """Move a cell so that it stands at ``position``.

    Raises:
        UnknownCell: no cell has that id.
        NotebookError: there is no such position.
    """
    document.index(cell_id)
    _check_position(position, last=len(document) - 1)
    return CellMoved(cell_id, position)


def with_tsconfig(document: Document, tsconfig: Mapping[str, Any]) -> NotebookMetadataSet:
    """The change that gives a notebook these compiler options."""
    own = {**own_section(document.metadata), "tsconfig": dict(tsconfig)}
    return NotebookMetadataSet({**document.metadata, OWN_SECTION: own})


def _check_position(position: int, *, last: int) -> None:
    if not 0 <= position <= last:
        raise NotebookError(f"There is no position {position}", hint=f"Give one from 0 to {last}")


def _free_id(document: Document, cell_id: str) -> str:
    if not is_valid_id(cell_id):
        raise NotebookError(
            f"{cell_id!r} cannot be a cell's id", hint="Use 1 to 64 of the characters a-z, A-Z, 0-9, - and _"
        )
    if cell_id in document:
        raise NotebookError(f"There is already a cell {cell_id!r}", hint="Give another id, or none")
    return cell_id


def _check_version(cell: Cell, source: str, expected: int | None) -> None:
    if expected is None or cell.version == expected:
        return
    lines = difflib.unified_diff(
        cell.source.splitlines(),
        source.splitlines(),
        fromfile=f"{cell.id}, version {cell.version}",
        tofile=f"your edit of version {expected}",
        lineterm="",
    )
    raise StaleEdit(
        f"Cell {cell.id!r} is at version {cell.version}, and the edit was made for version {expected}",
        diff="\n".join(lines),
        hint=f"Read the cell again and repeat the edit with version {cell.version}",
    )


# Gives a notebook values from outside, in a cell that runs after its own defaults, as papermill does. Pure.

_DEFAULTS_TAG = "parameters"
_INJECTED_TAG = "injected-parameters"


def parse_parameter(text: str) -> tuple[str, Any]:
    """Read ``name=value``; the value is JSON or a Python literal where it is one, else the text itself.

    Raises:
        NotebookError: there is no name, or it cannot be a variable's.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise NotebookError(f"{text!r} is not a parameter", hint="Write it as name=value, e.g. rows=100")
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(value)
        except (ValueError, SyntaxError):
            continue
    return name, value


def inject_parameters(document: Document, values: Mapping[str, Any]) -> list[Change]:
    """The changes that put these values behind the cell tagged ``parameters``, or first where there is none.

    A cell that an earlier run injected is replaced.
    """
    changes: list[Change] = []
    position = 0
    for index, cell in enumerate(cell for cell in document.cells if _INJECTED_TAG not in cell.tags):
        if _DEFAULTS_TAG in cell.tags:
            position = index + 1
    changes += [CellDeleted(cell.id) for cell in document.cells if _INJECTED_TAG in cell.tags]
    lines = ["# Parameters", *(f"{name} = {value!r}" for name, value in values.items())]
    added = CellAdded(
        cell_id=new_id(document),
        kind="code",
        source="\n".join(lines),
        position=position,
        metadata={"tags": [_INJECTED_TAG]},
    )
    return [*changes, added]


# What people remark on cells: kept in a cell's metadata, beside the code and never in it. Pure.

MAX_COMMENT = 4_000
_MOST = 50
_KEY = "comments"


@dataclass(frozen=True, slots=True)
class Comment:
    """One remark."""

    by: str
    at: float
    text: str

    @property
    def key(self) -> str:
        """By which it is found among those of its cell."""
        return f"{self.at:.3f}"


def comments_of(cell: Cell) -> tuple[Comment, ...]:
    """A cell's comments, oldest first. What is no comment, in a file that somebody else wrote, is passed over."""
    held = own_section(cell.metadata).get(_KEY)
    found = [_comment(one) for one in held] if isinstance(held, list) else []
    return tuple(one for one in found if one is not None)


def with_comment(cell: Cell, comment: Comment) -> CellMetadataSet:
    """A cell's metadata with one more; of very many the oldest go."""
    text = comment.text[:MAX_COMMENT]
    return _with(cell, [*comments_of(cell), Comment(comment.by, round(comment.at, 3), text)][-_MOST:])


def without_comment(cell: Cell, key: str) -> CellMetadataSet:
    """A cell's metadata without one of them."""
    return _with(cell, [one for one in comments_of(cell) if one.key != key])


def _with(cell: Cell, comments: Iterable[Comment]) -> CellMetadataSet:
    ours = {name: value for name, value in own_section(cell.metadata).items() if name != _KEY}
    kept = [asdict(one) for one in comments]
    metadata = dict(cell.metadata)
    metadata[OWN_SECTION] = {**ours, _KEY: kept} if kept else ours
    return CellMetadataSet(cell.id, metadata)


def _comment(held: Any) -> Comment | None:
    if not isinstance(held, Mapping):
        return None
    by, at, text = (held.get(name) for name in ("by", "at", "text"))
    if not isinstance(by, str) or not isinstance(text, str) or isinstance(at, bool):
        return None
    return Comment(by, float(at), text) if isinstance(at, int | float) else None


# What a notebook is called by people: the heading that it begins with. Pure.

# A notebook's title stands in one of its first cells, or nowhere.
_FIRST_CELLS = 3
_HEADING = re.compile(r"\s*# +(?P<title>\S[^\r\n]*?)(?: +#+)?[ \t]*(?=[\r\n]|\Z)")
_MARKS = re.compile(r"(\*\*|__|`)(.+?)\1")


def title_of(document: Document) -> str | None:
    """The first heading of the first rank that one of the first cells begins with; None where there is none."""
    found = _titled(document)
    return _MARKS.sub(r"\2", found[1]["title"]) if found is not None else None


def retitled(document: Document, title: str) -> SourceChanged | None:
    """The change that puts another title in the old one's place; None where the notebook has none."""
    found = _titled(document)
    if found is None:
        return None
    cell_id, heading = found
    source = document.cell(cell_id).source
    start, end = heading.span("title")
    return change_source(document, cell_id, f"{source[:start]}{title}{source[end:]}")


def _titled(document: Document) -> tuple[str, re.Match[str]] | None:
    for record in document.records[:_FIRST_CELLS]:
        cell = document.cell(record.id)
        heading = _HEADING.match(cell.source) if cell.kind == "markdown" else None
        if heading is not None:
            return cell.id, heading
    return None
