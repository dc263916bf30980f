"""Whether what a cell did before it failed can be done once more: where nothing brings back the state before the cell,
a repaired cell does all of it again.

Pure, and for what it cannot tell, the answer is no. How a cell is undone is the run's own affair.
"""

from __future__ import annotations

import ast
import builtins

from cellwright.engine.introspection import Span
from cellwright.plans.fixers.calls import called, calls_in, write_target
from cellwright.plans.fixers.cells import Cell
from cellwright.plans.fixers.regions import regions

__all__ = ["is_repeatable"]

_CHANGING = """
    add append clear commit discard execute executemany extend insert next pop popitem popleft appendleft put post
    remove reverse send setdefault shuffle sort submit to_sql truncate unlink update write writelines
"""
_CHANGES = frozenset(_CHANGING.split())
_ACTING = frozenset(["next", "input", "exec", "eval", "setattr", "delattr", "compile"])
_PLAIN = frozenset(dir(builtins)) - _ACTING
_LED_ONCE = (ast.With, ast.If, ast.For)
"""Statements whose head is looked at once, before anything in them is done."""


def is_repeatable(cell: Cell, span: Span | None) -> bool:
    """Whether nothing that a cell did before it failed at a place is another thing when it is done twice."""
    if span is None or any(region.kind == "magic" for region in regions(cell.text)):
        return False
    body = cell.tree.body
    number = next(
        (place for place, each in enumerate(body) if each.lineno <= span.line <= (each.end_lineno or 0)), None
    )
    if number is None or not _did_nothing_yet(body[number], cell.within(span)):
        return False
    return all(_is_harmless(statement) for statement in body[:number])


def _did_nothing_yet(statement: ast.stmt, failing: ast.stmt | None) -> bool:
    """Whether a statement that failed cannot have done part of what it does."""
    if failing is not statement or not all(_is_plain(call) for call in calls_in(statement)):
        return False
    return not hasattr(statement, "body") or isinstance(statement, _LED_ONCE)


def _is_harmless(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Pass():
            return not getattr(statement, "decorator_list", [])
        case ast.Expr(value=value):
            return all(_is_plain(call) for call in calls_in(value))
        case ast.Assign(targets=targets, value=value):
            given = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            fresh = all(isinstance(target, ast.Name) for target in targets)
            read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            return fresh and not given & read and all(_is_plain(call) for call in calls_in(value))
    return False


def _is_plain(call: ast.Call) -> bool:
    """Whether a call is not known to change anything; of somebody's own functions nobody knows."""
    name = called(call)
    if write_target(call) is not None or name in _CHANGES or name in _ACTING:
        return False
    return isinstance(call.func, ast.Attribute) or name in _PLAIN or name[:1].isupper()
