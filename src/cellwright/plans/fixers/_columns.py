"""Columns of frames and keys of mappings that are not there, where one alone is near to what was asked for.

Edits only what is asked of the same object; a column that the cell itself makes is never renamed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, Cell, Edit, called, case_of, literal_like
from cellwright.plans.fixers._similarity import Near, nearest

__all__ = ["fix_column", "fix_key", "fix_query"]
_MISSING_COLUMNS = ("KeyError", "ColumnNotFoundError")

_ITEM = re.compile(r"'[^']*'|\"[^\"]*\"")

_LISTED = re.compile(r"\[(?P<items>(?:'[^']*'|\"[^\"]*\")(?:,\s*(?:'[^']*'|\"[^\"]*\"))*)\]")

_PANDAS = re.compile(r"^Column not found: (?P<name>.+)$")

_POLARS = re.compile(r"^(?:unable to find column )?\"?(?P<name>[^\"\n;]+?)\"?(?: not found|;|\n|$)")

_UNDEFINED = re.compile(r"name '(?P<name>\w+)' is not defined")

_SHOWN = 20

_TRIED = 4

_MAKING = frozenset(
    ["alias", "insert", "melt", "rename", "rename_axis", "reset_index", "set_axis", "to_frame", "unpivot"]
)
"""Methods that give a column its name."""


def fix_column(failure: Failure) -> Proposal | None:
    """A frame's column that is written otherwise in the frame."""
    case = case_of(failure, *_MISSING_COLUMNS)
    subject = case.diagnosis.subject if case else None
    if case is None or subject is None or subject.columns is None:
        return None
    columns = [column for column in subject.columns if isinstance(column, str)]
    wanted = [name for name in _missing_columns(case) if name not in columns]
    if not wanted:
        return None
    nears = {name: nearest(name, columns) for name in wanted}
    only = nears[wanted[0]] if len(wanted) == 1 else None
    if only is not None and len(only.found) > 1:
        ways = [_edits(case, subject.expression, wanted[0], each) for each in only.found[:_TRIED]]
        told = _missing_column_text(subject.expression, wanted[0], only, columns)
        return case.choice("column", told, *(ways if _only_asked_for(case, wanted[0]) else ()))
    edits: list[Edit] = []
    for name, near in (nears | _others(case, subject.expression, columns, wanted)).items():
        if near is not None and len(near.found) == 1:
            edits += _edits(case, subject.expression, name, near.best, failed=name in wanted)
    certain = all(
        near is not None and near.certain and _only_asked_for(case, name) for name, near in nears.items()
    )
    certain = certain and all(_edits(case, subject.expression, name, name + " ") for name in wanted)
    if subject.shape is not None and subject.shape[-1] != len(subject.columns):
        certain = False  # some are no text, or too many to be told
    reason = " ".join(
        _missing_column_text(subject.expression, name, near, columns) for name, near in nears.items()
    )
    return case.proposal("column", reason, edits, certain=certain)


