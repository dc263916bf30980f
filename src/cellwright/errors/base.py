"""The root of all errors. What there are stands in the package itself."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["CellwrightError"]


class CellwrightError(Exception):
    """Root of every error Cellwright raises on purpose: a stable code, a message, and what to do next."""

    code: ClassVar[str] = "cellwright"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message
