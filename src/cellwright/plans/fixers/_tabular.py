"""Text files that are read in another encoding, or split by another separator, than they are written in.

Decides by how the file begins (``diagnosis.heads``): an encoding is certain only where everything in it makes sense
as text, a separator only where every line has as many of it. Reads no file.
"""

from __future__ import annotations

import ast
import codecs
import csv
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

from cellwright.engine.introspection import Head
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import (
    Case,
    Edit,
    called,
    case_of,
    keyword_of,
    literal_like,
    path_of,
    with_argument,
    write_target,
)
from cellwright.plans.fixers._similarity import nearest

__all__ = [
    "fix_encoding",
    "fix_header",
    "fix_one_column",
    "fix_separator",
    "sniff_encoding",
    "sniff_separator",
]
_TEXT_READERS = frozenset(
    ["open", "read_csv", "read_table", "read_fwf", "read_json", "read_text", "loadtxt", "genfromtxt"]
)

_TABLE_READERS = frozenset(["read_csv", "read_table", "scan_csv"])

_RAGGED = re.compile(r"Expected (?P<expected>\d+) fields in line (?P<line>\d+), saw (?P<saw>\d+)")

_NO_COLUMN = (
    re.compile(r"columns expected but not found: \[(?P<names>[^\]]+)\]"),
    re.compile(r"Missing column provided to 'parse_dates': (?P<names>.+)"),
    re.compile(r"^Index (?P<names>.+) invalid$"),
)

_SEPARATORS = (";", "\t", "|")


def fix_encoding(failure: Failure) -> Proposal | None:
    """Read a text in the encoding that it is written in."""
    case = case_of(failure, "UnicodeDecodeError", "UnicodeError", "ComputeError")
    if case is None or (case.error.type == "ComputeError" and "utf-8" not in case.error.message):
        return None
    found = _reader(case, _TEXT_READERS)
    if found is None:
        return None
    call, head = found
    sniffed = sniff_encoding(head.content)
    if sniffed is None:
        return Proposal(
            "encoding",
            f"{head.path!r} is no UTF-8, and how it begins does not tell what it is: name its encoding.",
        )
    edit = _encoding_edit(case, call, sniffed.name)
    reason = f"{head.path!r} is written in {sniffed.name}, not in UTF-8."
    return case.proposal("encoding", reason, [edit] if edit else (), certain=sniffed.certain)


def _encoding_edit(case: Case, call: ast.Call, encoding: str) -> Edit | None:
    said = f'"{encoding}"'
    if called(call) == "read_text" and call.args:
        return case.cell.replace(call.args[0], said) if isinstance(call.args[0], ast.Constant) else None
    if called(call) == "open" and any("b" in str(getattr(each, "value", "")) for each in call.args[1:2]):
        return None
    return with_argument(case.cell, call, "encoding", said)


def fix_separator(failure: Failure) -> Proposal | None:
    """Split lines by the separator that all of them have."""
    case = case_of(failure, "ParserError", "ComputeError")
    found = _reader(case, _TABLE_READERS) if case else None
    if case is None or found is None:
        return None
    call, head = found
    ragged = _RAGGED.search(case.error.message)
    separator = _separator_of(head)
    if separator is not None and _separator(call) in _header(head):
        separator = (
            None  # the header has the separator that the call goes by, and more fields than by the other
        )
    if separator is None or separator == _separator(call):
        if ragged is None:
            return None
        return Proposal(
            "separator",
            f"Line {ragged['line']} of {head.path!r} has {ragged['saw']} fields where {ragged['expected']} are expected: "
            "fix the line, or say which lines to skip (`skiprows`, `on_bad_lines`).",
        )
    reason = f"The fields of {head.path!r} are separated by {separator!r}."
    return _with_separator(case, call, separator, head, reason)


def fix_one_column(failure: Failure) -> Proposal | None:
    """A frame with a single column that holds all the others' names: its file has another separator."""
    case = case_of(failure, "KeyError", "ColumnNotFoundError", "AttributeError")
    subject = case.diagnosis.subject if case else None
    if case is None or subject is None or subject.columns is None or len(subject.columns) != 1:
        return None
    header = str(subject.columns[0])
    separators = [mark for mark in _SEPARATORS if len(_fields(header, mark)) > 1]
    if len(separators) != 1:
        return None
    reason = f"`{subject.expression}` has one column, {header!r}: its file is separated by {separators[0]!r}."
    found = _reader(case, _TABLE_READERS)
    if found is None:
        return Proposal("separator", reason)
    call, head = found
    is_its = any(
        isinstance(node, ast.Assign)
        and call in ast.walk(node.value)
        and any(isinstance(target, ast.Name) and target.id == subject.expression for target in node.targets)
        for node in ast.walk(case.cell.tree)
    )
    if not is_its or _separator_of(head) != separators[0]:
        return Proposal("separator", reason)
    return _with_separator(case, call, separators[0], head, reason)


