"""The body of a loop over rows, read as a few things that can be done to all rows at once. Pure.

Appending to a list, adding to a number, counting, and filling a column, each with or without a condition; names that
the body gives to parts of its work are put in where they are used. Any other statement, and the loop stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from cellwright.engine.introspection import Frame
from cellwright.review._pages import Case, names_stored

__all__ = [
    "NotVector",
    "Rows",
    "Vector",
    "Vectoriser",
    "lines_of",
    "row_actions",
    "rows_of_apply",
    "rows_of_loop",
]
_NUMBERS = frozenset({"int", "float", "numpy.float64", "numpy.int64"})

_WHOLE = ("int", "uint", "bool")

_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class RowAction:
    """One thing that a loop does for each row."""

    target: str
    """The list, the number, or the column."""
    value: Vector | None
    """None where rows are counted."""
    condition: Vector | None
    kind: str
    """``append``, ``add``, ``count`` or ``fill``."""


def row_actions(case: Case, rows: Rows, body: list[ast.stmt]) -> list[RowAction]:
    """All that a loop's body does, once each.

    Raises:
        NotVector: it does something else.
    """
    reader = _Body(case, rows, frozenset(names_stored(body)))
    reader.read(body, None, _DEEPEST)
    written = {action.target for action in reader.actions if action.kind == "fill"}
    read = {
        column
        for action in reader.actions
        for part in (action.value, action.condition)
        if part is not None
        for column in part.columns
    }
    targets = [(action.kind == "fill", action.target) for action in reader.actions]
    if not reader.actions or written & read or len(set(targets)) < len(targets):
        raise NotVector
    return reader.actions


def lines_of(rows: Rows, actions: list[RowAction]) -> list[list[str]]:
    """The same as lines of code, in the variants that differ in the types of what comes out."""
    # Rows of one type give that type's own numbers; others, and tuples, give Python's.
    kinds = set(rows.known.columns.values()) if rows.known is not None else set()
    plain = (False, True) if len(kinds) == 1 and rows.way == "iterrows" else (True, False)
    fills = any(action.kind == "fill" for action in actions)
    gives = any(action.kind in ("append", "add") for action in actions)
    variants = product(plain if gives else (True,), (False, True) if fills else (False,))
    return [
        [_line(rows, action, plain=plain, floats=floats) for action in actions] for plain, floats in variants
    ]


class _Body:
    """Reads statements in order."""

    def __init__(self, case: Case, rows: Rows, changed: frozenset[str]) -> None:
        self._case = case
        self._rows = rows
        self._vectors = Vectoriser(case, rows, changed)
        self.actions: list[RowAction] = []

    def read(self, body: list[ast.stmt], condition: Vector | None, depth: int) -> None:
        for statement in body:
            self._statement(statement, condition, depth)

    def _statement(self, statement: ast.stmt, condition: Vector | None, depth: int) -> None:
        match statement:
            case ast.If(test=test, body=body, orelse=[]) if depth:
                found = self._vectors.condition(test)
                self.read(body, _and(condition, found), depth - 1)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])
            ):
                self._append(name, value, condition)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                self._add(name, value, condition)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.BinOp(left=ast.Name(id=same), op=ast.Add(), right=value),
            ) if name == same:
                self._add(name, value, condition)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if condition is None:
                # Filled once: a later value would have to be another name's.
                if name in self._vectors.inlined:
                    raise NotVector
                self._vectors.inlined[name] = self._vectors.vector(value)
            case ast.Assign(targets=[target], value=value):
                self._fill(target, value, condition)
            case ast.Pass():
                pass
            case _:
                raise NotVector

    def _append(self, name: str, value: ast.expr, condition: Vector | None) -> None:
        found = self._vectors.vector(value)
        if self._case.types.get(name) != "list" or not found.columns:
            raise NotVector
        self.actions.append(RowAction(name, found, condition, "append"))

    def _add(self, name: str, value: ast.expr, condition: Vector | None) -> None:
        if self._case.types.get(name) not in _NUMBERS:
            raise NotVector
        if isinstance(value, ast.Constant) and value.value == 1 and condition is not None:
            self.actions.append(RowAction(name, None, condition, "count"))
            return
        found = self._vectors.vector(value)
        if not found.columns:
            raise NotVector
        self.actions.append(RowAction(name, found, condition, "add"))

    def _fill(self, target: ast.expr, value: ast.expr, condition: Vector | None) -> None:
        column, known = self._rows.target(target), self._rows.known
        if column is None or known is None or not known.unique:
            raise NotVector
        found = self._vectors.vector(value)
        if found.is_array and condition is not None:
            raise NotVector
        self.actions.append(RowAction(column, found, condition, "fill"))


def _and(first: Vector | None, second: Vector) -> Vector:
    if not second.columns or second.is_array:
        raise NotVector
    if first is None:
        return second
    joined = ast.BinOp(first.node, ast.BitAnd(), second.node)
    return Vector(joined, first.columns | second.columns, is_condition=True)


def _line(rows: Rows, action: RowAction, *, plain: bool, floats: bool) -> str:
    chosen = f"[{action.condition.text}]" if action.condition is not None else ""
    if action.value is None:
        return (
            f"{action.target} += int({action.condition.tight}.sum())" if action.condition is not None else ""
        )
    value = action.value
    if action.kind == "fill":
        return _filling(rows, action, value, floats=floats)
    if action.kind == "append":
        if value.is_array:
            return f"{action.target}.extend({value.tight}{chosen}{'.tolist()' if plain else ''})"
        return f"{action.target}.extend({value.tight}{chosen}.{'tolist()' if plain else 'to_numpy()'})"
    known = rows.known.columns if rows.known is not None else {}
    whole = value.is_array or all(known.get(column, "").startswith(_WHOLE) for column in value.columns)
    # A number that is missing must be missed as the loop missed it.
    total = f"{value.tight}{chosen}.sum({'' if whole else 'skipna=False'})"
    return f"{action.target} += {total}{'.item()' if plain else ''}"


def _filling(rows: Rows, action: RowAction, value: Vector, *, floats: bool) -> str:
    text = value.text
    if floats and value.columns and not value.is_array:
        # A column that is filled one by one is one of floats from its first number on.
        text = f"{value.tight}.astype('float64')"
    column = repr(action.target)
    if action.condition is None:
        return f"{rows.frame}[{column}] = {text}"
    # Both sides are matched by their labels, so that the value needs no condition.
    return f"{rows.frame}.loc[{action.condition.text}, {column}] = {text}"


# Ways to go over a frame's rows one by one, and how the code inside names what it has of a row. Pure.

_PAIR = 2


@dataclass(frozen=True, slots=True)
class Rows:
    """A row at a time."""

    way: Literal["iterrows", "itertuples", "apply", "positions", "labels"]
    frame: str | None
    """The frame's name; None where it is no plain name."""
    row: str | None
    index: str | None
    known: Frame | None = None

    @property
    def bound(self) -> frozenset[str]:
        return frozenset(name for name in (self.row, self.index) if name)

    def column(self, node: ast.AST) -> str | None:
        """The column of the row at hand that an expression is, if it is one."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(column))):
                return column if name == self.row and self.way in ("iterrows", "apply") else None
            case ast.Attribute(value=ast.Name(id=name), attr=column) if name == self.row:
                return self._attribute(column)
        return self._by_index(node)

    def target(self, node: ast.AST) -> str | None:
        """The column that is assigned to for the row at hand: ``frame.loc[i, "c"]``."""
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=frame), attr="loc" | "at"),
                slice=ast.Tuple(elts=[ast.Name(id=index), ast.Constant(value=str(column))]),
            ):
                return column if frame == self.frame and index == self.index else None
        return None

    def _attribute(self, column: str) -> str | None:
        if self.known is None:
            return None
        if self.way == "itertuples":
            return column if column in self.known.columns else None
        return column if column in self.known.attributes else None

    def _by_index(self, node: ast.AST) -> str | None:
        if self.index is None or self.frame is None:
            return None
        if (column := self.target(node)) is not None:
            return column
        match node:
            case ast.Subscript(value=held, slice=ast.Name(id=index)) if index == self.index:
                return self._column_of_frame(held) if self.way == "positions" else None
            case ast.Subscript(
                value=ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id=frame), attr="iloc"), slice=ast.Name(id=index)
                ),
                slice=ast.Constant(value=str(column)),
            ) if frame == self.frame and index == self.index and self.way == "positions":
                return column
        return None

    def _column_of_frame(self, node: ast.AST) -> str | None:
        """``frame["c"]``, ``frame["c"].iloc``, ``frame["c"].values``: a column that positions are taken of."""
        if isinstance(node, ast.Attribute) and node.attr in ("iloc", "values", "iat"):
            node = node.value
        match node:
            case ast.Subscript(value=ast.Name(id=frame), slice=ast.Constant(value=str(column))):
                return column if frame == self.frame else None
        return None


def rows_of_loop(case: Case, loop: ast.AST) -> Rows | None:
    """How a ``for`` goes over a frame's rows, if it does."""
    if not isinstance(loop, ast.For):
        return None
    match loop.iter:
        case ast.Call(func=ast.Attribute(value=held, attr="iterrows"), args=[]):
            names = [one.id for one in getattr(loop.target, "elts", []) if isinstance(one, ast.Name)]
            if len(names) != _PAIR:
                return None
            return _rows(case, "iterrows", held, row=names[1], index=names[0])
        case ast.Call(func=ast.Attribute(value=held, attr="itertuples")) if isinstance(loop.target, ast.Name):
            return _rows(case, "itertuples", held, row=loop.target.id)
    return _by_index(case, loop)


