"""The interface of a frame: fields, a number of rows, and three questions that its library answers.

Knows no library; see ``frames``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cellwright_kernel.tables import ColumnKind

__all__ = ["Extent", "Field", "Frame", "unique_names"]

Extent: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: ColumnKind | None
    """``None`` where only the values can tell."""
    dtype: str
    is_index: bool = False
    """Whether it names the rows, and is no column of the frame itself."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A value seen as columns."""

    type: str
    fields: tuple[Field, ...]
    total_rows: int
    take: Callable[[range, Sequence[int]], list[list[Any]]]
    """The raw values of some rows, a list for each of the fields asked for."""
    missing: Callable[[int], int]
    """How many rows of all have no value in a field."""
    column: Callable[[int], Any]
    """A field as its library holds it."""
    extent: Callable[[int], Extent | None] = lambda _: None
    """The least and the greatest value of all, where the library has them at once."""
    notices: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many columns the frame itself has."""
        return sum(1 for field in self.fields if not field.is_index)


def unique_names(names: Iterable[str]) -> list[str]:
    """Names of which none is another's; a second ``x`` becomes ``x_2``, and one without a name ``column``."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        made = base = name or "column"
        while made in found:
            numbers[base] = numbers.get(base, 1) + 1
            made = f"{base}_{numbers[base]}"
        found[made] = None
    return list(found)
