"""What a session in ``overlay`` mode wrote, against the project it never touched: listed, shown as a diff, applied.

Everything is read and written through ``files``, so that nothing planted in the layer leads anywhere else. Blocking.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cellwright.errors import FileRefused, NoSuchFile, SandboxError
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.places import Place

__all__ = ["LayerChange", "apply_changes", "layer_changes", "layer_diff"]

_MAX_DIFF_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class LayerChange:
    """One file that is different for the session; ``real`` is where others find what it wrote."""

    path: str
    change: Literal["added", "changed", "deleted"]
    size: int
    real: str


def layer_changes(place: Place) -> list[LayerChange]:
    """Every file that the session added, changed or deleted, by its path in the project."""
    if not Path(place.written).is_dir() or place.project is None:
        return []
    with Workdir.open(Path(place.written)) as layer, Workdir.open(Path(place.project)) as project:
        entries = layer.snapshot(skip=frozenset()).entries
        return [
            _change(place, project, entry)
            for path, entry in sorted(entries.items())
            if entry.type in ("file", "whiteout") and (entry.type == "file" or project.exists(path))
        ]


def layer_diff(place: Place, paths: Iterable[str] | None = None) -> str:
    """The changes as a unified diff; files that are no text are named only."""
    wanted = set(paths) if paths is not None else None
    parts = [
        _diff(place, change) for change in layer_changes(place) if wanted is None or change.path in wanted
    ]
    return "".join(parts)


def apply_changes(place: Place, paths: Iterable[str] | None = None) -> list[LayerChange]:
    """Bring changes over into the project, all or those of the named paths.

    Raises:
        NoSuchFile: a named path was not changed.
        FileRefused: the session has no layer.
    """
    if place.mode != "overlay" or place.project is None:
        raise FileRefused(
            "This session has no layer over a project", hint="Its files are in its directory already"
        )
    changes = {change.path: change for change in layer_changes(place)}
    wanted = list(paths) if paths is not None else list(changes)
    for path in wanted:
        if path not in changes:
            raise NoSuchFile(f"{path} was not changed by this session", hint="List the changes first")
    with Workdir.open(Path(place.written)) as layer, Workdir.open(Path(place.project)) as project:
        for path in wanted:
            if changes[path].change == "deleted":
                project.remove(path)
            else:
                project.write(path, layer.read(path), parents=True)
    return [changes[path] for path in wanted]


def _change(place: Place, project: Workdir, entry: Entry) -> LayerChange:
    real = f"{place.written}/{entry.path}"
    if entry.type == "whiteout":
        return LayerChange(entry.path, "deleted", 0, real)
    kind: Literal["added", "changed"] = "changed" if project.exists(entry.path) else "added"
    return LayerChange(entry.path, kind, entry.size, real)


def _diff(place: Place, change: LayerChange) -> str:
    before = _lines(place.project or "", change.path) if change.change != "added" else []
    after = _lines(place.written, change.path) if change.change != "deleted" else []
    if before is None or after is None:
        return f"{change.change}: {change.path} ({change.size:,} bytes, no text)\n"
    names = (f"a/{change.path}", f"b/{change.path}")
    return "".join(difflib.unified_diff(before, after, *names))


def _lines(directory: str, path: str) -> list[str] | None:
    try:
        with Workdir.open(Path(directory)) as files:
            text = files.read(path, _MAX_DIFF_BYTES).decode()
    except (SandboxError, UnicodeDecodeError):
        return None
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]