def fix_header(failure: Failure) -> Proposal | None:
    """A column that a reader is told of, and that the file's first line has otherwise."""
    case = case_of(failure, "ValueError")
    found = next((match for each in _NO_COLUMN if case and (match := each.search(case.error.message))), None)
    reader = _reader(case, _TABLE_READERS) if case and found else None
    if case is None or found is None or reader is None:
        return None
    call, head = reader
    text = decoded(head.content, _encoding(call))
    header = (
        _fields((text or "").splitlines()[0], _separator(call)) if text and len(_separator(call)) == 1 else []
    )
    names = re.findall(r"'([^']*)'", found["names"]) or [found["names"]]
    nears = {name: nearest(name, header) for name in names if name not in header}
    edits = [
        case.cell.replace(node, literal)
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (near := nears.get(node.value)) is not None and len(near.found) == 1
        if (literal := literal_like(case.cell.segment(node), node.value, near.best)) is not None
    ]
    certain = (
        bool(nears) and len(edits) == len(nears) and all(near and near.certain for near in nears.values())
    )
    shown = ", ".join(repr(name) for name in header[:20])
    reason = f"{head.path!r} has no column {', '.join(map(repr, nears))}; it has {shown}."
    return case.proposal("column", reason, edits, certain=certain) if header else None


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _with_separator(case: Case, call: ast.Call, separator: str, head: Head, reason: str) -> Proposal:
    name = "separator" if ast.unparse(call.func).startswith(("pl.", "polars.")) else "sep"
    edits = [with_argument(case.cell, call, name, _quoted(separator), "sep", "delimiter", "separator")]
    text = decoded(head.content, _encoding(call))
    commas = text is not None and has_decimal_commas(text, separator) and keyword_of(call, "decimal") is None
    if commas and name == "sep" and keyword_of(call, "sep", "delimiter") is None:
        # Two keywords at one place are one edit.
        edits = [with_argument(case.cell, call, name, f'{_quoted(separator)}, decimal=","')]
        reason += " Its numbers seem to have decimal commas."
    return case.proposal(
        "separator", reason, [edit for edit in edits if edit], certain=not commas and None not in edits
    )


def _quoted(separator: str) -> str:
    return '"\\t"' if separator == "\t" else f'"{separator}"'


def _separator(call: ast.Call) -> str:
    """The separator that the call goes by."""
    keyword = keyword_of(call, "sep", "delimiter", "separator")
    if keyword is None:
        return "\t" if called(call) == "read_table" else ","
    return str(getattr(keyword.value, "value", ""))


def _encoding(call: ast.Call) -> str:
    keyword = keyword_of(call, "encoding")
    return str(getattr(keyword.value, "value", "utf-8")) if keyword is not None else "utf-8"


def _header(head: Head) -> str:
    return next(iter((decoded(head.content, "latin-1") or "").splitlines()), "")


def _separator_of(head: Head) -> str | None:
    text = decoded(head.content, "utf-8") or decoded(head.content, "cp1252")
    return None if text is None else sniff_separator(text, whole=head.size <= len(head.content))


def _reader(case: Case, names: frozenset[str]) -> tuple[ast.Call, Head] | None:
    """The call that read the file, and how the file begins; None where it could be another."""
    calls = [
        node
        for node in ast.walk(case.cell.tree)
        if isinstance(node, ast.Call) and called(node) in names and write_target(node) is None
    ]
    named = [
        (call, head) for call in calls for head in case.diagnosis.heads if head.path in _texts(case, call)
    ]
    if len(named) == 1:
        return named[0]
    if len(calls) == 1 and len(case.diagnosis.heads) == 1 and not named:
        return calls[0], case.diagnosis.heads[0]
    failing = case.statement
    here = [pair for pair in named if failing is not None and case.cell.statement_of(pair[0]) is failing]
    return here[0] if len(here) == 1 else None