def _by_index(case: Case, loop: ast.For) -> Rows | None:
    if not isinstance(loop.target, ast.Name):
        return None
    match loop.iter:
        case (
            ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[held])])
            | ast.Call(
                func=ast.Name(id="range"),
                args=[
                    ast.Subscript(value=ast.Attribute(value=held, attr="shape"), slice=ast.Constant(value=0))
                ],
            )
        ) if isinstance(held, ast.Name) and held.id in case.frames:
            return _rows(case, "positions", held, index=loop.target.id)
        case ast.Attribute(value=ast.Name(id=name) as held, attr="index") if name in case.frames:
            return _rows(case, "labels", held, index=loop.target.id)
    return None


def rows_of_apply(case: Case, call: ast.AST) -> tuple[Rows, ast.expr | None] | None:
    """How ``frame.apply(function, axis=1)`` goes over rows, and the expression that it makes of each."""
    match call:
        case ast.Call(func=ast.Attribute(value=held, attr="apply"), args=[function], keywords=[axis]) if (
            _is_by_row(axis)
        ):
            argument, body = _function(case, function)
            return _rows(case, "apply", held, row=argument), body
    return None


def _is_by_row(keyword: ast.keyword) -> bool:
    value = keyword.value
    return keyword.arg == "axis" and isinstance(value, ast.Constant) and value.value in (1, "columns")


