"""Finds the entry points of our groups in what is installed. Reads ``entry_points.txt`` files only, and imports nothing.

``importlib.metadata.entry_points`` parses the files of every distribution, which takes longer than all else at a start;
here a distribution that does not name our groups costs one read.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PathDistribution
from pathlib import Path

from cellwright.plugins.ports import KINDS

__all__ = ["OURS", "PluginEntry", "find_entries"]

OURS = "cellwright"
"""Our own distribution, whose plugins are of this release and are not examined."""

_PREFIX = "cellwright."
_GROUP = b"[cellwright."
_INFO = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One entry point of one of our groups."""

    kind: str
    name: str
    value: str
    """What it names, as ``module:attribute``."""
    distribution: str
    version: str
    fingerprint: str = ""
    """Of the installed files; empty where they may change without a new installation."""

    @property
    def is_ours(self) -> bool:
        return self.distribution == OURS

    @property
    def id(self) -> str:
        """What people call it, such as ``tools:roll``."""
        return f"{self.kind}:{self.name}"


def find_entries() -> tuple[PluginEntry, ...]:
    """All that there are, ours first, then by distribution; in each the order of its file. Looked for once a process."""
    return _find(tuple(sys.path))


@cache
def _find(path: tuple[str, ...]) -> tuple[PluginEntry, ...]:
    found: dict[str, tuple[PluginEntry, ...]] = {}
    for directory in path:
        for info in _infos(directory or "."):
            entries = tuple(_entries(info))
            if entries:  # what comes first on the path is what is imported
                found.setdefault(entries[0].distribution, entries)
    ordered = sorted(found, key=lambda name: (name != OURS, name))
    return tuple(entry for name in ordered for entry in found[name])


def _infos(directory: str) -> Iterator[str]:
    """The records of distributions in a directory that name one of our groups."""
    try:
        names = os.listdir(directory)
    except OSError:  # a zip file, or not there
        return
    for name in names:
        if not name.endswith(_INFO):
            continue
        try:
            with open(f"{directory}/{name}/entry_points.txt", "rb") as file:
                content = file.read()
        except OSError:  # it has none
            continue
        if _GROUP in content:
            yield f"{directory}/{name}"


def _entries(info: str) -> Iterator[PluginEntry]:
    distribution = PathDistribution(Path(info))
    fingerprint = _fingerprint(Path(info))
    # The directory says both in the form that installers agreed on; the metadata would be parsed as an e-mail.
    name, _, version = Path(info).stem.partition("-")
    name, version = name.lower().replace("_", "-"), version or distribution.version
    for point in distribution.entry_points:
        kind = point.group.removeprefix(_PREFIX)
        if point.group.startswith(_PREFIX) and kind in KINDS:
            yield PluginEntry(kind, point.name, point.value, name, version, fingerprint)


def _fingerprint(info: Path) -> str:
    try:
        record = (info / "RECORD").read_bytes()
    except OSError:
        return ""
    # An editable installation records a pointer to the files and not the files.
    if b".pth," in record or b"__editable__" in record:
        return ""
    return hashlib.sha256(record).hexdigest()
