"""Order to the process that makes pages, and its answer (see ``renderer``)."""

from __future__ import annotations

import msgspec

from cellwright.errors import CellwrightError

__all__ = ["Answer", "Order", "refusal"]


class Order(msgspec.Struct, frozen=True):
    """What the child is asked for, on its standard input."""

    notebook: bytes
    name: str
    format: str
    include_outputs: bool
    limit_s: float
    memory_bytes: int


class Answer(msgspec.Struct, frozen=True):
    """What it answers on its standard output: a page, or an error in words."""

    content: bytes = b""
    notices: tuple[str, ...] = ()
    error: str | None = None
    hint: str | None = None


def refusal(error: CellwrightError) -> Answer:
    """An error as the child's answer."""
    return Answer(error=error.message, hint=error.hint)
