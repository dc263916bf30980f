"""Indices outside of what there is: where they are off by one, the ways to count right; else how many there are.

None of them is certain: what was meant shows only in what comes of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.engine.introspection import Subject
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, Edit, called, case_of

__all__ = ["fix_index"]

_POSITIONS = frozenset(["iloc", "iat"])

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def fix_index(failure: Failure) -> Proposal | None:
    """An index outside: how many there are, and the same code counted from 0 or up to the end."""
    case = case_of(failure, "IndexError", "OutOfBoundsError")
    if case is None:
        return None
    subject = case.diagnosis.subject
    length = _length(subject)
    if subject is None or length is None:
        values = ", ".join(f"{name} = {value}" for name, value in list(case.diagnosis.values.items())[:5])
        return Proposal("bounds", f"The index is out of bounds ({values}).") if values else None
    places = _places(case, subject.expression)
    # Of several indices in one statement nobody knows which was outside.
    ways = list(_ways(case, places[0], length)) if len(places) == 1 and length else []
    return case.choice("bounds", _told(subject, length), *ways)


def _length(subject: Subject | None) -> int | None:
    if subject is None:
        return None
    return subject.length if subject.length is not None else (subject.shape or (None,))[0]


def _told(subject: Subject, length: int) -> str:
    if subject.shape is not None and len(subject.shape) > 1:
        shape = " x ".join(str(size) for size in subject.shape)
        return f"`{subject.expression}` has the shape {shape}: indices count from 0 in each of them."
    if not length:
        return f"`{subject.expression}` is empty: no index can be in it."
    return (
        f"`{subject.expression}` has {length} element{'s' * (length != 1)}: indices go from 0 to {length - 1}, "
        f"or from -{length} to -1."
    )


def _places(case: Case, expression: str) -> list[ast.Subscript]:
    """Where the failing statement takes an element of the object."""
    return [
        node
        for node in ast.walk(case.statement or case.cell.tree)
        if isinstance(node, ast.Subscript)
        and not isinstance(node.slice, ast.Slice | ast.Tuple)
        and ast.unparse(_of(node)) == expression
    ]


def _of(node: ast.Subscript) -> ast.expr:
    held = node.value
    return held.value if isinstance(held, ast.Attribute) and held.attr in _POSITIONS else held


def _ways(case: Case, place: ast.Subscript, length: int) -> Iterator[list[Edit]]:
    cell, index = case.cell, place.slice
    match index:
        case ast.Constant(value=int(number)) if number == length:
            yield [cell.replace(index, str(length - 1))]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))) if number == length + 1:
            yield [cell.replace(index, str(-length))]
        case ast.Call(func=ast.Name(id="len")):
            yield [cell.replace(index, f"{cell.segment(index)} - 1")]
        case ast.Name(id=name):
            yield from _counted(case, place, name, ahead=0, length=length)
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=int(ahead))):
            yield from _counted(case, place, name, ahead=ahead, length=length)


def _counted(case: Case, place: ast.Subscript, name: str, *, ahead: int, length: int) -> Iterator[list[Edit]]:
    """Ways to count to the end and not beyond, where a loop counts the index."""
    cell = case.cell
    for counting in _ranges(case, place, name):
        stop = counting.args[0] if len(counting.args) == 1 else counting.args[1]
        first = counting.args[0] if len(counting.args) > 1 else None
        begins_at_one = isinstance(first, ast.Constant) and first.value == 1
        match stop:
            case ast.BinOp(left=ast.Call() as whole, op=ast.Add(), right=ast.Constant(value=1)) if not ahead:
                yield [cell.replace(stop, cell.segment(whole))]
                if begins_at_one:
                    yield [cell.replace(place.slice, f"{name} - 1")]
            case ast.Call(func=ast.Name(id="len")) if ahead:
                yield [cell.replace(stop, f"{cell.segment(stop)} - {ahead}")]
            case ast.Constant(value=int(number)) if number == length + 1 and not ahead:
                yield [cell.replace(stop, str(length))]
                if begins_at_one:
                    yield [cell.replace(place.slice, f"{name} - 1")]
    for node in cell.ancestors(place):
        match node:
            case ast.While(test=ast.Compare(left=ast.Name(id=counter), ops=[ast.LtE()], comparators=[end])):
                if counter == name and not ahead:
                    yield [cell.replace(node.test, f"{counter} < {cell.segment(end)}")]


def _ranges(case: Case, place: ast.Subscript, name: str) -> Iterator[ast.Call]:
    """The ``range`` of each loop around a place that counts this name up by one."""
    for node in case.cell.ancestors(place):
        loops = [node] if isinstance(node, ast.For) else []
        found = [*loops, *(node.generators if isinstance(node, _COMPREHENSIONS) else ())]
        for loop in found:
            counts = isinstance(loop.iter, ast.Call) and called(loop.iter) == "range"
            if isinstance(loop.target, ast.Name) and loop.target.id == name and counts:
                call = loop.iter
                if isinstance(call, ast.Call) and len(call.args) in (1, 2) and not call.keywords:
                    yield call
