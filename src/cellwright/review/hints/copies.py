"""Copies that nobody needs: of what the next call copies anyway, and of numbers as objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.review.pages import Case, Place, places
from cellwright.review.spots import Rewrite, Spot, rewrites_of, spot_at
from cellwright.review.texts import Edit, Text

__all__ = ["find_copies", "find_objects"]

# They give something new and leave what they were called on as it is.
_COPYING = frozenset(
    [
        "copy",
        "sort_values",
        "sort_index",
        "reset_index",
        "set_index",
        "drop",
        "drop_duplicates",
        "dropna",
        "fillna",
        "rename",
        "assign",
        "astype",
        "merge",
        "join",
        "query",
        "groupby",
        "agg",
        "aggregate",
        "sum",
        "mean",
        "median",
        "min",
        "max",
        "std",
        "var",
        "count",
        "nunique",
        "describe",
        "value_counts",
        "pivot",
        "pivot_table",
        "melt",
        "round",
        "replace",
        "nlargest",
        "nsmallest",
        "to_numpy",
        "to_csv",
        "to_dict",
    ]
)


def find_copies(case: Case) -> Iterator[Spot]:
    """``frame.copy().sort_values(…)``: the second call would not have touched the frame."""
    for place in places(case.page.tree):
        match place.node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Call(
                        func=ast.Attribute(value=held, attr="copy"), args=[], keywords=[]
                    ) as copied,
                    attr=method,
                ),
                keywords=keywords,
            ) if method in _COPYING and _is_frame(case, held):
                if any(keyword.arg in ("inplace", "copy", None) for keyword in keywords):
                    continue
                what = f"copies what `{method}` leaves alone"
                yield spot_at(case, place, what, _without_copy(case, held, copied))


def _is_frame(case: Case, node: ast.AST) -> bool:
    """Whether an expression begins at a frame or series that is known, so that these methods are theirs."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    kinds = ("pandas.DataFrame", "pandas.Series")
    return isinstance(node, ast.Name) and case.types.get(node.id) in kinds


def _without_copy(case: Case, held: ast.expr, copied: ast.Call) -> list[Rewrite]:
    text = Text(case.page.source)
    return rewrites_of(case, [Edit(text.span(held)[1], text.span(copied)[1], "")])


def find_objects(case: Case) -> Iterator[Spot]:
    """``astype(object)``: every value becomes an object of its own."""
    for place in places(case.page.tree):
        if _as_objects(place):
            yield spot_at(case, place, "turns a column into Python objects")


def _as_objects(place: Place) -> bool:
    match place.node:
        case ast.Call(
            func=ast.Attribute(attr="astype"),
            args=[ast.Name(id="object") | ast.Constant(value="object" | "O")],
        ):
            return True
    return False
