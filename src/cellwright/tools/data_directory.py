"""The data directory: what one-shot tools share and what outlives them, by names relative to it.

Which paths are allowed is ``sandbox.files``'s to say; this only says where it begins, and which directory in it a
``workingDir`` means.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from cellwright.engine import Engine
from cellwright.errors import FileRefused
from cellwright.sandbox.files import Workdir

__all__ = ["RUNS", "DataDirectory", "relative"]

RUNS = "runs"
"""Where runs in a fresh directory leave their files, each below its own id."""


class DataDirectory:
    """The shared data directory. Made on first need, and private to its owner."""

    def __init__(self, root: Path, capacity: int) -> None:
        """``capacity`` is what each directory at its top may hold, in bytes."""
        self.root = root
        self.capacity = capacity

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """The data directory of an engine's storage."""
        settings = engine.settings
        return cls(settings.data_directory or settings.storage / "data", settings.max_session_disk)

    def open(self, working_dir: str = ".") -> Workdir:
        """The directory that a ``workingDir`` names, made where there is none.

        Raises:
            FileRefused: it leads outside, or through a link.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Workdir.open(self.root) as whole:
            directory = relative(working_dir)
            if directory:
                whole.make_directory(directory)
        return Workdir.open(self.root, below=directory)


def relative(path: str) -> str:
    """A path as this directory's own parts name it: no leading ``./``, nothing for the directory itself.

    Raises:
        FileRefused: it leads outside, or is no name at all.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names or "\0" in path:
        raise FileRefused(
            f"{path!r} leads out of the data directory",
            hint="Give a path relative to it, such as 'prices/may.csv'",
        )
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FileRefused(f"{path!a} is no name of a file", hint="Name the file in Unicode") from None
    return "/".join(names)
