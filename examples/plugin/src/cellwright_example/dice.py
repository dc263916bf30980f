"""A die, as code in cells uses it; `digests` says how agents see one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(repr=False)
class Die:
    """A die that remembers what it rolled."""

    sides: int = 6
    rolled: list[int] = field(default_factory=list)

    def roll(self) -> int:
        """Roll it once."""
        self.rolled.append(random.randint(1, self.sides))
        return self.rolled[-1]
