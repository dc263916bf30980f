"""Fields of untrusted JSON, read one by one: a value of the right form, or a problem that names the field by its path.

Knows nothing of what the fields mean (see ``manifests``).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FieldReader", "Problem", "listed", "quoted", "suggestion"]

_QUOTED_CHARACTERS = 60
_LISTED_NAMES = 12
# Below this a name is no slip of another but a word of its own.
_LIKENESS = 0.72


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: which field, and what is wrong with it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def quoted(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    if isinstance(value, str):
        text = repr(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=repr)
        except (ValueError, RecursionError):
            text = type(value).__name__
    return text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}…"


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them, the first dozen and how many more there are."""
    shown = ", ".join(name if name.isidentifier() else repr(name) for name in names[:_LISTED_NAMES])
    more = len(names) - _LISTED_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def suggestion(name: str, known: Sequence[str]) -> str:
    """`` — did you mean 'revenue'?``, or nothing where no known name is like it."""
    folded = {other.casefold().replace("_", ""): other for other in reversed(known)}
    near = difflib.get_close_matches(name.casefold().replace("_", ""), list(folded), 1, _LIKENESS)
    return f" — did you mean {folded[near[0]]!r}?" if near else ""


class FieldReader:
    """Reads the fields of one object and keeps what is wrong with them."""

    def __init__(self, held: Mapping[str, Any], path: str, known: Sequence[str]) -> None:
        self.held = held
        self.problems: list[Problem] = []
        self.notices: list[str] = []
        self._path = path
        self._known = known

    def refuse(self, name: str, message: str) -> None:
        self.problems.append(Problem(f"{self._path}.{name}", message))

    def look_for_strangers(self) -> None:
        """A field that is a slip of a known one is refused; any other is said to do nothing."""
        for name in self.held:
            if name in self._known:
                continue
            meant = suggestion(str(name), self._known)
            if meant:
                self.refuse(str(name), f"there is no such field{meant}")
            else:
                self.notices.append(f"{self._path}.{name} does nothing: known are {', '.join(self._known)}")

    def text(self, name: str, *, required: bool = False, longest: int | None = None) -> str | None:
        value = self.held.get(name)
        if value is None or (required and value == ""):
            if required:
                self.refuse(name, "it is missing" if value is None else "it is empty")
            return None
        if not isinstance(value, str):
            self.refuse(name, f"it must be text, and is {quoted(value)}")
            return None
        if longest is not None and len(value) > longest:
            self.refuse(name, f"{len(value):,} characters are more than {longest:,}")
            return None
        return _without_surrogates(value)

    def names(self, name: str, *, at_most: int, also_one: bool = False) -> tuple[str, ...]:
        value = self.held.get(name)
        if value is None:
            return ()
        if also_one and isinstance(value, str):
            return (_without_surrogates(value),)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            form = "a column's name or a list of names" if also_one else "a list of column names"
            self.refuse(name, f"it must be {form}, and is {quoted(value)}")
            return ()
        if len(value) > at_most:
            self.refuse(name, f"{len(value):,} columns are more than {at_most}")
            return ()
        return tuple(dict.fromkeys(_without_surrogates(entry) for entry in value))

    def whole_number(self, name: str, *, at_least: int, at_most: int) -> int | None:
        value = self.held.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= at_most:
            self.refuse(
                name, f"it must be a whole number from {at_least:,} to {at_most:,}, and is {quoted(value)}"
            )
            return None
        return value


def _without_surrogates(text: str) -> str:
    """JSON can write half of a character, which nothing else can."""
    return text.encode("utf-8", "replace").decode()
