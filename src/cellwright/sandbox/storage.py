"""The directory that is a session's own: its layer over the project, or its private folder. Blocking."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cellwright.sandbox.clearing import clear_directory
from cellwright.sandbox.places import LAYER, Place

__all__ = ["exchange_storage", "prepare_storage", "remove_storage"]


def prepare_storage(place: Place) -> None:
    """Make the directories that a place needs."""
    if place.mode == "overlay":
        for part in ("upper", "work"):
            Path(place.storage, LAYER, part).mkdir(mode=0o700, parents=True, exist_ok=True)
    elif place.mode == "private":
        Path(place.written).mkdir(mode=0o700, parents=True, exist_ok=True)


def exchange_storage(one: Path, other: Path) -> None:
    """Let two sessions have each other's directories; what is open there stays open."""
    aside = one.with_name(f"{one.name}.aside")
    for directory in (one, other):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(one, aside)  # noqa: PTH104  # all three are renames of directories in one place
    os.rename(other, one)  # noqa: PTH104
    os.rename(aside, other)  # noqa: PTH104


def remove_storage(directory: Path) -> None:
    """Remove a session's own directory, whatever its code left there."""
    try:
        root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        clear_directory(root)
    finally:
        os.close(root)
    with contextlib.suppress(
        OSError
    ):  # what could not be deleted stays, in a directory that nobody else uses
        directory.rmdir()
