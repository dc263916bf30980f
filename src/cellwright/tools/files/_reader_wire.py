"""Order to the process that reads files, and its answer."""

from __future__ import annotations

import msgspec

__all__ = ["Answer", "Order"]


class Order(msgspec.Struct, frozen=True):
    """Read the file that is on standard input."""

    name: str
    offset: int
    """The first row or line, from 0."""
    limit: int
    """The most rows or lines."""
    max_characters: int
    sheet: str | None
    memory_bytes: int
    cpu_s: int


class Answer(msgspec.Struct, frozen=True):
    """A file as text that fits, or what is wrong with it."""

    text: str = ""
    form: str = ""
    called: str = ""
    next_offset: int | None = None
    """Where to go on; None at the end."""
    total: int | None = None
    """Rows or lines in all, where they were counted."""
    error: str | None = None
    hint: str | None = None
