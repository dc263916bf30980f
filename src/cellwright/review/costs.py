"""What a spot in a cell's text cost, by what was measured while the cell ran. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from cellwright.engine.introspection import Line, Measured
from cellwright.review.pages import Page
from cellwright.review.spots import Spot

__all__ = ["Cost", "cost_of"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a plain run, their share of it, and how often the spot ran."""

    seconds: float
    share: float
    hits: int


def cost_of(spot: Spot, page: Page, plain: Measured, followed: Measured | None) -> Cost:
    """A spot's cost: seconds by the plain run, divided as the lines were in the one that followed them."""
    lines = _lines(page, followed, spot.scope)
    own = [line for line in lines if spot.line <= line.line <= spot.end_line]
    hits = max(
        (line.hits for line in _lines(page, followed) if spot.line <= line.line <= spot.end_line), default=0
    )
    if spot.scope:
        total = followed.seconds if followed is not None else 0.0
        share = min(1.0, _seconds(own) / total) if total > 0 else 0.0
        return Cost(share * plain.seconds, share, hits)
    seconds = _at_the_top(spot, page, plain, lines)
    return Cost(seconds, min(1.0, seconds / plain.seconds) if plain.seconds > 0 else 0.0, hits)


def _at_the_top(spot: Spot, page: Page, plain: Measured, lines: list[Line]) -> float:
    """A top-level statement is timed by itself; of one that holds more than the spot it is the lines' part."""
    statement = next((one for one in _statements(page) if _begin(one) <= spot.line <= _end(one)), None)
    if statement is None:
        return 0.0
    begin, end = _begin(statement), _end(statement)
    whole = sum(one.seconds for one in plain.statements if begin <= one.line <= end)
    if spot.line <= begin and spot.end_line >= end:
        return whole
    around = _seconds([line for line in lines if begin <= line.line <= end])
    own = _seconds([line for line in lines if spot.line <= line.line <= spot.end_line])
    return whole * (own / around) if around > 0 else 0.0


def _statements(page: Page) -> list[ast.stmt]:
    return page.tree.body if page.tree is not None else []


def _begin(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _lines(page: Page, followed: Measured | None, scope: str | None = None) -> list[Line]:
    """The lines of a cell that ran, in one function or in all."""
    found = followed.lines if followed is not None else ()
    return [line for line in found if line.cell_id == page.cell_id and scope in (None, line.scope)]


def _seconds(lines: list[Line]) -> float:
    return sum(line.seconds for line in lines)
