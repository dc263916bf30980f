"""A failure made ready for a fixer: its one root, the cell as a tree, and the place that failed.

What every fixer that works on code which ran begins with. Decides nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cellwright.engine import Diagnosis
from cellwright.engine.introspection import Raised, Span
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers.cells import MAX_TEXT, Cell, Edit, parse
from cellwright.plans.fixers.repeating import is_repeatable

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
