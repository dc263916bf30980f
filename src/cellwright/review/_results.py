"""The result of a review: cells with their cost, hints with their measurements, and rewritten cells that held. Only
data.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Hint", "MeasuredCell", "Offer", "Review", "data_of"]


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """A cell that ran."""

    cell_id: str
    number: int
    state: str
    seconds: float
    cpu_s: float | None = None
    memory_bytes: int | None = None
    """How far memory rose while it ran; None where its kernel does not tell."""
    overhead: float | None = None
    """How many times as long it took while its lines were followed; None where they were not."""
    cut: bool = False
    """Whether it went on longer than its lines were followed."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A rewritten cell that was tried: it does the same, and is faster."""

    source: str
    before: str
    before_s: float
    after_s: float
    rounds: int
    """How often each was run, in turns; the times are medians."""
    compared: int
    """Variables that were found to be the same."""
    unseen: tuple[str, ...] = ()
    """Variables that could not be compared but by their type."""
    by: str = "rule"

    @property
    def speedup(self) -> float:
        return self.before_s / max(self.after_s, 1e-9)

    @property
    def diff(self) -> str:
        old, new = self.before.splitlines(), self.source.splitlines()
        return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=1))[2:])


@dataclass(frozen=True, slots=True)
class Hint:
    """A spot that costs time, as measured."""

    kind: str
    cell_id: str
    number: int
    line: int
    what: str
    why: str
    seconds: float
    share: float
    """Of the cell's time."""
    hits: int
    """How often it ran; 0 where nobody counted."""
    ran_in: int
    """The number of the cell that ran it, which may be another where it is in a function."""
    offer: Offer | None = None
    seen: str | None = None
    """Why there is no rewritten cell, where one was tried."""


@dataclass(frozen=True, slots=True)
class Review:
    """All of it. Hints come in the order of what they cost, the dearest first."""

    cells: tuple[MeasuredCell, ...]
    hints: tuple[Hint, ...]
    total: int
    """Cells that were to run."""
    reason: str | None = None
    """Why not all of them did."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The rewritten text of each cell that has one, with all that is offered for it."""
    outputs: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What those put out."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of those cells, as they were read."""

    @property
    def seconds(self) -> float:
        """What its cells took, each by itself."""
        return sum(cell.seconds for cell in self.cells)


def data_of(review: Review, *, top: int | None = None) -> dict[str, Any]:
    """A review as JSON has it."""
    return {
        "total": review.total,
        "done": sum(cell.state == "ok" for cell in review.cells),
        "seconds": round(review.seconds, 6),
        "reason": review.reason,
        "cells": [_cell(cell) for cell in review.cells],
        "hints": [_hint(hint) for hint in review.hints[:top]],
        "more": max(0, len(review.hints) - top) if top is not None else 0,
        "sources": dict(review.sources),
    }


def _cell(cell: MeasuredCell) -> dict[str, Any]:
    return {
        "cell_id": cell.cell_id,
        "number": cell.number,
        "state": cell.state,
        "seconds": round(cell.seconds, 6),
        "cpu_s": round(cell.cpu_s, 6) if cell.cpu_s is not None else None,
        "memory_bytes": cell.memory_bytes,
        "overhead": round(cell.overhead, 2) if cell.overhead is not None else None,
        "cut": cell.cut,
    }


def _hint(hint: Hint) -> dict[str, Any]:
    offer = hint.offer
    return {
        "hint": hint.kind,
        "cell_id": hint.cell_id,
        "number": hint.number,
        "line": hint.line,
        "what": hint.what,
        "why": hint.why,
        "seconds": round(hint.seconds, 6),
        "share": round(hint.share, 4),
        "hits": hint.hits,
        "ran_in": hint.ran_in,
        "rewrite": None
        if offer is None
        else {
            "source": offer.source,
            "diff": offer.diff,
            "before_s": round(offer.before_s, 6),
            "after_s": round(offer.after_s, 6),
            "speedup": round(offer.speedup, 2),
            "rounds": offer.rounds,
            "compared": offer.compared,
            "unseen": list(offer.unseen),
            "by": offer.by,
        },
        "seen": hint.seen,
    }
