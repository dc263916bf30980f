"""A whole frame sorted for its first few rows: ``nlargest`` and ``nsmallest`` look for those only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.review.pages import Case, places
from cellwright.review.spots import Spot, rewrites_of, spot_at
from cellwright.review.texts import Text

__all__ = ["find_tops"]

_HEAD = 5


def find_tops(case: Case) -> Iterator[Spot]:
    """``frame.sort_values("c").head(n)``."""
    text = Text(case.page.source)
    for place in places(case.page.tree):
        found = _head(place.node)
        if found is None:
            continue
        ordered, count = found
        match ordered:
            case ast.Call(func=ast.Attribute(value=held, attr="sort_values")):
                by, options = _by(ordered)
                ascending = options.pop("ascending", True)
                if options or not isinstance(ascending, bool):
                    continue
                method = "nsmallest" if ascending else "nlargest"
                told = f", {text.segment(by)}" if by is not None else ""
                new = f"{text.segment(held)}.{method}({count}{told})"
                what = f"sorts everything for {count} rows"
                yield spot_at(case, place, what, rewrites_of(case, [text.replace(place.node, new)]))


def _head(node: ast.AST) -> tuple[ast.AST, int] | None:
    """What the first rows are taken of, and how many."""
    match node:
        case ast.Call(func=ast.Attribute(value=ordered, attr="head"), args=[], keywords=[]):
            return ordered, _HEAD
        case ast.Call(
            func=ast.Attribute(value=ordered, attr="head"), args=[ast.Constant(value=int(count))], keywords=[]
        ):
            return ordered, count
        case ast.Subscript(
            value=ast.Attribute(value=ordered, attr="iloc"),
            slice=ast.Slice(lower=None, upper=ast.Constant(value=int(count)), step=None),
        ):
            return ordered, count
    return None


def _by(call: ast.Call) -> tuple[ast.expr | None, dict[str | None, object]]:
    """What is sorted by, and the other arguments as far as they are constants."""
    by = call.args[0] if call.args else None
    options: dict[str | None, object] = {}
    for keyword in call.keywords:
        if keyword.arg == "by":
            by = keyword.value
        else:
            options[keyword.arg] = keyword.value.value if isinstance(keyword.value, ast.Constant) else keyword
    return by, options
