"""The verbs that patterns are written in: think, act, branch, and what follows from these three.

Only their signatures and what they promise; ``runner`` does it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from cellwright.agent.branches import Branch

__all__ = ["Seen", "Verbs"]

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Seen:
    """The charts of a branch: as they are drawn, and what rules find wrong with them."""

    pictures: tuple[bytes, ...] = ()
    issues: tuple[str, ...] = ()


class Verbs(Protocol):
    """What a pattern can do."""

    async def think(
        self, role: str, shape: type[T], branch: Branch, prompt: str, *, pictures: Sequence[bytes] = ()
    ) -> T:
        """One typed answer. Nothing of it stays in the branch's history."""
        ...

    async def act(self, branch: Branch, goal: str) -> Branch:
        """Work on a goal with tools until there is an answer, or three cells in a row failed."""
        ...

    async def branch(self, branch: Branch, count: int) -> list[Branch]:
        """Branches from the state of now: kernels, files, notebook and history of their own."""
        ...

    # What follows from these ------------------------------------------------------------------------------------

    async def act_apart(self, branch: Branch, goals: Sequence[str]) -> list[Branch]:
        """A branch for each goal, acted on side by side."""
        ...

    async def adopt(
        self,
        branch: Branch,
        winner: Branch,
        *,
        why: str = "",
        also: Sequence[Branch] = (),
        answer: str | None = None,
    ) -> Branch:
        """Let a branch's state and answer become the original's; the others stay readable. Returns the original.

        ``answer`` is given instead of the winner's own, unless there is an objection to it. It may rest on what
        ``also`` put out.
        """
        ...

    async def look(self, branch: Branch) -> Seen:
        """The charts that were drawn in this run."""
        ...

    async def plan(
        self, branch: Branch, problem: str, todos: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Make the engine's plan and run it until it is done, stops, or waits for code. How it stands then.

        None where the notebook has a plan already: it can have one.
        """
        ...

    async def give_code(self, branch: Branch, code: str) -> dict[str, Any]:
        """Give the plan's current step this code, and go on."""
        ...

    def stop(self, branch: Branch, report: str) -> Branch:
        """End without an answer, for this reason."""
        ...
