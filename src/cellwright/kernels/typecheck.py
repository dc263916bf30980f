"""A notebook as a program that a type checker reads, and what the checker said put back onto cells. Pure.

All cells become one module, in the order of the document, so that a cell knows the names of those above it and below.
A named cell is also a module of its own, as others import it, and is judged as that. JavaScript is read for its names
and not judged. What runs the checker is ``checking``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

__all__ = ["CellSource", "Diagnostic", "Program", "config_of", "diagnostics_of", "join_cells"]

NOTEBOOK = "notebook.ts"
GLOBALS = "globals.d.ts"
CONFIG = "deno.json"
OWN = frozenset({NOTEBOOK, GLOBALS, CONFIG})
# A statement of its own between two cells: the last line of one must not go on in the first of the next.
SEAM = ";"
FIRST_LINES = ["export {};"]
REDECLARED = frozenset({"TS2300", "TS2323", "TS2393", "TS2403", "TS2428", "TS2451", "TS2813", "TS2814"})
# Of these only one of the two places is told, and they come of cells being one module in the first place.
JOINED = frozenset({"TS2395", "TS2440", "TS2484", "TS2528"})
MAX_DIAGNOSTICS = 200
MAX_NAME = 255
_HEAD = re.compile(r"(?:(?P<code>TS\d+) \[\w+\]|error: (?P<name>\w*Error)|error): (?P<message>.*)")
_PLACE = re.compile(r" {4}at (?P<file>file://\S+):(?P<line>\d+):(?P<column>\d+)")
_MARK = re.compile(r"\s*(?:\d+ )?\|?\s*[~^]+\s*")
_NAME = re.compile(r"[\w$]+")


@dataclass(frozen=True, slots=True)
class CellSource:
    """A cell as the checker gets it."""

    cell_id: str
    source: str
    filename: str | None = None
    """Under which others import it, relative to the working directory."""
    language: str = "typescript"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, with its place in the cell; lines and columns count from one."""

    cell_id: str | None
    """None where it stands in a file that is no cell."""
    line: int
    column: int
    code: str
    """Such as ``TS2322``; ``SyntaxError`` where a cell cannot even be read."""
    message: str
    file: str = ""
    """The file, where it is no cell."""


@dataclass(frozen=True, slots=True)
class Program:
    """The files to check, by name, and which lines of the notebook's own come from which cell."""

    files: Mapping[str, str]
    cells: tuple[CellSource, ...]
    starts: tuple[int, ...]
    """The line of the notebook's module that is each cell's first."""

    @property
    def named(self) -> dict[str, CellSource]:
        """Cells that are modules of their own, by file; the last of a name counts, as it does on disk."""
        return {_module_name(cell.filename): cell for cell in self.cells if _is_module(cell)}

    def cell_at(self, line: int) -> tuple[CellSource, int] | None:
        """The cell that a line of the notebook's module comes from, and its number there."""
        index = bisect_right(self.starts, line) - 1
        if index < 0:
            return None
        return self.cells[index], line - self.starts[index] + 1


def join_cells(cells: Sequence[CellSource]) -> Program:
    """The program that the cells of a notebook make."""
    lines = list(FIRST_LINES)
    starts = []
    for cell in cells:
        starts.append(len(lines) + 1)
        lines += [*_lines(cell.source), SEAM]
    program = Program({}, tuple(cells), tuple(starts))
    named = {
        name: cell.source for name, cell in program.named.items() if not _is_below_file(name, program.named)
    }
    return Program({NOTEBOOK: "\n".join([*lines, ""]), **named}, program.cells, program.starts)


def config_of(
    program: Program,
    tsconfig: Mapping[str, Any] | None,
    *,
    seen_at: str,
    cwd: str,
    written: Mapping[str, str],
) -> dict[str, Any]:
    """Deno's configuration for a check of the files at ``seen_at`` as if they lay in ``cwd``.

    ``tsconfig`` holds compiler options, by themselves or as a file holds them. ``written`` are files of the working
    directory that lie elsewhere, by their name there.
    """
    told = dict(tsconfig or {})
    options = told["compilerOptions"] if isinstance(told.get("compilerOptions"), dict) else told
    here = f"{_url(seen_at)}/"
    elsewhere = {f"{here}{quote(name)}": _url(path) for name, path in written.items()}
    own = {f"{here}{quote(name)}": f"{here}{quote(name)}" for name in (*program.files, GLOBALS)}
    types = options.get("types")
    return {
        "compilerOptions": {
            **options,
            "types": [*(types if isinstance(types, list) else []), f"./{GLOBALS}"],
        },
        "imports": {here: f"{_url(cwd)}/", **elsewhere, **own},
    }


