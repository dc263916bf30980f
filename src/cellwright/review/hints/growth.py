"""What is grown in a loop by making it anew each time: frames, arrays, texts and lists. Collect first, join once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from cellwright.review.pages import Case, Place, places
from cellwright.review.spots import Rewrite, Spot, rewrites_of, spot_at
from cellwright.review.texts import Text

__all__ = ["find_growth"]

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
    for place in places(case.page.tree):
        if not place.loops or place.node is not place.statement:
            continue
        grown = _growth(case, place.node)
        if grown is None or (grown.kind in ("str", "list") and place.scope):
            continue
        what = f"makes `{grown.name}`, {_WORDS[grown.kind]}, anew for each piece that is added"
        yield spot_at(case, place, what, _rewrites(case, place, grown), repeats=True)


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


def _rewrites(case: Case, place: Place, grown: _Growth) -> list[Rewrite]:
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
