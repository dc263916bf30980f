"""From a file's bytes to the parts of a document: its shell, its cells, and what had to be fixed.

Reads nbformat 4 and brings older minors to 4.5; refuses everything else with the way out. Parses, and decides
nothing about content (see document for editing, files for the disk).
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from cellwright.errors import NotebookFormatError
from cellwright.notebook.cells import (
    CellRecord,
    Members,
    derived_id,
    encode,
    format_value,
    is_output,
    is_valid_id,
    join_lines,
    read_value,
    scan_array,
    scan_object,
    skip_space,
)

__all__ = ["Parsed", "Shell", "parse"]
MAJOR = 4

MINOR = 5

_CELLS = "\0"  # where the cells go in a shell's text; valid JSON text holds no such character

_DEFAULT_GAPS = ("[\n  ", ",\n  ", "\n ]")


@dataclass(frozen=True, slots=True)
class Shell:
    """Everything in the file but the cells: top-level members, notebook metadata, and the space around cells."""

    members: Members
    metadata: dict[str, Any]
    gaps: tuple[str, str, str] = _DEFAULT_GAPS
    margins: tuple[str, str] = ("", "\n")

    @classmethod
    def new(cls, metadata: dict[str, Any]) -> Shell:
        """The shell of a notebook that was never in a file."""
        texts = {"cells": _CELLS, "nbformat": str(MAJOR), "nbformat_minor": str(MINOR)}
        return cls(Members(texts), {}).with_metadata(metadata)

    def with_metadata(self, metadata: dict[str, Any]) -> Shell:
        """The same shell with other notebook metadata."""
        texts = {"metadata": format_value(metadata, 1)}
        return replace(self, members=self.members.with_texts(texts), metadata=metadata)

    def render(self, cells: list[bytes]) -> bytes:
        """The whole file with these cells in it."""
        before, after = self.margins
        head, tail = (before + self.members.render(0) + after).split(_CELLS)
        if not cells:
            return encode(f"{head}[]{tail}")
        opening, between, closing = (encode(gap) for gap in self.gaps)
        return b"".join([encode(head), opening, between.join(cells), closing, encode(tail)])


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file holds, and a sentence for each thing in it that was fixed."""

    shell: Shell
    records: list[CellRecord]
    repairs: tuple[str, ...]


def parse(data: bytes, name: str) -> Parsed:
    """Take a notebook file apart.

    Raises:
        NotebookFormatError: it is not a notebook that this version reads.
    """
    text = _decode(data, name)
    start = skip_space(text, 0)
    if text[start : start + 1] != "{":
        raise NotebookFormatError(
            f"{name} is not a notebook: it does not hold a JSON object",
            hint="Give the path of an .ipynb file; `cellwright import` makes one of a script or Markdown",
        )
    try:
        members, values, end = scan_object(text, start, {"cells": _read_cells})
        if skip_space(text, end) != len(text):
            raise json.JSONDecodeError("Extra data", text, end)  # noqa: TRY301  # one place words all JSON errors
    except json.JSONDecodeError as error:
        place = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise NotebookFormatError(
            f"{name} is not valid JSON: {place}", hint="Restore it from a backup, or fix it in a text editor"
        ) from error
    except (ValueError, RecursionError) as error:
        raise NotebookFormatError(f"{name} cannot be read as JSON: {error}") from error
    _check_version(values, name)
    return _assemble(members, values, margins=(text[:start], text[end:]), name=name)


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotebookFormatError(
            f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}",
            hint="Save it as UTF-8, the encoding of all notebooks",
        ) from error
    if not text.strip():
        # Jupyter opens an empty file as a new notebook. Here the same call reads what another program saved over
        # an open notebook, and half a save taken for "all cells deleted" would be a loss.
        raise NotebookFormatError(
            f"{name} is empty", hint="Delete it and create the notebook anew; if it is being saved, try again"
        )
    return text


def _read_cells(text: str, start: int) -> tuple[Any, int]:
    if text[start : start + 1] != "[":
        return read_value(text, start)
    cells, gaps, end = scan_array(text, start, _read_cell)
    return (cells, gaps), end


def _read_cell(text: str, start: int) -> tuple[Any, int]:
    if text[start : start + 1] != "{":
        return read_value(text, start)
    _, fields, end = scan_object(text, start)
    return CellRecord(fields, original=encode(text[start:end])), end


