"""The error for a library that belongs to an extra and is not installed."""

from __future__ import annotations

from cellwright.errors import CellwrightError

__all__ = ["ExtraMissing", "missing_extra"]


class ExtraMissing(CellwrightError):
    """A library of an extra is not installed."""

    code = "extra_missing"


def missing_extra(library: str, *, extra: str = "export") -> ExtraMissing:
    """What to raise where an import failed."""
    return ExtraMissing(f"{library} is not installed", hint=f"pip install 'cellwright[{extra}]'")
