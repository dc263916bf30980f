"""The findings of a review: a rule's spots in a cell's text, hints with their measurements, rewritten cells that held. Only data."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cellwright.notebook.python_names import python_cell
from cellwright.review._pages import Case, NodeLocation

__all__ = [
    "Edit",
    "Hint",
    "Kind",
    "MeasuredCell",
    "Offer",
    "Review",
    "Rewrite",
    "Spot",
    "Text",
    "data_of",
    "edited",
    "rewrites_of",
    "spot_at",
]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A cell's whole text, rewritten."""

    source: str
    narrowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Frames that have only these columns then, since nothing uses others."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A pattern in a cell. Whether it costs anything is measured."""

    line: int
    end_line: int
    scope: str
    text: str
    """The code it is about, by which it is known again in a text that was changed elsewhere."""
    what: str
    rewrites: tuple[Rewrite, ...] = ()
    """Texts that mean the same by rule, the likeliest first; where results differ in type, one of them fits."""
    repeats: bool = False
    """Whether it is one only if it ran more than once."""


Finder: TypeAlias = Callable[[Case], Iterable[Spot]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table of hints."""

    name: str
    find: Finder
    why: str


def spot_at(
    case: Case,
    place: NodeLocation,
    what: str,
    rewrites: Sequence[Rewrite] = (),
    *,
    node: ast.AST | None = None,
    repeats: bool = False,
) -> Spot:
    """A spot at a node, or at another than the place's."""
    about = node if node is not None else place.node
    line: int = getattr(about, "lineno", 1)
    return Spot(
        line=line,
        end_line=getattr(about, "end_lineno", line) or line,
        scope=place.scope,
        text=Text(case.page.source).segment(about),
        what=what,
        rewrites=tuple(rewrites),
        repeats=repeats,
    )


def rewrites_of(case: Case, *variants: Sequence[Edit]) -> list[Rewrite]:
    """The cell's text by each of several sets of changes, as far as that is Python and another text."""
    source = case.page.source
    texts = dict.fromkeys(text for edits in variants if (text := edited(source, edits)) is not None)
    return [Rewrite(text) for text in texts if text != source]


# Changes to a cell's text by places of its syntax tree. Pure; whether the result means the same is others'
# business.


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters from ``start`` to ``end`` become another text."""

    start: int
    end: int
    text: str


class Text:
    """A source whose nodes can be found in it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True) or [""]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends."""
        return (
            self._place(getattr(node, "lineno", 1), getattr(node, "col_offset", 0)),
            self._place(getattr(node, "end_lineno", 1) or 1, getattr(node, "end_col_offset", 0) or 0),
        )

    def segment(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def indent(self, node: ast.AST) -> str:
        line = self._lines[getattr(node, "lineno", 1) - 1]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def before(self, node: ast.AST, line: str) -> Edit:
        """A line of its own before a statement that begins one."""
        start = self._starts[getattr(node, "lineno", 1) - 1]
        return Edit(start, start, f"{self.indent(node)}{line}\n")

    def after(self, node: ast.AST, line: str) -> Edit:
        """A line of its own after a statement that ends one."""
        number = getattr(node, "end_lineno", 1) or 1
        end = self._starts[number - 1] + len(self._lines[number - 1].rstrip("\r\n"))
        return Edit(end, end, f"\n{self.indent(node)}{line}")

    def in_style(self, text: str) -> str:
        """Code with the quotes that the source has most of."""
        wants = self.source.count('"') > self.source.count("'")
        return text.replace("'", '"') if wants and '"' not in text and "\\" not in text else text

    def stands_alone(self, node: ast.AST) -> bool:
        """Whether a statement shares no line with another, so that lines can be put around it."""
        start, _ = self.span(node)
        number = getattr(node, "end_lineno", 1) or 1
        line = self._lines[number - 1]
        rest = line.encode()[getattr(node, "end_col_offset", 0) or 0 :].decode(errors="replace").strip()
        begins = self._starts[getattr(node, "lineno", 1) - 1]
        return not self.source[begins:start].strip() and (not rest or rest.startswith("#"))

    def _place(self, line: int, column: int) -> int:
        held = self._lines[min(line, len(self._lines)) - 1]
        return self._starts[line - 1] + len(held.encode()[:column].decode(errors="replace"))


def edited(source: str, edits: Iterable[Edit]) -> str | None:
    """The source with changes that do not overlap; None where the result is no Python, or a magic's line is touched."""
    edits = list(edits)
    if any(_is_magic(source, edit.start) for edit in edits):
        return None
    for edit in sorted(edits, key=lambda one: (one.start, one.end), reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source if python_cell(source).tree is not None else None


def _is_magic(source: str, place: int) -> bool:
    """Whether a place is in a line that only IPython understands, whose columns are not those of its code."""
    begins = source.rfind("\n", 0, place) + 1
    return source[begins:].lstrip(" \t").startswith(("%", "!"))


# The result of a review: cells with their cost, hints with their measurements, and rewritten cells that
# held. Only data.


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