def _function(case: Case, node: ast.expr) -> tuple[str | None, ast.expr | None]:
    """A lambda's argument and body, or those of a function that only returns something."""
    match node:
        case ast.Lambda(args=ast.arguments(args=[argument]), body=body):
            return argument.arg, body
        case ast.Name(id=name):
            for page in reversed((*case.above, case.page)):
                for statement in reversed(page.tree.body if page.tree is not None else []):
                    match statement:
                        case ast.FunctionDef(name=found) if found == name:
                            return _returned(statement)
    return None, None


def _returned(function: ast.FunctionDef) -> tuple[str | None, ast.expr | None]:
    match function:
        case ast.FunctionDef(
            args=ast.arguments(args=[argument], defaults=[]),
            body=[*words, ast.Return(value=ast.expr() as body)],
            decorator_list=[],
        ) if all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in words):
            return argument.arg, body
    return None, None


def _rows(
    case: Case,
    way: Literal["iterrows", "itertuples", "apply", "positions", "labels"],
    held: ast.AST,
    *,
    row: str | None = None,
    index: str | None = None,
) -> Rows:
    name = held.id if isinstance(held, ast.Name) else None
    return Rows(way, name, row, index, case.frames.get(name) if name is not None else None)


# An expression about one row as the same about all rows at once, where a rule says that it is. Pure.

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)

