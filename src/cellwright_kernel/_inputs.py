"""Which files the notebook's code has read, by what they hold, and which distributions it has imported.

Python says so itself, through an audit hook that is there from the first question on. Libraries that open files
without Python (pyarrow, DuckDB, polars) are caught by the texts in the code that name a file. What this kernel wrote
itself is no input. Only files below the directories that the engine names count. Bounded in number and in bytes.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib.metadata
import os
import platform
import re
import stat
import sys
import time
from itertools import islice
from typing import Any

__all__ = ["answer"]

MAX_FILES = 200
MAX_HASHED_BYTES = 1 << 30
MAX_NOTED = 10_000
MAX_CANDIDATES = 500
MAX_CANDIDATE = 1_000
MAX_PATTERNS = 20
MAX_WIDE = 2
MAX_PACKAGES = 1_000

_QUOTED = re.compile(r"'([^'\n]{1,300})'|\"([^\"\n]{1,300})\"")
# What lies in these belongs to an installation, to version control, or is made from what lies elsewhere.
_NEVER = frozenset({"__pycache__", ".git", ".venv", "site-packages", "dist-packages", "node_modules"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What was opened since it began. Its hook runs inside of every ``open``, so it does next to nothing."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = tuple(os.path.realpath(root) for root in roots)
        self.read: dict[str, None] = {}
        self.written: set[str] = set()
        self.began_ns = time.time_ns()
        self.first = frozenset(sys.modules)
        """What was loaded before any of the notebook's code ran."""
        self.modules = set(self.first)
        self.hashes: dict[tuple[int, ...], str] = {}
        self.left = MAX_HASHED_BYTES
        self.inner = False

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.inner or len(self.read) + len(self.written) > MAX_NOTED:
            return
        if event == "open":
            path, mode, flags = arguments
            self._note_open(path, mode, flags)
        elif event == "os.rename":
            self._note_written(arguments[1])

    def _note_open(self, path: Any, mode: Any, flags: Any) -> None:
        if type(path) not in {str, bytes}:
            return  # a descriptor, whose own opening was noted
        writes = any(letter in mode for letter in "wax+") if type(mode) is str else bool(flags & _WRITES)
        if writes:
            self._note_written(path)
        else:
            name = _absolute(path)
            if name is not None and name not in self.written:
                self.read[name] = None

    def _note_written(self, path: Any) -> None:
        if type(path) in {str, bytes} and (name := _absolute(path)) is not None:
            self.written.add(name)


_watch: Watch | None = None
_hooked = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watch is None or event not in {"open", "os.rename"}:
        return
    with contextlib.suppress(Exception):  # boundary: raised here it would fail the user's own call
        _watch.note(event, arguments)


def answer(
    *,
    watch: bool = False,
    roots: list[str] | None = None,
    texts: list[str] | None = None,
    modules: list[str] | None = None,
    packages: bool = False,
) -> dict[str, Any]:
    """Tell what was read since the last question; with ``watch`` begin to watch, unless that has begun already.

    ``texts`` are those in the code that ran meanwhile, ``modules`` the ones that it imports by name.
    """
    global _watch, _hooked  # noqa: PLW0603  # a hook cannot be taken out again, nor can it be given an object
    if _watch is None:
        if not watch:
            about = _surroundings(frozenset(sys.modules), modules or []) if packages else {}
            return {"watching": False, "files": [], "omitted": 0, **about}
        _watch = Watch(roots or [os.getcwd()])
        if not _hooked:
            _hooked = True
            sys.addaudithook(_hook)
        found: dict[str, Any] = {"files": [], "omitted": 0}
    else:
        _watch.inner = True
        try:
            found = _input_files(_watch, texts or [])
        finally:
            _watch.inner = False
    about = _surroundings(_watch.first, modules or []) if packages else {}
    return {"watching": True, **found, **about}


def _input_files(watch: Watch, texts: list[str]) -> dict[str, Any]:
    names = [*watch.read, *_modules_read(watch), *_named(texts, watch)]
    watch.read = {}
    wanted = [name for name in dict.fromkeys(names) if _counts(name, watch)]
    files = [one for name in wanted[:MAX_FILES] if (one := _about(name, watch)) is not None]
    return {"files": files, "omitted": max(0, len(wanted) - MAX_FILES)}


