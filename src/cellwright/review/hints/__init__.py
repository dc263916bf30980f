"""Hints: functions from a cell to spots in it that may cost time. They see no kernel and no file, and change nothing.

Above is whoever measures, and tries what a hint proposes; below are only data. A hint is one function in a file and one
row of the table: what it costs is measured for all alike.
"""

from __future__ import annotations

import logging

from cellwright.review._findings import Kind, Spot
from cellwright.review._pages import Case
from cellwright.review.hints._frames import (
    find_copies,
    find_groupings,
    find_objects,
    find_python_sums,
    find_tops,
    find_unused_columns,
)
from cellwright.review.hints._loops import find_growth, find_rereads, find_row_applies, find_row_loops

__all__ = ["HINTS", "find_spots"]

_log = logging.getLogger(__name__)

HINTS: tuple[Kind, ...] = (
    Kind(
        "row_loop", find_row_loops, "Each row becomes a Python object; a column's own arithmetic needs none."
    ),
    Kind("row_apply", find_row_applies, "`apply` with axis=1 is a loop over rows in disguise."),
    Kind("growth", find_growth, "All that was there is copied each time; collected pieces are joined once."),
    Kind("reread", find_rereads, "A copy in memory costs less than reading and parsing the file again."),
    Kind("unused_columns", find_unused_columns, "Columns that nobody uses are parsed and kept all the same."),
    Kind("regroup", find_groupings, "A group-by that is kept has found its groups already."),
    Kind("sorted_top", find_tops, "The first few can be found without putting the rest in order."),
    Kind("python_sum", find_python_sums, "Every number becomes a Python object before it is added."),
    Kind("needless_copy", find_copies, "The next call gives something new without it."),
    Kind("objects", find_objects, "Python objects take more memory, and every later step is slower on them."),
)
"""All hints, in the order in which a review lists them."""


def find_spots(case: Case) -> list[tuple[Kind, Spot]]:
    """What every hint finds in a cell."""
    found: list[tuple[Kind, Spot]] = []
    for kind in HINTS if case.page.plain else ():
        try:
            found += [(kind, spot) for spot in kind.find(case)]
        except Exception:  # noqa: BLE001  # boundary: one bad hint must not take the others' word
            _log.exception("hint_failed hint=%s", kind.name)
    return found
