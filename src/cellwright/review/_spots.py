"""The finding of a rule in a cell's text: a spot that may cost time, and texts that may do the same for less. Only
data.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cellwright.notebook.python_names import python_cell
from cellwright.review._pages import Case, NodeLocation

__all__ = ["Edit", "Kind", "Rewrite", "Spot", "Text", "edited", "rewrites_of", "spot_at"]


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
