"""Where each attempt is made: everywhere that promises to stop it, and the one place that stands for all the others.

Pure: it starts nothing. ``test_escapes`` makes the attempts; those at other places than the representative are marked
``matrix``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.sandbox.escapes.attempts import Attempt

__all__ = ["CONFINED", "CONFINED_DENO", "UNCONFINED", "UNCONFINED_DENO", "Place", "Trial", "trials_of"]

USERS = ("me", "nobody") if os.getuid() == 0 else ("me",)


@dataclass(frozen=True, slots=True)
class Place:
    """A kernel of a user, in a tier or with nothing that confines it, and how it is started."""

    user: str
    tier: str
    launcher: str

    def promises(self, attempt: Attempt) -> bool:
        """Whether the attempt has a certain outcome here: see docs/security.md for what a tier does not promise."""
        if self.tier == "none":
            return not attempt.root or (self.user == "me" and os.getuid() == 0)
        return self.tier in attempt.tiers and f"{self.tier}-{self.launcher}" != attempt.open_at

    def __str__(self) -> str:
        return f"{self.user}-{self.tier}-{self.launcher}"


# Attempts that stand beside each other are alike: the next place has another tier.
CONFINED = (
    *(Place(user, tier, launcher) for launcher in ("fork", "spawn") for user in USERS for tier in "BC"),
    # Without namespaces there is no Deno for a kernel to run beside.
    *(Place(user, "B", "beside") for user in USERS),
)
UNCONFINED = tuple(
    Place(user, "none", launcher) for launcher in ("fork", "spawn", "beside") for user in USERS
)
CONFINED_DENO = tuple(Place(user, "B", "deno") for user in USERS)
UNCONFINED_DENO = tuple(Place(user, "none", "deno") for user in USERS)


@dataclass(frozen=True, slots=True)
class Trial:
    place: Place
    attempt: Attempt
    representative: bool


def trials_of(
    attempts: tuple[Attempt, ...], places: tuple[Place, ...], *, one_in: int = 1
) -> Iterator[Trial]:
    """Every attempt at every place with a certain outcome; one of them, in turn, is the representative.

    With ``one_in``, only one attempt in so many has a representative.
    """
    for turn, attempt in enumerate(attempts):
        possible = [place for place in places if place.promises(attempt)]
        # A greedy attempt costs its kernel: a fork of a new one takes the least.
        cheap = [place for place in possible if not attempt.greedy or place.launcher == "fork"]
        chosen = cheap[turn % len(cheap)]
        stands = turn % one_in == 0
        yield from (Trial(place, attempt, stands and place == chosen) for place in possible)
