"""A failure made ready for a fixer: its one root, the cell as a tree, and the place that failed.

What every fixer that works on code which ran begins with. Decides nothing.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cellwright.engine import Diagnosis
from cellwright.engine.introspection import Raised, Span
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers.calls import called, calls_in, write_target
from cellwright.plans.fixers.cells import MAX_TEXT, Cell, Edit, parse
from cellwright.plans.fixers.regions import regions

__all__ = ["Case", "case_of", "error_of"]
_TWICE = "What the cell did before it failed was not undone, and would be done twice: see to that first."


@dataclass(frozen=True, slots=True)
class Case:
    """One error of one cell."""

    failure: Failure
    error: Raised
    cell: Cell

    @property
    def diagnosis(self) -> Diagnosis:
        return self.failure.diagnosis or Diagnosis((self.error,), self.error)

    @property
    def details(self) -> dict[str, Any]:
        return {**self.diagnosis.raised.details, **self.error.details}

    @property
    def span(self) -> Span | None:
        """The innermost place of the cell that led to the error: a cause's own, or what was made of it."""
        return self.error.span or self.diagnosis.raised.span

    @property
    def statement(self) -> ast.stmt | None:
        return self.cell.within(self.span)

    @property
    def can_run_again(self) -> bool:
        """Whether the cell can be run once more: from where it began, or because it did nothing that counts."""
        return self.failure.surroundings.has_checkpoint or is_repeatable(self.cell, self.span)

    def uses(self, name: str) -> tuple[ast.Name, ...]:
        """Where a name is used, but for those places where old Pythons do not tell it right."""
        return tuple(
            node
            for node in self.cell.names()
            if node.id == name and self.cell.segment(node) == name and self.cell.is_use(node)
        )

    def proposal(
        self,
        fixer: str,
        reason: str,
        edits: Iterable[Edit] = (),
        *,
        certain: bool,
        packages: tuple[str, ...] = (),
    ) -> Proposal:
        """The edits as a proposal; where they do not lead to a source that compiles, only what they were for."""
        source = self.cell.edited(edits)
        if certain and not self.can_run_again:
            certain, reason = False, f"{reason} {_TWICE}"
        return Proposal(
            fixer, reason, source, packages, certain=certain and (source is not None or bool(packages))
        )


def error_of(failure: Failure) -> Raised | None:
    """What a failure comes down to; None where that is not one thing."""
    if failure.diagnosis is None:
        return Raised(failure.error_type, failure.message)
    return failure.diagnosis.roots[0] if len(failure.diagnosis.roots) == 1 else None


def case_of(failure: Failure, *types: str) -> Case | None:
    """The case, if Python code that parses raised one of these and nothing else."""
    error = error_of(failure)
    if failure.state != "error" or failure.language != "python" or error is None or error.type not in types:
        return None
    cell = parse(failure.source) if len(failure.source) <= MAX_TEXT else None
    return None if cell is None else Case(failure, error, cell)


# Whether what a cell did before it failed can be done once more: where nothing brings back the state before
# the cell, a repaired cell does all of it again.

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
