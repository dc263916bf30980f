"""Loops over a frame's rows, and ``apply`` along them: each row becomes an object of its own, which costs the most."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.review.bodies import deeds_of, lines_of
from cellwright.review.pages import Case, Place, names_stored, places
from cellwright.review.rows import Rows, rows_of_apply, rows_of_loop
from cellwright.review.spots import Rewrite, Spot, rewrites_of, spot_at
from cellwright.review.texts import Text
from cellwright.review.vectors import NotVector, Vector, Vectoriser

__all__ = ["find_row_applies", "find_row_loops"]

_WAYS = {
    "iterrows": "goes over the rows of {} with `iterrows`",
    "itertuples": "goes over the rows of {} with `itertuples`",
    "positions": "takes the rows of {} one by one",
    "labels": "takes the rows of {} one by one",
}


def find_row_loops(case: Case) -> Iterator[Spot]:
    """``for … in frame.iterrows()`` and its kin."""
    for place in places(case.page.tree):
        rows = rows_of_loop(case, place.node)
        if rows is None or not isinstance(place.node, ast.For):
            continue
        if rows.row is None and not _touches(rows, place.node):
            continue
        what = _WAYS[rows.way].format(f"`{rows.frame}`" if rows.frame else "a frame")
        yield spot_at(case, place, what, _loop_rewrites(case, rows, place, place.node))


def _touches(rows: Rows, loop: ast.For) -> bool:
    """Whether a loop over positions or labels takes anything of a row."""
    return any(
        rows.column(node) is not None or rows.target(node) is not None
        for top in loop.body
        for node in ast.walk(top)
    )


def _loop_rewrites(case: Case, rows: Rows, place: Place, loop: ast.For) -> list[Rewrite]:
    text = Text(case.page.source)
    # What a function's names stand for is not known from outside of it.
    if place.scope or place.loops or loop.orelse or not text.stands_alone(loop):
        return []
    try:
        deeds = deeds_of(case, rows, loop.body)
    except NotVector:
        return []
    kept = {deed.target for deed in deeds if deed.kind != "fill"}
    gone = (names_stored(loop.body) | rows.bound) - kept
    if any(case.used_later(name, loop) for name in gone):
        return []
    indent = f"\n{text.indent(loop)}"
    return rewrites_of(
        case, *([text.replace(loop, text.in_style(indent.join(lines)))] for lines in lines_of(rows, deeds))
    )


def find_row_applies(case: Case) -> Iterator[Spot]:
    """``frame.apply(function, axis=1)``."""
    for place in places(case.page.tree):
        found = rows_of_apply(case, place.node)
        if found is None:
            continue
        rows, body = found
        what = f"calls a function for each row of {f'`{rows.frame}`' if rows.frame else 'a frame'}"
        yield spot_at(case, place, what, _apply_rewrites(case, rows, body, place))


def _apply_rewrites(case: Case, rows: Rows, body: ast.expr | None, place: Place) -> list[Rewrite]:
    if body is None or place.scope or place.loops:
        return []
    try:
        vector = Vectoriser(case, rows).vector(body)
    except NotVector:
        return []
    if not vector.columns:
        return []
    text = Text(case.page.source)
    becomes_column = isinstance(place.parent, ast.Assign) and isinstance(
        place.parent.targets[0], ast.Subscript
    )
    options = [vector.text] if becomes_column else _as_series(case, rows, vector)
    return rewrites_of(case, *([text.replace(place.node, text.in_style(one))] for one in options))


def _as_series(case: Case, rows: Rows, vector: Vector) -> list[str]:
    """What stands by itself has no name, as what ``apply`` gives has none."""
    pandas = case.aliases.get("pandas")
    if not vector.is_array:
        return [f"{vector.tight}.rename(None)"]
    return [f"{pandas}.Series({vector.text}, index={rows.frame}.index)"] if pandas else []
