"""Paths that a caller names stay inside of the root directory, whatever they look like."""

from __future__ import annotations

from pathlib import Path

from cellwright.errors import NotebookError

__all__ = ["within"]


def within(root: Path, path: str) -> Path:
    """The real path of what a caller named.

    Raises:
        NotebookError: it lies outside of the root directory.
    """
    if "\0" in path:
        raise NotebookError("The path has a null character in it", hint=f"Give one inside of {root}")
    real = (root / Path(path).expanduser()).resolve()
    if not real.is_relative_to(root.resolve()):
        raise NotebookError(
            f"{path!r} lies outside of {root}", hint="Give a path inside of it, or change CELLWRIGHT_ROOT"
        )
    return real
