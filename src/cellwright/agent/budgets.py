"""What a run may spend, and what it has spent: tokens, money, seconds, steps. Pure but for the clock it is given."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cellwright.delegation import Usage
from cellwright.errors import BudgetInvalid, BudgetSpent

__all__ = ["Budget", "Spending", "parse_budget"]

_part = re.compile(r"^\s*(\$)?\s*([\d.]+)\s*(k|m)?\s*([a-z$]*)\s*$", re.IGNORECASE)
_UNITS = {
    "tokens": "tokens", "token": "tokens", "tok": "tokens", "t": "tokens",
    "usd": "money", "$": "money", "dollars": "money", "dollar": "money",
    "s": "seconds", "sec": "seconds", "seconds": "seconds",
    "min": "seconds", "minutes": "seconds", "minute": "seconds",
    "steps": "steps", "step": "steps", "requests": "steps",
}  # fmt: skip
_SCALE = {"k": 1_000, "m": 1_000_000}
_HINT = "Write it as '50k tokens, 0.50 usd, 120 s, 20 steps'; any of the four may be left out"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a run may take; None is without limit. ``steps`` are requests to a model."""

    tokens: int | None = 400_000
    money: float | None = 2.0
    seconds: float | None = 900.0
    steps: int | None = 60


def parse_budget(text: str, base: Budget | None = None) -> Budget:
    """A budget as people write it; what is not named stays as in ``base``.

    Raises:
        BudgetInvalid: it cannot be understood.
    """
    budget = base or Budget()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = _part.match(part)
        unit = "money" if found and found[1] else _UNITS.get(found[4].lower()) if found else None
        if found is None or unit is None:
            raise BudgetInvalid(f"{part!r} is no part of a budget", hint=_HINT)
        try:
            amount = float(found[2]) * _SCALE.get((found[3] or "").lower(), 1)
        except ValueError:
            raise BudgetInvalid(f"{part!r} has no number that can be read", hint=_HINT) from None
        if found[4].lower().startswith("min"):
            amount *= 60
        if amount <= 0:
            raise BudgetInvalid(f"{part!r} leaves nothing to work with", hint=_HINT)
        if not math.isfinite(amount):
            raise BudgetInvalid(f"{part!r} is no limit", hint=_HINT)
        changed: dict[str, Any] = {unit: int(amount) if unit in {"tokens", "steps"} else amount}
        budget = replace(budget, **changed)
    return budget


@dataclass(slots=True)
class Spending:
    """What a run has taken of its budget."""

    budget: Budget
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    @property
    def seconds_left(self) -> float | None:
        return None if self.budget.seconds is None else max(0.0, self.budget.seconds - self.seconds)

    def add(self, usage: Usage) -> None:
        """After a request, also of one whose reply was of no use."""
        self.usage += usage

    def extend(self, by: Budget, *, waited_s: float) -> None:
        """Go past the budget by as much again; a person's time to say so is not the run's."""
        more = {
            limit.name: None
            if (now := getattr(self.budget, limit.name)) is None
            else now + (getattr(by, limit.name) or 0)
            for limit in fields(by)
        }
        self.budget = Budget(**more)
        self.began += waited_s

    def begin(self) -> None:
        """Before a request, which is counted at once: branches ask side by side.

        Raises:
            BudgetSpent: nothing is left of one of them.
        """
        taken = {
            "tokens": self.usage.tokens_in + self.usage.tokens_out,
            "money": self.usage.money,
            "seconds": self.seconds,
            "steps": self.steps,
        }
        for limit in fields(self.budget):
            most = getattr(self.budget, limit.name)
            if most is not None and taken[limit.name] >= most:
                raise BudgetSpent(limit.name, taken=taken[limit.name], limit=most)
        self.steps += 1
