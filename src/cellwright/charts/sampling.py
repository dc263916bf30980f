"""Fewer rows that look like all of them: spread evenly, or with the extremes of every stretch. Pure and repeatable."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["extremes", "spread"]

_SEED = 20


def spread(rows: int, keep: int, also: Sequence[int] = ()) -> list[int]:
    """One row of each of ``keep`` stretches of the same length, chosen without a rhythm, and those in ``also``."""
    if rows <= keep:
        return list(range(rows))
    choose = random.Random(_SEED)  # noqa: S311  # repeatable, not secret
    chosen = {
        choose.randrange(index * rows // keep, max((index + 1) * rows // keep, index * rows // keep + 1))
        for index in range(keep)
    }
    return sorted(chosen.union(also))


def extremes(values: Sequence[float | None], keep: int) -> list[int]:
    """The places of the lowest and highest value of each stretch, with the first and the last: spikes stay."""
    if len(values) <= keep:
        return list(range(len(values)))
    stretches = max(1, keep // 2)
    chosen = {0, len(values) - 1}
    for index in range(stretches):
        begin, end = index * len(values) // stretches, (index + 1) * len(values) // stretches
        stretch = values[begin:end]
        filled = [value for value in stretch if value is not None] if None in stretch else stretch
        if filled:
            chosen.add(begin + stretch.index(min(filled)))  # type: ignore[type-var]  # none is None
            chosen.add(begin + stretch.index(max(filled)))  # type: ignore[type-var]  # none is None
    return sorted(chosen)
