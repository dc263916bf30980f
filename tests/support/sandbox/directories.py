"""Directories to test with: what matters of one, and what code might do to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

__all__ = ["change", "clear", "names", "paths", "steps", "tree"]


def tree(root: Path) -> dict[str, Any]:
    """All that matters of a tree: names, kinds, contents, modes and which names are one file."""
    found: dict[str, Any] = {}
    first: dict[int, str] = {}
    for path in sorted(root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("directory", stat.S_IMODE(status.st_mode))
        else:
            same = first.setdefault(status.st_ino, name)
            mode = stat.S_IMODE(status.st_mode)
            found[name] = ("file", path.read_bytes(), mode, status.st_mtime_ns, same)
    return found


names = st.sampled_from(["a", "b", "-c", "d\n", "\udc80"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
steps = st.lists(
    st.tuples(st.sampled_from(["write", "mkdir", "remove", "link", "symlink", "chmod"]), paths, paths),
    max_size=12,
)


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inside in path.iterdir():
            clear(inside)
        path.rmdir()
    else:
        path.unlink()


def change(root: Path, what: str, at: str, other: str) -> None:
    """One thing that code might do; what cannot be done is passed over."""
    path = root / at
    try:
        if what == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(other) * 100)
        elif what == "mkdir":
            path.mkdir(parents=True)
        elif what == "remove":
            clear(path)
        elif what == "link":
            path.hardlink_to(root / other)
        elif what == "symlink":
            path.symlink_to(other)
        elif not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o640)
    except OSError:
        return
