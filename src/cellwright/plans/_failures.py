"""A failed attempt, as classes and fixers read it: the code, what was raised, and what the kernel knows about it.

Only data. It is made from an execution and a diagnosis (see ``engine.introspection``); how an error is classed stands in
``error_classes``, what can be done about it in ``fixers``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cellwright.engine import Diagnosis

__all__ = ["Adviser", "Elsewhere", "Failure", "Proposal", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A name that another step of the plan defines, or another cell where there is no plan."""

    number: int
    description: str
    status: str
    what: Literal["step", "cell"] = "step"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What lies around the failed cell."""

    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    """Names that skipped or later steps define, by the code they have."""
    approved: frozenset[str] = frozenset()
    """Distributions that may be installed, normalised."""
    has_checkpoint: bool = True
    """Whether the session can go back to before the cell."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed."""

    source: str
    """What ran: the cell's source, also where a check failed after it."""
    state: str
    """The execution's: ``error``, ``timeout``, ``died``; ``rejected`` where a check failed."""
    error_type: str
    message: str
    reason: str | None = None
    """Why it did not end by itself: the limit and its setting, as the engine tells it."""
    diagnosis: Diagnosis | None = None
    """None where the kernel is gone, or is none that can be asked."""
    check: str | None = None
    """The check that failed, where one did."""
    language: str = "python"
    surroundings: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a fixer proposes. Only a certain one with something to do is applied; else it is the suggestion."""

    fixer: str
    reason: str
    """One sentence, in words that also fit a report's suggestion."""
    source: str | None = None
    """The cell's new source; None where only a person or a model can write it."""
    packages: tuple[str, ...] = ()
    """Approved distributions to install first."""
    certain: bool = False
    alternatives: tuple[str, ...] = ()
    """Other sources that are as likely as ``source``: a plan tries each in a branch, against the step's checks."""

    @property
    def applies(self) -> bool:
        return self.certain and (self.source is not None or bool(self.packages))


Adviser: TypeAlias = Callable[[Failure], Awaitable[Proposal | None]]
"""Somebody to ask where no fixer is certain, such as a model: it may take its time, and is held to the same attempts."""
