"""What runs in the place of a cell of dice. The kernel imports it: standard library only, or what notebooks have."""

from __future__ import annotations

import re

_DICE = re.compile(r"\b(\d*)d(\d+)\b")


def python_of(source: str) -> str:
    """Python with every `2d6` as the sum of two rolls."""
    return _DICE.sub(_rolls, source)


def _rolls(found: re.Match[str]) -> str:
    return f"sum(__import__('random').randint(1, {found[2]}) for _ in range({found[1] or 1}))"
