"""The same file read again, though what was read the first time is still there; or read anew in each turn of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from cellwright.review.pages import Case, Page, Place, places
from cellwright.review.spots import Rewrite, Spot, rewrites_of, spot_at
from cellwright.review.texts import Text

__all__ = ["find_rereads"]

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
    for place in places(case.page.tree):
        call = place.node
        if not isinstance(call, ast.Call) or not _reads(case, call):
            continue
        path = Text(case.page.source).segment(call.args[0])
        first = _first(case, call)
        if first is not None:
            name, where = first
            what = f"reads {path} again, which {where} has read into `{name}`"
            yield spot_at(case, place, what, _rewrites(case, place, call, name))
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


def _rewrites(case: Case, place: Place, call: ast.Call, name: str) -> list[Rewrite]:
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
    return any(_changes(case, found, ast.dump(call.args[0]), name) for found in places(between))


def _changes(case: Case, place: Place, path: str, name: str) -> bool:
    node = place.node
    if isinstance(node, ast.Constant) and ast.dump(node) == path:
        # A path in any other call may be one that writes it.
        return not (isinstance(place.parent, ast.Call) and _reads(case, place.parent))
    if isinstance(node, ast.Name) and node.id == name:
        return not isinstance(node.ctx, ast.Load) or _is_handed_on(place)
    return False


def _is_handed_on(place: Place) -> bool:
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