_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)

_SCALARS = frozenset(
    {"int", "float", "bool", "str"}
    | {f"numpy.{kind}{bits}" for kind in ("int", "float") for bits in (32, 64)}
)

_UFUNCS = frozenset(
    [
        "abs",
        "absolute",
        "sqrt",
        "cbrt",
        "square",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "sign",
        "hypot",
        "arctan2",
        "maximum",
        "minimum",
        "power",
        "deg2rad",
        "rad2deg",
    ]
)

_OF_TEXTS = frozenset({"upper", "lower", "strip", "lstrip", "rstrip", "title", "capitalize", "casefold"})

_TEXTS = frozenset({"str", "string", "object"})


class NotVector(Exception):  # no error: a rule that does not apply
    """An expression that no rule covers."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A new expression over all rows."""

    node: ast.expr
    columns: frozenset[str]
    """What it reads; none where it is the same for every row."""
    is_array: bool = False
    """Whether it is an array rather than a series."""
    is_condition: bool = False

    @property
    def text(self) -> str:
        return ast.unparse(ast.fix_missing_locations(self.node))

    @property
    def tight(self) -> str:
        """The same in brackets where a method could not be called on it as it stands."""
        plain = isinstance(self.node, ast.Name | ast.Call | ast.Subscript | ast.Attribute)
        return self.text if plain else f"({self.text})"