def diagnostics_of(output: str, program: Program, *, seen_at: str) -> list[Diagnostic]:
    """What the checker found, cell by cell; that a name is declared again in another cell is no mistake here."""
    found = [(told, *_place(told, program, seen_at)) for told in _blocks(output)]
    again = _declared_again([(told, cell) for told, cell, _ in found])
    kept = [
        diagnostic
        for told, _, diagnostic in found
        if diagnostic is not None and told.code not in JOINED and again.isdisjoint(told.words)
    ]
    return list(dict.fromkeys(kept))[:MAX_DIAGNOSTICS]


@dataclass(frozen=True, slots=True)
class _Told:
    code: str
    message: str
    source: str
    name: str
    """What stands at the place."""
    file: str
    line: int
    column: int

    @property
    def words(self) -> set[str]:
        return {*_NAME.findall(self.source), *_NAME.findall(self.message)}


def _blocks(output: str) -> list[_Told]:
    """The checker's own words, one by one."""
    told: list[_Told] = []
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in output.splitlines():
        if (begun := _HEAD.fullmatch(line)) is not None:
            head, body = begun, []
        elif head is not None and (place := _PLACE.fullmatch(line)) is not None:
            told.append(_told(head, body, place))
            # What follows up to the next head explains this one further.
            head = None
        elif head is not None:
            body.append(line)
    return told


def _told(head: re.Match[str], body: Sequence[str], place: re.Match[str]) -> _Told:
    marked = next((number for number, line in enumerate(body) if _MARK.fullmatch(line)), None)
    more = body if marked is None else body[: marked - 1]
    source = "" if marked is None else body[marked - 1]
    at = 0 if marked is None else re.search(r"[~^]", body[marked]).start()  # type: ignore[union-attr]  # it matched
    name = _NAME.match(source, at)
    message = "\n".join([head["message"], *(line for line in more if line.strip() not in ("", "|"))])
    return _Told(
        head["code"] or head["name"] or "Error",
        message,
        source,
        name[0] if name is not None else "",
        place["file"],
        int(place["line"]),
        int(place["column"]),
    )


def _place(told: _Told, program: Program, seen_at: str) -> tuple[CellSource | None, Diagnostic | None]:
    """The cell that it is about, and the diagnostic, unless it is about nothing that is judged there."""
    here = f"{_url(seen_at)}/"
    name = unquote(told.file.removeprefix(here))
    message = told.message.replace(here, "./")
    if not told.file.startswith(here):
        path = unquote(told.file.removeprefix("file://"))
        return None, Diagnostic(None, told.line, told.column, told.code, message, path)
    if name == NOTEBOOK:
        cell, line = program.cell_at(told.line) or (None, 0)
        elsewhere = cell is not None and _is_module(cell) and told.code.startswith("TS")
    else:
        cell, line, elsewhere = program.named.get(name), told.line, False
    if cell is None or elsewhere or cell.language != "typescript":
        return cell, None
    # The seam belongs to nobody: what is wrong there began on the line before it.
    line = min(line, len(_lines(cell.source)))
    return cell, Diagnostic(cell.cell_id, line, told.column, told.code, message)


def _declared_again(found: Sequence[tuple[_Told, CellSource | None]]) -> frozenset[str]:
    """Names that more than one cell declares, of which a checker knows one meaning only."""
    where: dict[str, set[str]] = defaultdict(set)
    for told, cell in found:
        if told.code in REDECLARED and cell is not None:
            where[told.name].add(cell.cell_id)
    joined = {told.name for told, _ in found if told.code in JOINED}
    return frozenset(joined | {name for name, cells in where.items() if len(cells) > 1}) - {""}


def _url(path: str) -> str:
    return f"file://{quote(path)}"


def _lines(source: str) -> list[str]:
    """Only what ends a line for the checker does here, so that numbers stay the same on both sides."""
    return re.split(r"\r\n|[\n\r\u2028\u2029]", source)


def _is_module(cell: CellSource) -> bool:
    name = _module_name(cell.filename)
    return name not in OWN and _can_be_written(name) and not _is_below_file(name, OWN)


def _can_be_written(name: str) -> bool:
    return "\0" not in name and all(
        0 < len(part.encode("utf-8", "replace")) <= MAX_NAME for part in name.split("/")
    )


def _is_below_file(name: str, files: Container[str]) -> bool:
    """Whether a directory above it has the name of a file."""
    return any(str(above) in files for above in PurePosixPath(name).parents)


def _module_name(filename: str | None) -> str:
    """The name with which a module lies beside the notebook's; what climbs out of there lies there all the same."""
    parts = [part for part in PurePosixPath(filename or "").parts if part not in ("/", "..", ".")]
    return "/".join(parts)
