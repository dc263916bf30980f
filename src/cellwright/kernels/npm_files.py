"""The npm packages of one Deno kernel: a directory beside all layers, with the files of its newest one.

Deno finds out at its start where that directory really is, and takes nothing from anywhere else: a link that is moved
would not be followed. So the directory stays and files are added to it; they are the layer's own (hard links), and a
kernel sees the store of layers as it is, without a way to write there. What is in a layer is ``sandbox.npm``'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from cellwright.sandbox.npm import CACHE, is_npm_layer

__all__ = ["NpmDirectory"]


@dataclass(frozen=True, slots=True)
class NpmDirectory:
    """One kernel's packages."""

    directory: Path
    seen_at: str
    """As the kernel sees it."""

    def put(self, layers: Sequence[str]) -> None:
        """Add what is in the last layer of npm packages among these, which holds all that came before it."""
        self.directory.mkdir(mode=0o755, exist_ok=True)
        named = [PurePath(layer).name for layer in layers if is_npm_layer(layer)]
        if named:
            _link_tree(self.directory.with_name(named[-1]) / CACHE, self.directory)

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def _link_tree(source: Path, target: Path) -> None:
    for parent, directories, names in os.walk(source):
        here = target / Path(parent).relative_to(source)
        for name in directories:
            (here / name).mkdir(mode=0o755, exist_ok=True)
        for name in names:
            fresh = here / f".{name}.new"
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            _link(Path(parent, name), fresh)
            # At once, under a kernel that may be reading.
            fresh.replace(here / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system that has none, or too many already
        shutil.copyfile(source, target)
