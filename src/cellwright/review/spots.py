"""The finding of a rule in a cell's text: a spot that may cost time, and texts that may do the same for less. Only
data.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cellwright.review.pages import Case, NodeLocation
from cellwright.review.texts import Edit, Text, edited

__all__ = ["Finder", "Kind", "Rewrite", "Spot", "rewrites_of", "spot_at"]


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
