"""The same grouping made again and again: a group-by that is kept knows its groups."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from cellwright.review.pages import Case, Place, places
from cellwright.review.spots import Rewrite, Spot, rewrites_of, spot_at
from cellwright.review.texts import Text

__all__ = ["find_groupings"]

_TWICE = 2


def find_groupings(case: Case) -> Iterator[Spot]:
    """``frame.groupby("c")`` more than once in a cell, or in a loop that does not change it."""
    groups: dict[str, list[Place]] = defaultdict(list)
    for place in places(case.page.tree):
        match place.node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="groupby")) if name in case.frames:
                groups[ast.dump(place.node)].append(place)
    for found in groups.values():
        if len(found) >= _TWICE:
            again = found[1]
            text = Text(case.page.source).segment(again.node)
            what = f"makes the groups of `{text}` again, {len(found)} times in all"
            yield spot_at(case, again, what, _rewrites(case, found), node=again.statement)


def _rewrites(case: Case, found: list[Place]) -> list[Rewrite]:
    tree, text = case.page.tree, Text(case.page.source)
    call = found[0].node
    if tree is None or any(place.scope for place in found) or not isinstance(call, ast.Call):
        return []
    frame = getattr(getattr(call.func, "value", None), "id", "")
    first, last = found[0].node, found[-1].node
    begins = next(one for one in tree.body if (one.end_lineno or 0) >= getattr(first, "lineno", 0))
    between = [one for one in tree.body if begins.lineno <= one.lineno <= getattr(last, "lineno", 0)]
    if not text.stands_alone(begins) or any(_changes(one, frame) for one in between):
        return []
    name = f"{frame}_by_{_label(call)}"
    if not case.is_free(name):
        return []
    edits = [text.before(begins, f"{name} = {text.segment(call)}")]
    return rewrites_of(case, [*edits, *(text.replace(place.node, name) for place in found)])


def _changes(statement: ast.stmt, frame: str) -> bool:
    """Whether a statement binds the frame's name or writes to the frame."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            base: ast.AST = node
            while isinstance(base, ast.Attribute | ast.Subscript):
                base = base.value
            if isinstance(base, ast.Name) and base.id == frame:
                return True
        if isinstance(node, ast.keyword) and node.arg == "inplace":
            return True
    return False


def _label(call: ast.Call) -> str:
    texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
    words = [re.sub(r"\W+", "_", one) for one in texts if isinstance(one, str)]
    return "_".join(words).strip("_").lower() or "group"
