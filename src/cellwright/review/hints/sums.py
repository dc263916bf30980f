"""Python's ``sum`` over an array or a column: it makes an object of every number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.review.pages import Case, places
from cellwright.review.spots import Spot, rewrites_of, spot_at
from cellwright.review.texts import Text

__all__ = ["find_python_sums"]

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def find_python_sums(case: Case) -> Iterator[Spot]:
    """``sum(values)`` and ``sum(x for x in values)``."""
    text = Text(case.page.source)
    for place in places(case.page.tree):
        match place.node:
            case ast.Call(func=ast.Name(id="sum"), args=[values], keywords=[]):
                values = _plain(values)
                kind = _kind(case, values)
                if kind is None or place.scope:
                    continue
                held = text.segment(values)
                held = held if isinstance(values, ast.Name | ast.Subscript) else f"({held})"
                # A missing number must be missed as Python's sum misses it; its result is Python's own number.
                forms = (
                    [f"{held}.sum()", f"{held}.sum().item()"]
                    if kind == "array"
                    else [f"{held}.sum(skipna=False).item()", f"{held}.sum(skipna=False)"]
                )
                rewrites = rewrites_of(case, *([text.replace(place.node, form)] for form in forms))
                yield spot_at(case, place, f"adds up `{text.segment(values)}` with Python's `sum`", rewrites)


def _plain(node: ast.expr) -> ast.expr:
    """What a comprehension that changes nothing goes over."""
    match node:
        case ast.GeneratorExp(
            elt=ast.Name(id=name),
            generators=[ast.comprehension(target=ast.Name(id=same), iter=values, ifs=[])],
        ) if name == same:
            return values
    return node


def _kind(case: Case, node: ast.expr) -> str | None:
    """Whether an expression is an array or a series, where that is known."""
    match node:
        case ast.Name(id=name):
            return {"numpy.ndarray": "array", "pandas.Series": "series"}.get(case.types.get(name, ""))
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(column))):
            frame = case.frames.get(name)
            return "series" if frame is not None and column in frame.columns else None
        case ast.BinOp(op=operator) if isinstance(operator, _ARITHMETIC):
            kinds = {
                _kind(case, side) for side in (node.left, node.right) if not isinstance(side, ast.Constant)
            }
            return ("series" if "series" in kinds else "array") if kinds and None not in kinds else None
    return None
