"""The body of a loop over rows, read as a few things that can be done to all rows at once. Pure.

Appending to a list, adding to a number, counting, and filling a column, each with or without a condition; names that
the body gives to parts of its work are put in where they are used. Any other statement, and the loop stays as it is.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import product

from cellwright.review.pages import Case, names_stored
from cellwright.review.rows import Rows
from cellwright.review.vectors import NotVector, Vector, Vectoriser

__all__ = ["Deed", "deeds_of", "lines_of"]

_NUMBERS = frozenset({"int", "float", "numpy.float64", "numpy.int64"})
_WHOLE = ("int", "uint", "bool")
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that a loop does for each row."""

    target: str
    """The list, the number, or the column."""
    value: Vector | None
    """None where rows are counted."""
    condition: Vector | None
    kind: str
    """``append``, ``add``, ``count`` or ``fill``."""


def deeds_of(case: Case, rows: Rows, body: list[ast.stmt]) -> list[Deed]:
    """All that a loop's body does, once each.

    Raises:
        NotVector: it does something else.
    """
    reader = _Body(case, rows, frozenset(names_stored(body)))
    reader.read(body, None, _DEEPEST)
    written = {deed.target for deed in reader.deeds if deed.kind == "fill"}
    read = {
        column
        for deed in reader.deeds
        for part in (deed.value, deed.condition)
        if part is not None
        for column in part.columns
    }
    targets = [(deed.kind == "fill", deed.target) for deed in reader.deeds]
    if not reader.deeds or written & read or len(set(targets)) < len(targets):
        raise NotVector
    return reader.deeds


def lines_of(rows: Rows, deeds: list[Deed]) -> list[list[str]]:
    """The same as lines of code, in the variants that differ in the types of what comes out."""
    # Rows of one type give that type's own numbers; others, and tuples, give Python's.
    kinds = set(rows.known.columns.values()) if rows.known is not None else set()
    plain = (False, True) if len(kinds) == 1 and rows.way == "iterrows" else (True, False)
    fills = any(deed.kind == "fill" for deed in deeds)
    gives = any(deed.kind in ("append", "add") for deed in deeds)
    variants = product(plain if gives else (True,), (False, True) if fills else (False,))
    return [[_line(rows, deed, plain=plain, floats=floats) for deed in deeds] for plain, floats in variants]


class _Body:
    """Reads statements in order."""

    def __init__(self, case: Case, rows: Rows, changed: frozenset[str]) -> None:
        self._case = case
        self._rows = rows
        self._vectors = Vectoriser(case, rows, changed)
        self.deeds: list[Deed] = []

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
        self.deeds.append(Deed(name, found, condition, "append"))

    def _add(self, name: str, value: ast.expr, condition: Vector | None) -> None:
        if self._case.types.get(name) not in _NUMBERS:
            raise NotVector
        if isinstance(value, ast.Constant) and value.value == 1 and condition is not None:
            self.deeds.append(Deed(name, None, condition, "count"))
            return
        found = self._vectors.vector(value)
        if not found.columns:
            raise NotVector
        self.deeds.append(Deed(name, found, condition, "add"))

    def _fill(self, target: ast.expr, value: ast.expr, condition: Vector | None) -> None:
        column, known = self._rows.target(target), self._rows.known
        if column is None or known is None or not known.unique:
            raise NotVector
        found = self._vectors.vector(value)
        if found.is_array and condition is not None:
            raise NotVector
        self.deeds.append(Deed(column, found, condition, "fill"))


def _and(first: Vector | None, second: Vector) -> Vector:
    if not second.columns or second.is_array:
        raise NotVector
    if first is None:
        return second
    joined = ast.BinOp(first.node, ast.BitAnd(), second.node)
    return Vector(joined, first.columns | second.columns, is_condition=True)


def _line(rows: Rows, deed: Deed, *, plain: bool, floats: bool) -> str:
    chosen = f"[{deed.condition.text}]" if deed.condition is not None else ""
    if deed.value is None:
        return f"{deed.target} += int({deed.condition.tight}.sum())" if deed.condition is not None else ""
    value = deed.value
    if deed.kind == "fill":
        return _filling(rows, deed, value, floats=floats)
    if deed.kind == "append":
        if value.is_array:
            return f"{deed.target}.extend({value.tight}{chosen}{'.tolist()' if plain else ''})"
        return f"{deed.target}.extend({value.tight}{chosen}.{'tolist()' if plain else 'to_numpy()'})"
    known = rows.known.columns if rows.known is not None else {}
    whole = value.is_array or all(known.get(column, "").startswith(_WHOLE) for column in value.columns)
    # A number that is missing must be missed as the loop missed it.
    total = f"{value.tight}{chosen}.sum({'' if whole else 'skipna=False'})"
    return f"{deed.target} += {total}{'.item()' if plain else ''}"


def _filling(rows: Rows, deed: Deed, value: Vector, *, floats: bool) -> str:
    text = value.text
    if floats and value.columns and not value.is_array:
        # A column that is filled one by one is one of floats from its first number on.
        text = f"{value.tight}.astype('float64')"
    column = repr(deed.target)
    if deed.condition is None:
        return f"{rows.frame}[{column}] = {text}"
    # Both sides are matched by their labels, so that the value needs no condition.
    return f"{rows.frame}.loc[{deed.condition.text}, {column}] = {text}"
