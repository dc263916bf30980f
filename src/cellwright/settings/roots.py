"""Keeps the paths that a client names inside the directories that the settings allow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cellwright.errors import CellwrightError

__all__ = ["OutsideRoots", "fenced"]


class OutsideRoots(CellwrightError):
    """A path leads out of the configured roots."""

    code = "outside_roots"


def fenced(path: Path | str, roots: Sequence[Path], *, base: Path | None = None) -> Path:
    """A path with its links followed, taken from ``base`` (the first root) where it is relative.

    Raises:
        OutsideRoots: it lies, or leads, outside all roots.
    """
    text = str(path)
    if "\0" in text:
        raise OutsideRoots("A path cannot contain a NUL character", hint="Name a file by its path")
    full = ((base or roots[0]) / Path(text).expanduser()).resolve()
    if any(full.is_relative_to(root) for root in roots):
        return full
    allowed = ", ".join(str(root) for root in roots)
    raise OutsideRoots(
        f"{text} is outside the directories that may be used ({allowed})",
        hint="Name a path inside, or have the user add its directory to the setting `roots`",
    )
