"""Fixers, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from cellwright.plans.failures import Failure, Proposal

__all__ = ["FIXERS", "Fixer", "propose"]

Fixer: TypeAlias = Callable[[Failure], Proposal | None]
FIXERS: tuple[Fixer, ...] = ()


def propose(failure: Failure, fixers: Sequence[Fixer] = FIXERS) -> Proposal | None:
    """The first proposal that applies, else the first there is."""
    found = [proposal for fixer in fixers if (proposal := fixer(failure)) is not None]
    return next((proposal for proposal in found if proposal.applies), found[0] if found else None)
