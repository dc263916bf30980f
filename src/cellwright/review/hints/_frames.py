"""Calls on frames and arrays that do more than the result needs: unused columns, copies, objects, repeated groupings, sorting
for the first few, Python's ``sum``.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from cellwright.review._findings import Edit, Rewrite, Spot, Text, edited, rewrites_of, spot_at
from cellwright.review._pages import Case, NodeLocation, node_locations

__all__ = [
    "find_copies",
    "find_groupings",
    "find_objects",
    "find_python_sums",
    "find_tops",
    "find_unused_columns",
]
# With any other argument columns may be named otherwise than in the file.
_HARMLESS = frozenset({"sep", "delimiter", "encoding", "decimal", "thousands", "low_memory", "engine"})

_FEW = 0.7


def find_unused_columns(case: Case) -> Iterator[Spot]:
    """``frame = pd.read_csv(path)``, of which every use names columns."""
    for place in node_locations(case.page.tree):
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
                yield spot_at(case, place, what, _column_rewrites(case, call, name, columns))


def _used(case: Case, name: str) -> set[str] | None:
    """All columns that the notebook uses of a frame; None where that cannot be told."""
    found: set[str] = set()
    stores = 0
    for page in (*case.above, case.page, *case.below):
        if page.names.opaque:
            return None
        for place in node_locations(page.tree):
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


def _columns(place: NodeLocation, tree: ast.Module | None) -> set[str] | None:
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


def _column_rewrites(case: Case, call: ast.Call, name: str, columns: tuple[str, ...]) -> list[Rewrite]:
    text = Text(case.page.source)
    end = text.span(call)[1] - 1
    if text.source[end] != ")" or text.source[:end].rstrip().endswith(","):
        return []
    new = edited(text.source, [Edit(end, end, f", usecols={text.in_style(repr(list(columns)))}")])
    return [Rewrite(new, {name: columns})] if new is not None else []


# Copies that nobody needs: of what the next call copies anyway, and of numbers as objects.

# They give something new and leave what they were called on as it is.
_COPYING = frozenset(
    [
        "copy",
        "sort_values",
        "sort_index",
        "reset_index",
        "set_index",
        "drop",
        "drop_duplicates",
        "dropna",
        "fillna",
        "rename",
        "assign",
        "astype",
        "merge",
        "join",
        "query",
        "groupby",
        "agg",
        "aggregate",
        "sum",
        "mean",
        "median",
        "min",
        "max",
        "std",
        "var",
        "count",
        "nunique",
        "describe",
        "value_counts",
        "pivot",
        "pivot_table",
        "melt",
        "round",
        "replace",
        "nlargest",
        "nsmallest",
        "to_numpy",
        "to_csv",
        "to_dict",
    ]
)


def find_copies(case: Case) -> Iterator[Spot]:
    """``frame.copy().sort_values(…)``: the second call would not have touched the frame."""
    for place in node_locations(case.page.tree):
        match place.node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Call(
                        func=ast.Attribute(value=held, attr="copy"), args=[], keywords=[]
                    ) as copied,
                    attr=method,
                ),
                keywords=keywords,
            ) if method in _COPYING and _is_frame(case, held):
                if any(keyword.arg in ("inplace", "copy", None) for keyword in keywords):
                    continue
                what = f"copies what `{method}` leaves alone"
                yield spot_at(case, place, what, _without_copy(case, held, copied))


def _is_frame(case: Case, node: ast.AST) -> bool:
    """Whether an expression begins at a frame or series that is known, so that these methods are theirs."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    kinds = ("pandas.DataFrame", "pandas.Series")
    return isinstance(node, ast.Name) and case.types.get(node.id) in kinds


def _without_copy(case: Case, held: ast.expr, copied: ast.Call) -> list[Rewrite]:
    text = Text(case.page.source)
    return rewrites_of(case, [Edit(text.span(held)[1], text.span(copied)[1], "")])


def find_objects(case: Case) -> Iterator[Spot]:
    """``astype(object)``: every value becomes an object of its own."""
    for place in node_locations(case.page.tree):
        if _as_objects(place):
            yield spot_at(case, place, "turns a column into Python objects")


def _as_objects(place: NodeLocation) -> bool:
    match place.node:
        case ast.Call(
            func=ast.Attribute(attr="astype"),
            args=[ast.Name(id="object") | ast.Constant(value="object" | "O")],
        ):
            return True
    return False


# The same grouping made again and again: a group-by that is kept knows its groups.

_TWICE = 2


def find_groupings(case: Case) -> Iterator[Spot]:
    """``frame.groupby("c")`` more than once in a cell, or in a loop that does not change it."""
    groups: dict[str, list[NodeLocation]] = defaultdict(list)
    for place in node_locations(case.page.tree):
        match place.node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="groupby")) if name in case.frames:
                groups[ast.dump(place.node)].append(place)
    for found in groups.values():
        if len(found) >= _TWICE:
            again = found[1]
            text = Text(case.page.source).segment(again.node)
            what = f"makes the groups of `{text}` again, {len(found)} times in all"
            yield spot_at(case, again, what, _grouping_rewrites(case, found), node=again.statement)


def _grouping_rewrites(case: Case, found: list[NodeLocation]) -> list[Rewrite]:
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


# A whole frame sorted for its first few rows: ``nlargest`` and ``nsmallest`` look for those only.

_HEAD = 5


def find_tops(case: Case) -> Iterator[Spot]:
    """``frame.sort_values("c").head(n)``."""
    text = Text(case.page.source)
    for place in node_locations(case.page.tree):
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


# Python's ``sum`` over an array or a column: it makes an object of every number.

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def find_python_sums(case: Case) -> Iterator[Spot]:
    """``sum(values)`` and ``sum(x for x in values)``."""
    text = Text(case.page.source)
    for place in node_locations(case.page.tree):
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
