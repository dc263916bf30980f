"""An expression as tokens. What is not listed here cannot be said: there are no strings, no attributes, no code."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cellwright.errors import CalculationTooLarge, ExpressionInvalid
from cellwright.tools.calculator.bounds import MAX_CHARACTERS

__all__ = ["Kind", "Token", "tokens"]

Kind: TypeAlias = Literal["number", "date", "name", "sign", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    at: int
    """Where it begins, counted from nought."""
    end: int


_DATE = r"\d{4}-\d{2}-\d{2}(?!\d)(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})?)?"
_NUMBER = (
    r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+"
    # The dots of a span are not a decimal point, and `2e` is twice e.
    r"|(?:\d[\d_]*(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
)
_NAME = r"°[CFcf]\b|[A-Za-zµμΩÅπτφ][A-Za-z0-9_µμΩÅ]*|°"
_SIGN = r"\*\*|->|→|\.\.|==|!=|<=|>=|//|[-+*/%^!|()\[\],;=<>√²³×÷·−≤≥≠\n]"
_TOKEN = re.compile(
    rf"(?P<space>[ \t\r]+)|(?P<date>{_DATE})|(?P<number>{_NUMBER})|(?P<name>{_NAME})|(?P<sign>{_SIGN})",
    re.ASCII,
)

_SPELLINGS = {
    "**": "^",
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
    "→": "to",
    "->": "to",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "\n": ";",
    "π": "pi",
    "τ": "tau",
    "φ": "phi",
    "°": "degree",
    "°C": "degC",
    "°c": "degC",
    "°F": "degF",
    "°f": "degF",
}
_REASONS = {
    '"': "there is no text in expressions",
    "'": "there is no text in expressions",
    "`": "there is no text in expressions",
    ".": "a point stands between digits only: values have no attributes",
    "{": "there are no sets or templates in expressions",
    "}": "there are no sets or templates in expressions",
    "_": "names begin with a letter",
    "@": "matrices are multiplied with matmul(a, b)",
    "&": "numbers are not combined bit by bit",
    "~": "numbers are not combined bit by bit",
    ":": "there are no slices, blocks or functions to define",
    "\\": "there are no escapes in expressions",
    "#": "there are no comments in expressions",
    "$": "there are no exchange rates here, so currencies are left out: write plain numbers",
    "€": "there are no exchange rates here, so currencies are left out: write plain numbers",
    "£": "there are no exchange rates here, so currencies are left out: write plain numbers",
    "¥": "there are no exchange rates here, so currencies are left out: write plain numbers",
}


def tokens(text: str) -> list[Token]:
    """The expression's tokens, the last of kind ``end``.

    Raises:
        CalculationTooLarge: it is too long.
        ExpressionInvalid: it has a character that no expression has.
    """
    if len(text) > MAX_CHARACTERS:
        raise CalculationTooLarge(
            f"The expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read",
            hint="Calculate with a smaller one, or run it as code",
        )
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _unknown(text, at)
        at = match.end()
        if match.lastgroup != "space":
            found.append(_token(match))
    return [*found, Token("end", "", len(text), len(text))]


def _token(match: re.Match[str]) -> Token:
    text = _SPELLINGS.get(match.group(), match.group())
    kind: Kind = "sign"
    if match.lastgroup == "number":
        kind = "number"
    elif match.lastgroup == "date":
        kind = "date"
    elif match.lastgroup == "name" or text == "to":
        kind = "name"
    return Token(kind, text, match.start(), match.end())


def _unknown(text: str, at: int) -> ExpressionInvalid:
    character = text[at]
    name = unicodedata.name(character, f"U+{ord(character):04X}")
    shown = repr(character) if character.isascii() else f"{character!r} ({name})"
    if character == ":" and text[:at][-1:].isdigit() and text[at + 1 : at + 2].isdigit():
        return ExpressionInvalid(
            f"Character {at + 1} of the expression is ':': there are no times of the day on a clock",
            hint="Write a duration, as in `12 h 30 min + 45 min`, or seconds",
        )
    reason = _REASONS.get(character, "expressions are written with plain digits, letters and signs")
    return ExpressionInvalid(
        f"Character {at + 1} of the expression is {shown}: {reason}",
        hint="Write something like `3 ft + 20 cm to m`, `sqrt(2)/2` or `mean([1, 2, 4])`",
    )
