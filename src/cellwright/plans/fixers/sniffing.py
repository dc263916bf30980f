"""What a text file is written in, by how it begins: its encoding, its separator, its decimal sign.

Pure. Says nothing rather than something that only may be.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from typing import NamedTuple

__all__ = ["Encoding", "decoded", "has_decimal_commas", "sniff_encoding", "sniff_separator"]

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