def _texts(case: Case, call: ast.Call) -> Sequence[str]:
    """The texts that say which file it is: literals, and those that a name in the cell was given."""
    path = path_of(call) if called(call) != "read_text" else None
    node = path if path is not None else call.func
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    given = [
        assign.value
        for assign in ast.walk(case.cell.tree)
        if isinstance(assign, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in assign.targets)
    ]
    return [
        each.value
        for held in (node, *given)
        for each in ast.walk(held)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


# What a text file is written in, by how it begins: its encoding, its separator, its decimal sign.

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

_CANDIDATES = (",", ";", "\t", "|")

_MAX_ROWS = 500

# What a western European text has, by language. Central European code pages have other letters in some of these places:
# together they make no language, or stand where they do not stand in it.
_ALPHABETS = tuple(
    frozenset(letters)
    for letters in (
        "äöüßéàè",
        "àâæçéèêëîïôùûü",
        "áéíñóúü",
        "àáâãçéêíóôõúü",
        "àèéìòùíó",
        "åäöæøéü",
        "áâäçéëíîóôöúüß",
    )
)

_MISPLACED = re.compile(
    r"ñ(?![aeiouáéíóú])|õ(?!e)|ã(?![oe]|s?\b)|è(?=[aeiouy])"
    # A word of such letters alone, a letter that is no word, and a mark where none stands.
    r"|\b[à-öø-ÿ]{2,}\b|\b[à-öø-ÿ]\b(?<![àèéóåöøæ])|\B”(?=\w)|(?<=[a-z])\xa0(?=[a-z])"
)

# Signs that stand beside letters and numbers, not within words.
_SIGNS = frozenset("€£§°²³µ«»“”„\u2018\u2019\u2013—·\xa0®©™½¼¾±\xd7¿¡ºª")

_JOINED = re.compile(r"(?<=[^\W\d_])[€£§°²³µ«»“”„®©™½¼¾±\xd7¿¡ºª](?=[^\W\d_])")

_MAX_RUN = re.compile(r"[\x80-\uffff]{3}")

# One byte that is wrong in much that is not.
_LETTER_IN_UTF8 = re.compile(rb"[\xc2\xc3][\x80-\xbf]")

_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3})+")

_DECIMAL = re.compile(r"-?\d{1,3}(?:\.\d{3})*,\d+|-?\d+,\d+")


class Encoding(NamedTuple):
    name: str
    certain: bool


def sniff_encoding(content: bytes) -> Encoding | None:
    """The encoding of what is no UTF-8; None where it cannot be told."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return Encoding(name, certain=True)
    if decoded(content, "utf-8") is not None:
        # What is wrong comes later than what is known.
        return None
    text = decoded(content, "cp1252")
    if text is None or "\0" in text or _LETTER_IN_UTF8.search(content):
        return None
    strange = {letter for letter in text if letter > "\x7f"}
    letters = {letter for each in strange - _SIGNS for letter in each.lower()}
    western = any(letters <= alphabet for alphabet in _ALPHABETS)
    strangely = any(pattern.search(text) for pattern in (_JOINED, _MAX_RUN))
    sensible = western and not strangely and not _MISPLACED.search(text.lower())
    return Encoding("cp1252", certain=True) if sensible else None


def decoded(content: bytes, encoding: str) -> str | None:
    """The text, but for a letter that may be cut off at the end; None where it is no such text."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(content)
    except (UnicodeError, LookupError):
        return None


def sniff_separator(text: str, *, whole: bool) -> str | None:
    """The one separator that every line has as many of; None where there is none, or more than one."""
    if not whole:
        text = text[: max(text.rfind("\n"), 0)]
    consistent = [mark for mark in _CANDIDATES if _is_consistent(_rows(text, mark))]
    return consistent[0] if len(consistent) == 1 else None


def _rows(text: str, separator: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return [row for _, row in zip(range(_MAX_ROWS), reader, strict=False) if row]
    except csv.Error:
        return []


def _is_consistent(rows: list[list[str]]) -> bool:
    return len(rows) > 1 and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


def has_decimal_commas(text: str, separator: str) -> bool:
    """Whether some field is a number only if its comma is a decimal sign, or one between thousands.

    Points between thousands count too: a column of them would be read as one of fractions.
    """
    rows = _rows(text, separator)[1:]
    if any(_DECIMAL.fullmatch(field.strip()) for row in rows for field in row):
        return True
    columns = [[field.strip() for field in column if field.strip()] for column in zip(*rows, strict=False)]
    return any(column and all(_THOUSANDS.fullmatch(field) for field in column) for column in columns)
