"""Where the time went: each step as a bar on one line of time, in parts for model, kernel, engine and queue. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["WIDTH", "Bar", "Part", "Span", "waterfall"]

Spent: TypeAlias = Literal["queue", "model", "kernel", "engine", "other"]
WIDTH = 1_000
"""Units from the first beginning to the last end."""
_THINNEST = 2.0


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time, and on what."""

    key: str
    label: str
    began: float
    took: float
    spent: Sequence[tuple[Spent, float]] = ()
    """In the order in which it was spent; what is missing to ``took`` is ``other``."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar."""

    spent: Spent
    x: float
    width: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as it is drawn."""

    key: str
    label: str
    row: int
    after: float
    """Seconds from the beginning of all."""
    took: float
    parts: tuple[Part, ...]


def waterfall(spans: Iterable[Span]) -> list[Bar]:
    """Bars in the order in which they began, one below the other."""
    ordered = sorted(spans, key=lambda span: span.began)
    if not ordered:
        return []
    start = ordered[0].began
    whole = max(max(span.began + span.took for span in ordered) - start, 1e-9)
    return [
        Bar(
            span.key,
            span.label,
            row,
            span.began - start,
            span.took,
            tuple(_parts(span, (span.began - start) / whole * WIDTH, WIDTH / whole)),
        )
        for row, span in enumerate(ordered)
    ]


def _parts(span: Span, x: float, scale: float) -> Iterable[Part]:
    known = [(spent, seconds) for spent, seconds in span.spent if seconds > 0]
    total = sum(seconds for _, seconds in known)
    # Clocks of three processes: what they measured may add up to a little more than the step took.
    shrink = min(1.0, span.took / total) if total else 1.0
    rest = span.took - total * shrink
    pieces = [*((spent, seconds * shrink) for spent, seconds in known), ("other", rest)]
    drawn = [
        (spent, seconds) for spent, seconds in pieces if seconds * scale >= 0.5
    ] or [  # half a unit is not seen
        max(pieces, key=lambda piece: piece[1])
    ]
    for spent, seconds in drawn:
        width = max(seconds * scale, _THINNEST)
        yield Part(spent, round(min(x, WIDTH - _THINNEST), 2), round(width, 2), seconds)
        x += width
