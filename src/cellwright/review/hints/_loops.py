"""Repeated work: loops over a frame's rows and ``apply`` along them, tables that grow row by row, files that are read again."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cellwright.review._findings import Rewrite, Spot, Text, rewrites_of, spot_at
from cellwright.review._pages import Case, NodeLocation, Page, names_stored, node_locations
from cellwright.review._row_expressions import (
    NotVector,
    Rows,
    Vector,
    Vectoriser,
    lines_of,
    row_actions,
    rows_of_apply,
    rows_of_loop,
)

__all__ = ["find_growth", "find_rereads", "find_row_applies", "find_row_loops"]
_WAYS = {
    "iterrows": "goes over the rows of {} with `iterrows`",
    "itertuples": "goes over the rows of {} with `itertuples`",
    "positions": "takes the rows of {} one by one",
    "labels": "takes the rows of {} one by one",
}


def find_row_loops(case: Case) -> Iterator[Spot]:
    """``for … in frame.iterrows()`` and its kin."""
    for place in node_locations(case.page.tree):
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


def _loop_rewrites(case: Case, rows: Rows, place: NodeLocation, loop: ast.For) -> list[Rewrite]:
    text = Text(case.page.source)
    # What a function's names stand for is not known from outside of it.
    if place.scope or place.loops or loop.orelse or not text.stands_alone(loop):
        return []
    try:
        actions = row_actions(case, rows, loop.body)
    except NotVector:
        return []
    kept = {action.target for action in actions if action.kind != "fill"}
    gone = (names_stored(loop.body) | rows.bound) - kept
    if any(case.used_later(name, loop) for name in gone):
        return []
    indent = f"\n{text.indent(loop)}"
    return rewrites_of(
        case, *([text.replace(loop, text.in_style(indent.join(lines)))] for lines in lines_of(rows, actions))
    )


def find_row_applies(case: Case) -> Iterator[Spot]:
    """``frame.apply(function, axis=1)``."""
    for place in node_locations(case.page.tree):
        found = rows_of_apply(case, place.node)
        if found is None:
            continue
        rows, body = found
        what = f"calls a function for each row of {f'`{rows.frame}`' if rows.frame else 'a frame'}"
        yield spot_at(case, place, what, _apply_rewrites(case, rows, body, place))


def _apply_rewrites(case: Case, rows: Rows, body: ast.expr | None, place: NodeLocation) -> list[Rewrite]:
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


# What is grown in a loop by making it anew each time: frames, arrays, texts and lists. Collect first, join
# once.

_WORDS = {"frame": "a frame", "array": "an array", "str": "a text", "list": "a list"}


@dataclass(frozen=True, slots=True)
class _Growth:
    """``name = name + more``, in one of its forms."""

    name: str
    kind: str
    more: ast.expr
    options: str = ""
    """Further arguments of the call that joins."""


def find_growth(case: Case) -> Iterator[Spot]:
    """A statement in a loop that adds to something by copying all of it."""
    for place in node_locations(case.page.tree):
        if not place.loops or place.node is not place.statement:
            continue
        grown = _growth(case, place.node)
        if grown is None or (grown.kind in ("str", "list") and place.scope):
            continue
        what = f"makes `{grown.name}`, {_WORDS[grown.kind]}, anew for each piece that is added"
        yield spot_at(case, place, what, _growth_rewrites(case, place, grown), repeats=True)


def _growth(case: Case, node: ast.AST) -> _Growth | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            return _by_call(case, name, call)
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=more) if (
            case.types.get(name) == "str"
        ):
            return _Growth(name, "str", more)
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=same), op=ast.Add(), right=more),
        ) if name == same and case.types.get(name) in ("str", "list"):
            return _Growth(name, case.types[name], more)
    return None


def _by_call(case: Case, name: str, call: ast.Call) -> _Growth | None:
    text = Text(case.page.source)
    options = "".join(f", {text.segment(keyword)}" for keyword in call.keywords)
    match call.args:
        case [ast.List(elts=[ast.Name(id=first), more])] if first == name and case.is_called(
            call, "pandas", "concat"
        ):
            return _Growth(name, "frame", more, options)
        case [ast.Name(id=first), more] if (
            first == name and not call.keywords and case.is_called(call, "numpy", "append")
        ):
            return _Growth(name, "array", more)
    return None


def _growth_rewrites(case: Case, place: NodeLocation, grown: _Growth) -> list[Rewrite]:
    text, parts = Text(case.page.source), f"{grown.name}_parts"
    loop = next((one for one in place.loops if _only_grown(one, grown, place.statement)), None)
    if loop is None or loop.orelse or not case.is_free(parts):
        return []
    if not text.stands_alone(loop) or any(isinstance(node, ast.Return) for node in ast.walk(loop)):
        return []
    begin, add, join = _forms(case, grown, text.segment(grown.more), parts)
    edits = [text.before(loop, begin), text.replace(place.statement, add), text.after(loop, join)]
    return rewrites_of(case, edits)


def _only_grown(loop: ast.AST, grown: _Growth, statement: ast.stmt) -> bool:
    """Whether a loop has to do with the name nowhere else."""
    inside = {id(node) for node in ast.walk(statement)}
    others = [
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and node.id == grown.name and id(node) not in inside
    ]
    more = [node for node in ast.walk(grown.more) if isinstance(node, ast.Name) and node.id == grown.name]
    return not others and not more


def _forms(case: Case, grown: _Growth, more: str, parts: str) -> tuple[str, str, str]:
    """What stands before the loop, in it and after it."""
    name = grown.name
    match grown.kind:
        case "frame":
            joined = f"{case.aliases['pandas']}.concat({parts}{grown.options})"
        case "array":
            numpy = case.aliases["numpy"]
            joined = f"{numpy}.concatenate([{numpy}.ravel(part) for part in {parts}])"
        case "str":
            joined = f'"".join({parts})'
        case _:
            return f"{parts} = []", f"{parts} += {more}", f"{name} = {name} + {parts}"
    return f"{parts} = [{name}]", f"{parts}.append({more})", f"{name} = {joined}"


# The same file read again, though what was read the first time is still there; or read anew in each turn of
# a loop.

_READERS = (
    "read_csv",
    "read_table",
    "read_excel",
    "read_json",
    "read_parquet",
    "read_feather",
    "read_pickle",
    "read_fwf",
    "read_xml",
    "read_hdf",
    "read_orc",
    "read_stata",
)


def find_rereads(case: Case) -> Iterator[Spot]:
    """A call that reads what an earlier one has read, or that a loop repeats."""
    for place in node_locations(case.page.tree):
        call = place.node
        if not isinstance(call, ast.Call) or not _reads(case, call):
            continue
        path = Text(case.page.source).segment(call.args[0])
        first = _first(case, call)
        if first is not None:
            name, where = first
            what = f"reads {path} again, which {where} has read into `{name}`"
            yield spot_at(case, place, what, _reread_rewrites(case, place, call, name))
        elif place.loops:
            what = f"reads {path} anew in each turn of a loop"
            yield spot_at(case, place, what, repeats=True)


def _reads(case: Case, call: ast.Call) -> bool:
    constant = bool(call.args) and all(
        isinstance(node, ast.Constant | ast.List | ast.Dict | ast.Tuple | ast.Load | ast.keyword)
        for argument in (*call.args, *call.keywords)
        for node in ast.walk(argument)
    )
    return constant and case.is_called(call, "pandas", *_READERS)


def _first(case: Case, call: ast.Call) -> tuple[str, str] | None:
    """The name that the last such reading before this one was given, and where that was."""
    for page, statement in reversed(_before(case, call)):
        if (name := _reading(statement, call)) is not None:
            here = page is case.page
            return name, f"line {statement.lineno}" if here else f"cell {page.number}"
    return None


def _before(case: Case, call: ast.Call) -> list[tuple[Page, ast.stmt]]:
    """Every top-level statement that has run when the call is made."""
    pages = [(page, page.tree.body) for page in (*case.above, case.page) if page.tree is not None]
    return [
        (page, statement)
        for page, body in pages
        for statement in body
        if page is not case.page or statement.lineno < call.lineno
    ]


def _reading(statement: ast.stmt, call: ast.Call) -> str | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made):
            return name if ast.dump(made) == ast.dump(call) else None
    return None


def _reread_rewrites(case: Case, place: NodeLocation, call: ast.Call, name: str) -> list[Rewrite]:
    if place.scope or place.loops or _may_have_changed(case, call, name):
        return []
    text = Text(case.page.source)
    return rewrites_of(case, [text.replace(call, f"{name}.copy()")])


def _may_have_changed(case: Case, call: ast.Call, name: str) -> bool:
    """Whether anything since the reading may have changed the frame or the file; what is not understood may."""
    before = _before(case, call)
    since = max(number for number, (_, one) in enumerate(before) if _reading(one, call) == name)
    pages = {id(page): page for page, _ in before[since:]}
    if any(page.names.opaque for page in pages.values()):
        return True
    between = ast.Module([statement for _, statement in before[since + 1 :]], [])
    return any(_changes(case, found, ast.dump(call.args[0]), name) for found in node_locations(between))


def _changes(case: Case, place: NodeLocation, path: str, name: str) -> bool:
    node = place.node
    if isinstance(node, ast.Constant) and ast.dump(node) == path:
        # A path in any other call may be one that writes it.
        return not (isinstance(place.parent, ast.Call) and _reads(case, place.parent))
    if isinstance(node, ast.Name) and node.id == name:
        return not isinstance(node.ctx, ast.Load) or _is_handed_on(place)
    return False


def _is_handed_on(place: NodeLocation) -> bool:
    """Whether a use of the frame may change it: it is written to, passed on whole, or gets another name."""
    parent = place.parent
    if isinstance(parent, ast.Attribute):
        return not isinstance(parent.ctx, ast.Load) or _is_in_place(place.statement)
    if isinstance(parent, ast.Subscript):
        return not isinstance(parent.ctx, ast.Load)
    return not isinstance(parent, ast.Compare | ast.BinOp | ast.UnaryOp | ast.Expr)


def _is_in_place(statement: ast.stmt) -> bool:
    changing: Sequence[str] = ("insert", "pop", "update", "loc", "iloc", "at", "iat", "setdefault")
    for node in ast.walk(statement):
        if isinstance(node, ast.keyword) and node.arg == "inplace":
            return True
        if isinstance(node, ast.Attribute) and node.attr in changing and _stores(statement, node):
            return True
    return False


def _stores(statement: ast.stmt, node: ast.Attribute) -> bool:
    calls = node.attr in ("insert", "pop", "update", "setdefault")
    return calls or isinstance(statement, ast.Assign | ast.AugAssign | ast.Delete)
