"""Ways to go over a frame's rows one by one, and how the code inside names what it has of a row. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from cellwright.engine.introspection import Frame
from cellwright.review.pages import Case

__all__ = ["Rows", "rows_of_apply", "rows_of_loop"]

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
