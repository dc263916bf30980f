"""An array's kind, and its least and greatest value, as numpy knows them at once."""

from __future__ import annotations

import math
from typing import Any

from cellwright_kernel.framefields import Extent
from cellwright_kernel.genuine import library
from cellwright_kernel.tables import ColumnKind

__all__ = ["array_extent", "kind_of_letter"]


def kind_of_letter(letter: str) -> ColumnKind | None:
    """The kind of a column by numpy's letter for its type; ``None`` where only the values can tell."""
    if letter in "iufm":
        return "number"
    kinds: dict[str, ColumnKind] = {
        "b": "bool",
        "M": "time",
        "U": "text",
        "c": "other",
        "V": "other",
        "S": "other",
    }
    return kinds.get(letter)


def array_extent(array: Any) -> Extent | None:
    """The least and the greatest value, gaps left aside; ``None`` where they cannot be had at once."""
    numpy: Any = library("numpy")
    if numpy is None or not array.size:
        return None
    if array.dtype.kind == "f":
        # These ignore gaps, and unlike `nanmin` neither copy nor warn.
        low, high = numpy.fmin.reduce(array).item(), numpy.fmax.reduce(array).item()
        return None if math.isnan(low) else (low, high)
    if array.dtype.kind == "M":
        # As integers, which is several times faster; the least of them stands for a gap.
        numbers = array.view("i8")
        low = numbers.min()
        return (
            None if low == numpy.iinfo("i8").min else (low.view(array.dtype), numbers.max().view(array.dtype))
        )
    return array.min().item(), array.max().item()