def _check_version(values: dict[str, Any], name: str) -> None:
    major = values.get("nbformat")
    if not isinstance(major, int) or isinstance(major, bool):
        raise NotebookFormatError(
            f"{name} is not a notebook: it names no nbformat",
            hint="Give the path of an .ipynb file; `cellwright import` makes one of a script or Markdown",
        )
    if major < MAJOR:
        converted = f"{PurePath(name).stem}_v4.ipynb"
        command = f"jupyter nbconvert --to notebook {shlex.quote(name)} --output {shlex.quote(converted)}"
        raise NotebookFormatError(
            f"{name} is in nbformat {major}, and nbformat 4 is the oldest that is read",
            hint=f"Convert it with `{command}`",
        )
    if major > MAJOR:
        raise NotebookFormatError(
            f"{name} is in nbformat {major}, and nbformat {MAJOR} is the newest that is read",
            hint="Save it as nbformat 4, or upgrade Cellwright",
        )
    if not isinstance(values.get("cells"), tuple):
        raise NotebookFormatError(f"{name} is not a notebook: it has no list of cells")


def _assemble(members: Members, values: dict[str, Any], *, margins: tuple[str, str], name: str) -> Parsed:
    repairs: list[str] = []
    cells, (opening, between, closing) = values["cells"]
    gaps = (opening, between or _DEFAULT_GAPS[1], closing) if cells else _DEFAULT_GAPS
    texts = {"cells": _CELLS}
    minor = values.get("nbformat_minor")
    if not isinstance(minor, int) or minor < MINOR:
        repairs.append(f"Upgraded from nbformat {MAJOR}.{minor or 0} to {MAJOR}.{MINOR}")
        texts["nbformat_minor"] = str(MINOR)
    metadata = values.get("metadata")
    if not isinstance(metadata, dict):
        repairs.append("The notebook had no metadata")
        metadata, texts["metadata"] = {}, "{}"
    complete = [_complete(record, number, name, repairs) for number, record in enumerate(cells, 1)]
    shell = Shell(
        members.with_texts(texts),
        metadata,
        gaps=gaps,
        margins=margins,
    )
    return Parsed(shell, _with_ids(complete, repairs), tuple(repairs))


def _complete(record: Any, number: int, name: str, repairs: list[str]) -> CellRecord:
    """Check one cell's shape and add what nbformat requires and the file left out."""
    if not isinstance(record, CellRecord):
        raise _malformed(name, number, "it is not an object")
    fields = record.fields
    if not isinstance(fields.get("cell_type"), str):
        raise _malformed(name, number, "it has no cell_type")
    required: dict[str, Any] = {"source": "", "metadata": {}}
    if fields["cell_type"] == "code":
        required |= {"outputs": [], "execution_count": None}
    # A null counts as left out, except for the prompt number, where it means "never run".
    missing = {
        key: value
        for key, value in required.items()
        if fields.get(key) is None and (value is not None or key not in fields)
    }
    fields |= missing
    outputs = fields.get("outputs", [])
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise _malformed(name, number, "its outputs are not a list of objects")
    join_lines(fields)
    if not isinstance(fields["source"], str) or not isinstance(fields["metadata"], dict):
        raise _malformed(name, number, "its source is not text, or its metadata not an object")
    if missing:
        repairs.append(f"Cell {number} had no {', '.join(sorted(missing))}")
    sound = [output for output in outputs if is_output(output)]
    if len(sound) < len(outputs):
        repairs.append(f"Cell {number} had {len(outputs) - len(sound)} outputs that are none")
        missing["outputs"] = sound
    count = fields.get("execution_count")
    if isinstance(count, bool) or not isinstance(count, int | None):
        repairs.append(f"Cell {number} had an execution_count that is no number")
        missing["execution_count"] = None
    return record.changed(missing) if missing else record


def _malformed(name: str, number: int, problem: str) -> NotebookFormatError:
    return NotebookFormatError(
        f"{name} is not a valid notebook: cell {number} is malformed, {problem}",
        hint="Restore it from a backup, or fix the cell in a text editor",
    )


def _with_ids(records: list[CellRecord], repairs: list[str]) -> list[CellRecord]:
    """Give every cell an id of its own; the first of several cells with one id keeps it."""
    taken = {record.id for record in records if is_valid_id(record.fields.get("id"))}
    seen: set[str] = set()
    added = 0
    for index, record in enumerate(records):
        old = record.fields.get("id")
        if is_valid_id(old) and old not in seen:
            seen.add(record.id)
            continue
        cell_id = derived_id(record.source, taken)
        records[index] = record.changed({"id": cell_id})
        taken.add(cell_id)
        if old is None:
            added += 1
        else:
            fault = "same id as an earlier cell" if is_valid_id(old) else "invalid id"
            repairs.append(f"Cell {index + 1} had the {fault}, {old!r}, and is now {cell_id!r}")
    if added:
        repairs.append(f"{added} cells had no id and were given one")
    return records