def _modules_read(watch: Watch) -> list[str]:
    """The project's own modules: a compiled one is loaded without its source being opened."""
    new = [name for name in list(sys.modules) if name not in watch.modules]
    watch.modules.update(new)
    files = [vars(sys.modules[name]).get("__file__") for name in new if name in sys.modules]
    return [os.path.abspath(file) for file in files if type(file) is str and file.endswith(".py")]


def _named(texts: list[str], watch: Watch) -> list[str]:
    """Files that texts name, as they are, by a pattern, or in quotes as SQL does."""
    quoted = [one or other for text in texts[:MAX_CANDIDATES] for one, other in _QUOTED.findall(text)]
    fit = [text for text in [*texts, *quoted] if 0 < len(text) <= MAX_CANDIDATE and "\0" not in text]
    patterns = [text for text in fit if glob.has_magic(text) and _is_narrow(text)][:MAX_PATTERNS]
    found = [text for text in fit[:MAX_CANDIDATES] if not glob.has_magic(text)]
    for pattern in patterns:
        found += islice(glob.iglob(pattern), MAX_FILES)
    names = [_absolute(os.path.expanduser(one)) for one in found]
    return [name for name in names if name is not None and name not in watch.written]


def _is_narrow(pattern: str) -> bool:
    """Whether it can be looked for in a few directories; many a text that is no path has such marks too."""
    wide = [part for part in pattern.split("/") if glob.has_magic(part)]
    return len(wide) <= MAX_WIDE


def _counts(name: str, watch: Watch) -> bool:
    real = os.path.realpath(name)
    below = any(real == root or real.startswith(f"{root.rstrip('/')}/") for root in watch.roots)
    return below and not _NEVER.intersection(real.split("/"))


def _about(name: str, watch: Watch) -> dict[str, Any] | None:
    try:
        status = os.stat(name)
        # What came into being since was written by this notebook's code, also where Python did not open it.
        if not stat.S_ISREG(status.st_mode) or _is_new(name, status, watch):
            return None
        digest = _digest(name, status, watch)
    except OSError:  # gone, or not to be read any more
        return None
    about = {"path": _shown(name), "size": status.st_size, "mtime_ns": status.st_mtime_ns}
    if name in watch.written:
        return {**about, "changed": True}  # read first, then written: nobody knows what was read
    return {**about, "sha256": digest} if digest is not None else about


def _is_new(name: str, status: os.stat_result, watch: Watch) -> bool:
    return status.st_mtime_ns >= watch.began_ns and name not in watch.written


def _digest(name: str, status: os.stat_result, watch: Watch) -> str | None:
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in watch.hashes:
        if status.st_size > watch.left:
            return None
        watch.left -= status.st_size
        # A pipe that took the file's place meanwhile must not keep us.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            watch.hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return watch.hashes[key]


def _shown(name: str) -> str:
    """As seen from the working directory, where it is below; else in full."""
    here = os.getcwd()
    return os.path.relpath(name, here) if name.startswith(f"{here.rstrip('/')}/") else name


def _absolute(path: Any) -> str | None:
    try:
        return os.path.abspath(os.fsdecode(path))
    except (OSError, ValueError):
        return None


def _surroundings(first: frozenset[str], modules: list[str]) -> dict[str, Any]:
    """With what code runs: of all packages those of ``modules``, and those loaded since ``first`` was all there was."""
    loaded = {name.partition(".")[0] for name in list(sys.modules) if name not in first}
    return {
        "packages": dict(sorted(_owners({*loaded, *modules}).items())[:MAX_PACKAGES]),
        "interpreter": sys.executable,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }


def _owners(modules: set[str]) -> dict[str, str]:
    """Return the distributions that have some of these modules, with their versions.

    ``importlib.metadata.packages_distributions`` makes a path of every file of every distribution: half a second.
    """
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        if not modules.isdisjoint(_top_level(distribution)):
            versions.setdefault(distribution.metadata["Name"], distribution.version)
    return versions


def _top_level(distribution: importlib.metadata.Distribution) -> set[str]:
    """Return the names by which a distribution is imported, as it declares them or as its files are called."""
    if declared := distribution.read_text("top_level.txt"):
        return set(declared.split())
    if record := distribution.read_text("RECORD"):
        files = [line.lstrip('"') for line in record.splitlines()]
    else:
        files = [str(file) for file in distribution.files or ()]
    # A module of its own has its name before the first dot, as in `six.py,sha256=…` and `_cffi.abi3.so`.
    return {file.partition("/")[0].partition(".")[0] for file in files}
