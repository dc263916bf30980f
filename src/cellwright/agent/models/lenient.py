"""JSON as small models write it, read without guessing: the value at a place in a text, and where it ends.

More than JSON: quotes of either kind, three at once, line ends inside them, names without quotes, Python's constants,
comments, commas too many, and closing brackets that are missing at the very end. What needs a guess is refused. Knows
nothing of actions (see ``textactions``).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["Unreadable", "is_json", "value_at"]

_space = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*)*")
_word = re.compile(r"[A-Za-z_][\w-]*")
_number = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_CODES = {"u": 4, "x": 2}
_MOST_DEEP = 50
_strict = json.JSONDecoder(strict=False)


class Unreadable(ValueError):
    """It is no value; the message says what was found where one should go on."""


def value_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at ``start``, and the place after it.

    Raises:
        Unreadable: there is none.
    """
    try:
        value, end = _strict.raw_decode(text, start)
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        return reader.value(0), reader.at
    if not is_json(value):
        raise Unreadable("it is nested too deeply")
    return value, end


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a value can be written as JSON, and is not nested more deeply than everybody can read."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        named = all(isinstance(key, str) for key in value) if isinstance(value, dict) else True
        return depth <= _MOST_DEEP and named and all(is_json(one, depth + 1) for one in inner)
    return value is None or isinstance(value, str | int | float)


@dataclass(slots=True)
class _Reader:
    text: str
    at: int

    def value(self, depth: int) -> Any:
        self._skip()
        begun = self._next()
        if depth > _MOST_DEEP:
            raise Unreadable("it is nested too deeply")
        if begun == "{":
            return self._object(depth)
        if begun == "[":
            return self._array(depth)
        if begun and begun in "\"'":
            return self._string()
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while not self._closed("}"):
            key = self._key()
            self._skip()
            if self._next() not in (":", "="):
                raise Unreadable(f"after {key!r} comes {self._next()!r} instead of a colon")
            self.at += 1
            found[key] = self.value(depth + 1)
            self._comma("}")
        return found

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while not self._closed("]"):
            found.append(self.value(depth + 1))
            self._comma("]")
        return found

    def _closed(self, bracket: str) -> bool:
        self._skip()
        if self._next() == bracket:
            self.at += 1
            return True
        # What is cut off after a whole value lacks only brackets. A fence is where the writer thought it was whole.
        return self.at >= len(self.text) or self.text.startswith("```", self.at)

    def _comma(self, bracket: str) -> None:
        self._skip()
        if self._next() == ",":
            self.at += 1
        elif self._next() not in (bracket, "") and not self.text.startswith("```", self.at):
            raise Unreadable(f"{self._next()!r} stands where a comma or {bracket!r} should be")

    def _key(self) -> str:
        if self._next() in ('"', "'"):
            return self._string()
        word = _word.match(self.text, self.at)
        if word is None:
            raise Unreadable(f"{self._next()!r} stands where a name should be")
        self.at = word.end()
        return word[0]

    def _string(self) -> str:
        mark = self._next()
        if self.text.startswith(mark * 3, self.at):
            mark *= 3
        self.at += len(mark)
        pieces: list[str] = []
        while not self.text.startswith(mark, self.at):
            if self.at >= len(self.text):
                raise Unreadable("a text is not closed")
            pieces.append(self._character())
        self.at += len(mark)
        return "".join(pieces)

    def _character(self) -> str:
        character = self.text[self.at]
        self.at += 1
        if character != "\\" or self.at >= len(self.text):
            return character
        escaped = self.text[self.at]
        self.at += 1
        if escaped in _CODES:
            digits = self.text[self.at : self.at + _CODES[escaped]]
            try:
                code = chr(int(digits, 16))
            except ValueError:
                return f"\\{escaped}"
            self.at += len(digits)
            return code
        if escaped in "\"'\\/":
            return escaped
        # As in Python: a backslash that means nothing is one (of a regular expression, as a rule).
        return _ESCAPES.get(escaped, f"\\{escaped}")

    def _scalar(self) -> Any:
        word = _word.match(self.text, self.at)
        if word is not None and word[0].lower() in _CONSTANTS:
            self.at = word.end()
            return _CONSTANTS[word[0].lower()]
        number = _number.match(self.text, self.at)
        if number is None:
            raise Unreadable(f"{self._next() or 'the end'!r} stands where a value should be")
        self.at = number.end()
        try:
            return int(number[0]) if number[0].lstrip("+-").isdigit() else float(number[0])
        except ValueError:  # of thousands of digits
            raise Unreadable("a number is too long") from None

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self) -> None:
        found = _space.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
