"""The difference between two texts, line by line, for a page. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["DiffLine", "Sign", "diff_lines"]

Sign: TypeAlias = Literal["+", "-", " ", "…"]
_LONGEST = 2_000
"""Comparing takes the square of this in the worst case."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line that was added, taken out or stayed; ``…`` stands for lines that are not shown."""

    sign: Sign
    text: str

    @property
    def word(self) -> str:
        """The sign for who does not see colours."""
        return {"+": "added", "-": "removed", " ": "", "…": "left out"}[self.sign]


def diff_lines(before: str, after: str, *, around: int = 3) -> list[DiffLine]:
    """What changed, with a few lines around each change."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _LONGEST:
        return [DiffLine("…", f"{len(old):,} lines became {len(new):,}: too many to compare")]
    return list(_lines(old, new, around))


def _lines(old: list[str], new: list[str], around: int) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(around)):
        if number or group[0][1] > 0:
            yield DiffLine("…", "")
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[old_from:old_to])
                continue
            yield from (DiffLine("-", line) for line in old[old_from:old_to])
            yield from (DiffLine("+", line) for line in new[new_from:new_to])
