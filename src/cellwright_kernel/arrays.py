"""What numpy knows of an array at once: its kind, and its least and greatest value."""

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
    """The least and the greatest value, gaps left aside; ``None`` where there is none."""
    numpy: Any = library("numpy")
    if numpy is None or not array.size:
        return None
    # These ignore gaps, and unlike `nanmin` neither copy nor warn.
    low, high = numpy.fmin.reduce(array, axis=None), numpy.fmax.reduce(array, axis=None)
    if array.dtype.kind == "M":
        return None if numpy.isnat(low) else (low, high)
    low, high = low.item(), high.item()
    return None if isinstance(low, float) and math.isnan(low) else (low, high)
