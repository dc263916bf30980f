"""All columns of a file read where the notebook uses a few: ``usecols`` leaves the others where they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.review.pages import Case, Place, places
from cellwright.review.spots import Rewrite, Spot, spot_at
from cellwright.review.texts import Edit, Text, edited

__all__ = ["find_unused_columns"]

# With any other argument columns may be named otherwise than in the file.
_HARMLESS = frozenset({"sep", "delimiter", "encoding", "decimal", "thousands", "low_memory", "engine"})
_FEW = 0.7


def find_unused_columns(case: Case) -> Iterator[Spot]:
    """``frame = pd.read_csv(path)``, of which every use names columns."""
    for place in places(case.page.tree):
        match place.node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                case.is_called(call, "pandas", "read_csv")
                and len(call.args) == 1
                and all(keyword.arg in _HARMLESS for keyword in call.keywords)
            ):
                used, frame = _used(case, name), case.frames.get(name)
                if used is None or frame is None or not used <= set(frame.columns):
                    continue
                if not used or place.scope or place.loops or len(used) > _FEW * frame.width:
                    continue
                columns = tuple(one for one in frame.columns if one in used)
                what = f"reads {frame.width} columns, of which {len(used)} are used"
                yield spot_at(case, place, what, _rewrites(case, call, name, columns))


def _used(case: Case, name: str) -> set[str] | None:
    """All columns that the notebook uses of a frame; None where that cannot be told."""
    found: set[str] = set()
    stores = 0
    for page in (*case.above, case.page, *case.below):
        if page.names.opaque:
            return None
        for place in places(page.tree):
            if not isinstance(place.node, ast.Name) or place.node.id != name:
                continue
            if not isinstance(place.node.ctx, ast.Load):
                stores += 1
                continue
            columns = _columns(place, page.tree)
            if columns is None:
                return None
            found |= columns
    return found if stores == 1 else None


def _columns(place: Place, tree: ast.Module | None) -> set[str] | None:
    """The columns that one use takes; None where it may be all."""
    match place.parent:
        case ast.Subscript(slice=ast.Constant(value=str(column)), ctx=ast.Load()):
            return {column}
        case ast.Subscript(slice=ast.List(elts=elements), ctx=ast.Load()):
            return _texts(elements)
        case ast.Call(func=ast.Name(id="len")):
            return set()
        case ast.Attribute(attr="groupby") as method:
            return _grouped(method, tree)
    return None


def _grouped(method: ast.Attribute, tree: ast.Module | None) -> set[str] | None:
    """``frame.groupby("c")["d"]``, and nothing else of the groups."""
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Subscript(
                value=ast.Call(func=function, args=[ast.Constant(value=str(key))], keywords=[]),
                slice=ast.Constant(value=str(column)),
            ) if function is method:
                return {key, column}
            case ast.Subscript(
                value=ast.Call(func=function, args=[ast.List(elts=keys)], keywords=[]),
                slice=ast.Constant(value=str(column)),
            ) if function is method:
                texts = _texts(keys)
                return texts | {column} if texts is not None else None
    return None


def _texts(elements: list[ast.expr]) -> set[str] | None:
    texts = [one.value for one in elements if isinstance(one, ast.Constant)]
    found = {one for one in texts if isinstance(one, str)}
    return found if len(texts) == len(elements) and len(found) == len(set(map(repr, texts))) else None


def _rewrites(case: Case, call: ast.Call, name: str, columns: tuple[str, ...]) -> list[Rewrite]:
    text = Text(case.page.source)
    end = text.span(call)[1] - 1
    if text.source[end] != ")" or text.source[:end].rstrip().endswith(","):
        return []
    new = edited(text.source, [Edit(end, end, f", usecols={text.in_style(repr(list(columns)))}")])
    return [Rewrite(new, {name: columns})] if new is not None else []
