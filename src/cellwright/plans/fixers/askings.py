"""Where a literal asks an object for a column or a key, and where it is only a text that happens to be the same.

Pure syntax: a subscript of the object, or an argument of a call that takes columns. A value that something is compared
with, replaced by or called is never one, since changing that would change what the code does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.plans.fixers.cells import Cell

__all__ = ["asks_for"]

_TAKES_COLUMNS = """
    agg aggregate area astype bar barh bottom_k box boxplot density drop drop_duplicates drop_nulls dropna duplicated
    explode filter get_column group_by groupby hexbin hist join line melt merge nlargest nsmallest partition_by pie pivot
    pivot_table plot pop rename resample rolling scatter select set_index sort sort_values top_k transform unique
    value_counts with_columns
"""
TAKES_COLUMNS = frozenset(_TAKES_COLUMNS.split())
_EXPRESSIONS = """
    Grouper NamedAgg col count first last len max mean median min n_unique std sum
"""
EXPRESSIONS = frozenset(_EXPRESSIONS.split())
"""Calls on a library itself that speak of a column of whatever they are given to."""

_LIBRARIES = frozenset(["pd", "pandas", "pl", "polars"])
_PLOTTERS = frozenset(["sns", "seaborn", "px"])
_SAYS = frozenset(
    ["color", "errors", "how", "kind", "label", "name", "suffixes", "title", "xlabel", "ylabel"]
)
"""Keywords whose values are no columns."""


def asks_for(cell: Cell, node: ast.expr, expression: str, *, rows: bool = False) -> bool:
    """Whether a literal asks ``expression`` for what it names; with ``rows`` also where rows are asked for by label."""
    below: ast.AST = node
    within = False  # an expression that speaks of a column, such as `pl.col("a") > 1`
    for above in cell.ancestors(node):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, ast.Subscript) and above.slice is below:
            return _subscribes(above, node, expression, rows=rows)
        if isinstance(above, ast.Call) and below is not above.func:
            taken = _takes(above, expression, within=within)
            if taken is not None:
                return taken
            within = True
        elif not within and not _holds(above, below):
            return False
        below = above
    return False


def _holds(above: ast.AST, below: ast.AST) -> bool:
    """Whether what stands in it is one of several columns, and no value."""
    match above:
        case ast.List() | ast.Tuple() | ast.Starred():
            return True
        case ast.keyword(arg=name):
            return name not in _SAYS
        case ast.Dict(keys=keys):
            return any(key is below for key in keys)
    return False


def _subscribes(subscript: ast.Subscript, node: ast.expr, expression: str, *, rows: bool) -> bool:
    held, place = subscript.value, subscript.slice
    if isinstance(held, ast.Attribute):
        if held.attr not in ("loc", "at") or ast.unparse(held.value) != expression:
            return ast.unparse(held) == expression
        if isinstance(place, ast.Tuple):
            return any(each is node for column in place.elts[1:] for each in ast.walk(column))
        return rows
    return any(ast.unparse(base) == expression for base in _bases(held))


def _takes(call: ast.Call, expression: str, *, within: bool) -> bool | None:
    """Whether a call takes columns of the object; None where it speaks of a column of what it is given to."""
    if isinstance(call.func, ast.Name):
        return None if call.func.id == "col" else False
    if not isinstance(call.func, ast.Attribute):
        return False
    holder = ast.unparse(call.func.value)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if holder in _LIBRARIES | _PLOTTERS and any(ast.unparse(each) == expression for each in given):
        return True
    if any(ast.unparse(base) == expression for base in _bases(call.func.value)):
        return within or call.func.attr in TAKES_COLUMNS
    if within or (holder in _LIBRARIES and call.func.attr in EXPRESSIONS):
        return None
    return False


def _bases(node: ast.expr) -> Iterator[ast.expr]:
    """The expression, and the frames it is made from: ``df`` of ``df.groupby("a")``, of ``df[mask]``."""
    yield node
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case ast.Attribute(value=inner, attr="plot"):
                node = inner
            # One column of a frame is no frame: what it is asked for are rows.
            case ast.Subscript(value=inner, slice=place) if not isinstance(place, ast.Constant):
                node = inner
            case _:
                return
        yield node
