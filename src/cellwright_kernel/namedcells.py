"""Puts cells that have a file name into the working directory, so that other code can import them by it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

__all__ = ["write_named"]


def write_named(files: Mapping[str, str]) -> None:
    """Write each text to its file below the working directory, where it is not there already.

    What cannot be written is left out: whoever imports it gets an error that names it.
    """
    for name, text in files.items():
        path = PurePosixPath(name)
        if not path.is_absolute() and ".." not in path.parts:
            with contextlib.suppress(OSError):
                _write(Path(path), text.encode())


def _write(path: Path, content: bytes) -> None:
    # Read first: a file that is right keeps its time, and what was imported from it is not imported again.
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)
