"""Whether two kernels hold the same after two texts of one cell, by fingerprints of their variables. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cellwright.engine.introspection import Fingerprint
from cellwright.notebook.comparison import TOLERANCE

__all__ = ["Likeness", "likeness_of"]


@dataclass(frozen=True, slots=True)
class Likeness:
    """What was compared, and the first thing that differs."""

    compared: int
    unseen: tuple[str, ...]
    """Names that only their types could be compared of."""
    difference: str | None = None


def likeness_of(
    expected: Mapping[str, Fingerprint],
    got: Mapping[str, Fingerprint],
    *,
    narrowed: Mapping[str, tuple[str, ...]],
    dispensable: frozenset[str],
) -> Likeness:
    """Compare all variables of one kernel with those of another, which may have more.

    ``narrowed`` are frames of which only some columns count; ``dispensable`` are names that need not be there.
    """
    compared, unseen, difference = 0, [], None
    for name, then in expected.items():
        now = got.get(name)
        if now is None:
            found = None if name in dispensable else f"`{name}` is missing"
        else:
            compared += then.known and now.known
            if not (then.known and now.known):
                unseen.append(name)
            found = _difference(name, then, now, narrowed.get(name))
        difference = difference or found
    return Likeness(compared, tuple(unseen), difference)


def _difference(
    name: str, then: Fingerprint, now: Fingerprint, columns: tuple[str, ...] | None
) -> str | None:
    if then.type != now.type:
        return f"`{name}` is {now.type} instead of {then.type}"
    if then.columns is not None and now.columns is not None:
        return _of_frames(name, then, now, columns)
    if then.exact is None or now.exact is None or then.exact == now.exact or then.close == now.close:
        return None
    if then.number is None or now.number is None:
        return f"`{name}` holds something else"
    if math.isclose(then.number, now.number, rel_tol=TOLERANCE):
        return None
    return f"`{name}` is {now.number!r} instead of {then.number!r}"


def _of_frames(name: str, then: Fingerprint, now: Fingerprint, wanted: tuple[str, ...] | None) -> str | None:
    before, after = then.columns or {}, now.columns or {}
    kept = {f"str {column}" for column in wanted} if wanted is not None else set(before)
    if [column for column in before if column in kept] != list(after):
        return f"`{name}` has other columns"
    for column, hashes in after.items():
        if not hashes.same(before[column]):
            return f"`{name}` holds something else in column {column.partition(' ')[2]!r}"
    if then.index is None or now.index is None or then.index.same(now.index):
        return None
    return f"`{name}` has other row labels"