class Vectoriser:
    """Translates the expressions of one loop."""

    def __init__(self, case: Case, rows: Rows, changed: frozenset[str] = frozenset()) -> None:
        """``changed`` are names that the loop binds, which have no one value in it."""
        self._case = case
        self._rows = rows
        self._changed = changed | rows.bound
        self.inlined: dict[str, Vector] = {}
        """Names that the loop's body gives to a part of a row's work."""

    def vector(self, node: ast.expr) -> Vector:  # noqa: PLR0911  # one for each form
        """The same for all rows.

        Raises:
            NotVector: no rule says what that would be.
        """
        if (column := self._rows.column(node)) is not None:
            return self._column(column)
        match node:
            case ast.Constant(value=int() | float() | str()):
                return Vector(node, frozenset())
            case ast.Name(id=name):
                return self._name(name)
            case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return self._arithmetic(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript(value=ast.Name(id=name)) if self._case.types.get(name) == "dict":
                return self._looked_up(name, node.slice)
        return self.condition(node)

    def condition(self, node: ast.expr) -> Vector:
        """The same for all rows, of what is true or false.

        Raises:
            NotVector: no rule says what that would be.
        """
        match node:
            case ast.Compare(ops=[operator], comparators=[other]) if isinstance(operator, _COMPARISONS):
                left, right = self.vector(node.left), self.vector(other)
                made = ast.Compare(left.node, [operator], [right.node])
                return self._joined(made, left, right, is_condition=True)
            case ast.Compare(ops=[ast.In()], comparators=[ast.List() | ast.Tuple() | ast.Set() as options]):
                return self._member(node.left, options)
            case ast.BoolOp(op=operator, values=values):
                return self._both(operator, [self.condition(value) for value in values])
            case ast.UnaryOp(op=ast.Not()):
                inner = self.condition(node.operand)
                return self._joined(ast.UnaryOp(ast.Invert(), inner.node), inner, is_condition=True)
        raise NotVector

    def _arithmetic(self, node: ast.BinOp | ast.UnaryOp) -> Vector:
        if isinstance(node, ast.UnaryOp):
            inner = self.vector(node.operand)
            return self._joined(ast.UnaryOp(node.op, inner.node), inner)
        if not isinstance(node.op, _ARITHMETIC):
            raise NotVector
        left, right = self.vector(node.left), self.vector(node.right)
        return self._joined(ast.BinOp(left.node, node.op, right.node), left, right)

    def _column(self, column: str) -> Vector:
        known = self._rows.known
        if self._rows.frame is None or known is None or column not in known.columns:
            raise NotVector
        frame = ast.Name(self._rows.frame, ast.Load())
        return Vector(ast.Subscript(frame, ast.Constant(column), ast.Load()), frozenset({column}))

    def _name(self, name: str) -> Vector:
        if name in self.inlined:
            return self.inlined[name]
        if name in self._changed or self._case.types.get(name) not in _SCALARS:
            raise NotVector
        return Vector(ast.Name(name, ast.Load()), frozenset())

    def _choice(self, node: ast.IfExp) -> Vector:
        numpy = self._case.aliases.get("numpy")
        if numpy is None:
            raise NotVector
        parts = self.condition(node.test), self.vector(node.body), self.vector(node.orelse)
        if not parts[0].columns:
            raise NotVector
        where = ast.Attribute(ast.Name(numpy, ast.Load()), "where", ast.Load())
        made = ast.Call(where, [part.node for part in parts], [])
        return self._joined(made, *parts, is_array=True)

    def _both(self, operator: ast.boolop, parts: list[Vector]) -> Vector:
        joined: ast.expr = parts[0].node
        for part in parts[1:]:
            joined = ast.BinOp(
                joined, ast.BitAnd() if isinstance(operator, ast.And) else ast.BitOr(), part.node
            )
        return self._joined(joined, *parts, is_condition=True)

    def _member(self, left: ast.expr, options: ast.expr) -> Vector:
        if not all(isinstance(one, ast.Constant) for one in getattr(options, "elts", [])):
            raise NotVector
        inner = self._of_rows(left)
        made = ast.Call(
            ast.Attribute(inner.node, "isin", ast.Load()),
            [ast.List(getattr(options, "elts", []), ast.Load())],
            [],
        )
        return self._joined(made, inner, is_condition=True)

    def _looked_up(self, name: str, key: ast.expr) -> Vector:
        if name in self._changed:
            raise NotVector
        inner = self._of_rows(key)
        made = ast.Call(ast.Attribute(inner.node, "map", ast.Load()), [ast.Name(name, ast.Load())], [])
        return self._joined(made, inner)

    def _call(self, node: ast.Call) -> Vector:
        match node:
            case ast.Call(func=ast.Name(id="abs" | "round"), args=[first, *rest], keywords=[]) if all(
                isinstance(one, ast.Constant) for one in rest
            ):
                inner = self._of_rows(first)
                return self._joined(ast.Call(node.func, [inner.node, *rest], []), inner)
            case ast.Call(func=ast.Name(id="len"), args=[first], keywords=[]):
                return self._of_text(first, "len")
            case ast.Call(func=ast.Attribute(value=held, attr=method), args=[], keywords=[]) if (
                method in _OF_TEXTS
            ):
                return self._of_text(held, method)
        if not self._case.is_called(node, "numpy", *_UFUNCS) or node.keywords:
            raise NotVector
        parts = [self.vector(argument) for argument in node.args]
        return self._joined(ast.Call(node.func, [part.node for part in parts], []), *parts)

    def _of_text(self, node: ast.expr, method: str) -> Vector:
        inner = self._of_rows(node)
        known: Mapping[str, str] = self._rows.known.columns if self._rows.known is not None else {}
        if any(known.get(column) not in _TEXTS for column in inner.columns):
            raise NotVector
        texts = ast.Attribute(inner.node, "str", ast.Load())
        return self._joined(ast.Call(ast.Attribute(texts, method, ast.Load()), [], []), inner)

    def _of_rows(self, node: ast.expr) -> Vector:
        """An expression that is a series."""
        found = self.vector(node)
        if not found.columns or found.is_array:
            raise NotVector
        return found

    def _joined(
        self, node: ast.expr, *parts: Vector, is_array: bool = False, is_condition: bool = False
    ) -> Vector:
        columns = frozenset[str]().union(*(part.columns for part in parts))
        # An array together with a series is a series.
        arrays = any(part.is_array for part in parts)
        series = any(part.columns and not part.is_array for part in parts)
        return Vector(node, columns, is_array or (arrays and not series), is_condition)