def _others(
    case: Case, expression: str, columns: Sequence[str], wanted: Sequence[str]
) -> dict[str, Near | None]:
    """Other columns that the cell asks of the same frame, and that would only fail next; those that are sure."""
    if any(
        isinstance(node, ast.Name) and node.id == expression and isinstance(node.ctx, ast.Store)
        for node in ast.walk(case.cell.tree)
    ):
        return {}
    asked = dict.fromkeys(
        literal.value
        for node in ast.walk(case.cell.tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == expression
        for literal in (node.slice.elts if isinstance(node.slice, ast.List) else [node.slice])
        if isinstance(literal, ast.Constant) and isinstance(literal.value, str)
    )
    nears = {name: nearest(name, columns) for name in asked if name not in columns and name not in wanted}
    return {
        name: near for name, near in nears.items() if near and near.certain and _only_asked_for(case, name)
    }


def _missing_column_text(expression: str, name: str, near: Near | None, columns: Sequence[str]) -> str:
    shown = ", ".join(repr(column) for column in columns[:_SHOWN]) + (", …" if len(columns) > _SHOWN else "")
    if near is None:
        return f"`{expression}` has no column {name!r}; it has {shown or 'none'}."
    if len(near.found) == 1:
        return f"`{expression}` has no column {name!r}, but {near.best!r}."
    return f"`{expression}` has no column {name!r}; near it are {near.listed}."


def _missing_columns(case: Case) -> list[str]:
    """The columns that were asked for, by the key or by the message."""
    message = case.error.message
    if case.error.type == "ColumnNotFoundError":
        found = _POLARS.search(message)
        return [found["name"].strip()] if found else []
    listed = _LISTED.search(message)
    if listed is not None:
        return [str(ast.literal_eval(item)) for item in _ITEM.findall(listed["items"])]
    key = case.details.get("key")
    if not isinstance(key, str):
        return []
    found = _PANDAS.search(key)
    return [found["name"].strip() if found else key]


def _only_asked_for(case: Case, name: str) -> bool:
    """Whether nothing in the cell makes a column of this name."""
    return not any(_makes(node, name) for node in ast.walk(case.cell.tree))


def _makes(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Subscript(slice=place, ctx=ast.Store()):
            return any(isinstance(each, ast.Constant) and each.value == name for each in ast.walk(place))
        case ast.Dict(values=values):
            return any(isinstance(each, ast.Constant) and each.value == name for each in values)
        case ast.keyword(arg=arg) if arg == name:
            return True
        case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in _MAKING:
            given = [*args, *(keyword.value for keyword in node.keywords)]
            return any(isinstance(each, ast.Constant) and each.value == name for each in given)
    return False


def _edits(
    case: Case, expression: str, name: str, meant: str, *, failed: bool = True, rows: bool = False
) -> list[Edit]:
    """Every place where this is asked of the object; none if it ``failed`` in a place that is not among them."""
    places = [node for node in case.cell.strings(name) if asked_of(case.cell, node, expression, rows=rows)]
    failing = case.statement
    if failing is not None:
        places = [
            node for node in places if _inside(case, node, failing) or in_same_scope(case.cell, node, failing)
        ]
    lines = [node.lineno for node in places] + ([failing.lineno] if failing is not None else [])
    if lines and is_rebound(case.cell, expression, lines):
        return []
    if failed and failing is not None and not any(_inside(case, node, failing) for node in places):
        return []
    return [
        case.cell.replace(node, literal)
        for node in places
        if (literal := literal_like(case.cell.segment(node), name, meant)) is not None
    ]


def _inside(case: Case, node: ast.AST, statement: ast.stmt) -> bool:
    return any(above is statement for above in case.cell.ancestors(node))


def fix_key(failure: Failure) -> Proposal | None:
    """A mapping's key that is written otherwise in the mapping."""
    case = case_of(failure, "KeyError")
    subject = case.diagnosis.subject if case else None
    if case is None or subject is None or subject.keys is None or subject.columns is not None:
        return None
    key = case.details.get("key")
    shown = ", ".join(repr(known) for known in subject.keys[:_SHOWN]) + (
        ", …" if len(subject.keys) > _SHOWN else ""
    )
    has = f"it has {shown}" if shown else "it is empty"
    if not isinstance(key, str):
        return Proposal("key", f"`{subject.expression}` has no key {key!r}; {has}.")
    near = nearest(key, [known for known in subject.keys if isinstance(known, str)])
    if near is None or len(near.found) > 1:
        return Proposal(
            "key",
            f"`{subject.expression}` has no key {key!r}; {has}. Where it may be missing, use "
            f"`{subject.expression}.get({key!r})`.",
        )
    edits = _edits(case, subject.expression, key, near.best, rows=True)
    all_known = subject.length is None or subject.length == len(subject.keys)
    reason = f"`{subject.expression}` has no key {key!r}, but {near.best!r}."
    return case.proposal(
        "key", reason, edits, certain=near.certain and all_known and _only_asked_for(case, key)
    )


def fix_query(failure: Failure) -> Proposal | None:
    """A column's name within the text of ``query`` or ``eval``."""
    # pandas makes it of the KeyError that is its root.
    case = case_of(failure, "UndefinedVariableError", "KeyError")
    subject = case.diagnosis.subject if case else None
    raised = case.diagnosis.raised if case else None
    found = _UNDEFINED.match(raised.message) if raised and raised.type == "UndefinedVariableError" else None
    if case is None or found is None or subject is None or subject.columns is None:
        return None
    name = found["name"]
    near = nearest(name, [column for column in subject.columns if isinstance(column, str)])
    texts = [
        node
        for node in ast.walk(case.statement or case.cell.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _word(name).search(node.value)
        if isinstance(above := case.cell.parents.get(node), ast.Call) and called(above) in ("query", "eval")
    ]
    if near is None or len(texts) != 1 or "`" in near.best:
        return None
    meant = near.best if near.best.isidentifier() else f"`{near.best}`"
    segment = case.cell.segment(texts[0])
    old = str(texts[0].value)
    literal = literal_like(segment, old, _word(name).sub(lambda _: meant, old))
    quoted = any(name in part for part in re.findall(r"'[^']*'|\"[^\"]*\"", old))
    reason = f"`{subject.expression}` has no column {name!r}, but {near.listed}."
    edits = [case.cell.replace(texts[0], literal)] if literal and len(near.found) == 1 else []
    # Where there is a variable of that name, an `@` may be missing.
    certain = near.certain and not quoted and name not in case.diagnosis.names
    return case.proposal("column", reason, edits, certain=certain)


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.@`]){re.escape(name)}(?![\w`])")


# Where a cell asks an object for a column or a key: the literals that name one, and none that only read like
# it.

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
