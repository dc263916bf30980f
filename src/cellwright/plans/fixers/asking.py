"""Where a cell asks an object for a column or a key: the literals that name one, and none that only read like it.

Goes by the methods and arguments that are known to name columns: a value, a title, a file or a row's label may be the same
text. Knows nothing of errors.
"""

from __future__ import annotations

import ast

from cellwright.plans.fixers.cells import Cell

__all__ = ["asked_of", "in_same_scope", "is_rebound"]

_LIBRARIES = frozenset(["pd", "pandas", "pl", "polars"])
_COL = frozenset(["col", "cs"])

_ASKING = """
    agg aggregate area astype bar barh box boxplot cast corrwith crosstab drop drop_duplicates drop_nulls dropna
    duplicated exclude explode filter get group_by groupby hexbin hist join kde line lreshape melt merge merge_asof
    n_unique nlargest nsmallest partition_by pie pivot pivot_table plot pop resample rolling scatter select set_index
    sort sort_values sum_horizontal top_k unique unpivot value_counts wide_to_long with_columns xs
"""
_ASKS = frozenset(_ASKING.split())
"""Methods whose arguments name columns."""
_ASKS_FIRST = frozenset(["get", "pop"])
"""Those whose other arguments are values."""
_NAMING = """
    by c column columns hue id_vars index items key keys labels left_on level on s subset value_vars values x y
"""
_COLUMN_KEYWORDS = frozenset(_NAMING.split())
_KEEPING = """
    agg aggregate assign astype collect copy count drop drop_duplicates drop_nulls dropna ffill bfill fillna filter
    group_by groupby head join lazy limit max mean median merge min nlargest nsmallest query reset_index rolling round
    sample select sort sort_values std sum tail unique var with_columns
"""
_KEEPS = frozenset(_KEEPING.split())
"""Methods after which the columns that are there have the same names."""
_KEEPS_AS = frozenset(["loc", "iloc", "at", "iat", "plot"])
_LABELS = frozenset(["loc", "at"])


def asked_of(cell: Cell, literal: ast.expr, expression: str, *, rows: bool = False) -> bool:
    """Whether a literal names a column, or a key, that is asked of the object; with ``rows`` also a row's label."""
    below: ast.AST = literal
    # `pl.col("a")` speaks of a column of whatever it is an argument of, whatever is made of it there.
    is_column = False
    for above in cell.ancestors(literal):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, ast.Subscript):
            return above.slice is below and _is_subscript(above, literal, expression, rows=rows)
        if isinstance(above, ast.Call) and below is not above.func:
            if _is_call_of(above, None if is_column else below, literal, expression):
                return True
            is_column = is_column or _name(above) in _COL
        if not is_column and not _is_listed(above, below):
            return False
        below = above
    return False


def _is_listed(above: ast.AST, below: ast.AST) -> bool:
    """Whether it is still the name alone, or one of several; what a column is compared with is a value."""
    if isinstance(above, ast.Dict):
        return below in above.keys
    return isinstance(above, ast.List | ast.Tuple | ast.keyword | ast.Starred)


def _is_subscript(node: ast.Subscript, literal: ast.expr, expression: str, *, rows: bool) -> bool:
    if isinstance(node.value, ast.Attribute) and node.value.attr in _LABELS:
        if rows and not isinstance(node.slice, ast.Tuple):
            return ast.unparse(node.value.value) == expression
        # The first is a row's label.
        places = node.slice.elts[1:] if isinstance(node.slice, ast.Tuple) else []
        if not any(literal in ast.walk(place) for place in places):
            return False
    return _has_its_columns(node.value, expression)


def _is_call_of(call: ast.Call, argument: ast.AST | None, literal: ast.expr, expression: str) -> bool:
    """Whether the call's argument names columns of the object; None is one that does, if any can."""
    name = _name(call)
    if name not in _ASKS or not isinstance(call.func, ast.Attribute):
        return False
    holder = call.func.value
    frames = list(call.args) if ast.unparse(holder) in _LIBRARIES else [holder, *call.args]
    its = [place for place, frame in enumerate(frames[:2]) if _has_its_columns(frame, expression)]
    if not its or argument is None:
        return bool(its)
    if name in _ASKS_FIRST:
        return argument in call.args[:1]
    if not isinstance(argument, ast.keyword):
        return True
    if argument.arg == "right_on":
        return 1 in its
    named = isinstance(argument.value, ast.Tuple) and argument.value.elts[:1] == [literal]
    return argument.arg in _COLUMN_KEYWORDS or (name in ("agg", "aggregate") and named)


def _has_its_columns(node: ast.expr, expression: str) -> bool:
    """Whether it is the object, or what has columns of the same names: some of its rows, its groups, sums over them."""
    while ast.unparse(node) != expression:
        match node:
            case ast.Subscript(value=holder, slice=part) if not _is_text(part):
                node = holder
            case ast.Attribute(value=holder, attr=attr) if attr in _KEEPS_AS:
                node = holder
            case ast.Call(func=ast.Attribute(value=holder, attr=attr)) if attr in _KEEPS:
                node = holder
            case _:
                return False
    return True


def _name(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def in_same_scope(cell: Cell, one: ast.AST, other: ast.AST) -> bool:
    """Whether both stand in the same function, or in none: elsewhere a name may be another object."""
    return _scope(cell, one) is _scope(cell, other)


def _scope(cell: Cell, node: ast.AST) -> ast.AST | None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return next((above for above in cell.ancestors(node) if isinstance(above, functions)), None)


def is_rebound(cell: Cell, expression: str, places: list[int]) -> bool:
    """Whether a name is given to another object between the first and the last of these lines."""
    return any(
        min(places) <= node.lineno <= max(places)
        for node in ast.walk(cell.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == expression for target in node.targets)
        and not any(isinstance(each, ast.Name) and each.id == expression for each in ast.walk(node.value))
    )
