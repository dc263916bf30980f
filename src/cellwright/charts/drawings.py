"""What a builder gives back: the body of a spec, and what there is to say about the picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["HEIGHT", "WIDTH", "Drawing", "counted", "plural"]

WIDTH, HEIGHT = 620, 340


@dataclass(frozen=True, slots=True)
class Drawing:
    body: dict[str, Any]
    """Data, marks and encodings; title, theme and size are added by ``specs``."""
    about: str
    """What is drawn, in a few words; the title where there is none."""
    facts: tuple[str, ...]
    """A few lines for somebody who cannot see it."""
    notices: tuple[str, ...] = ()
    zoom: bool = False
    """Whether a reader may move along its axes."""


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def counted(number: int, one: str) -> str:
    """A clause for rows that are not drawn; empty for none."""
    return "" if not number else plural(number, one)
