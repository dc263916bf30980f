"""An expression about one row as the same about all rows at once, where a rule says that it is. Pure.

Arithmetic, comparisons, choices, a few functions and methods of texts, and looking something up in a dict. Everything
else is refused: what is not understood is not rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from cellwright.review.pages import Case
from cellwright.review.rows import Rows

__all__ = ["NotVector", "Vector", "Vectoriser"]

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
