"""Files that a session's code finds in its working directory, with the columns of data files as far as their heads tell.

Blocks; nothing is followed out of the directory (see ``sandbox.files``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cellwright.engine import Session
from cellwright.engine.foreign_kernels import is_foreign
from cellwright.errors import SandboxError
from cellwright.plans.data_files import HEAD_BYTES, data_files, described
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.listings import SKIPPED, quoted_path

__all__ = ["WorkFile", "files_of"]

_MOST_FILES = 500
_MOST_FOLDERS = 20
_MOST_HEADS = 8
_MOST_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class WorkFile:
    """A file as code names it."""

    path: str
    size: int
    columns: tuple[str, ...] = ()


def files_of(session: Session) -> tuple[WorkFile, ...]:
    """Data first, then the rest, each by name; none where the files are a server's."""
    if is_foreign(session.record):
        return ()
    place = session.place
    # What a session wrote over the project lies in a layer above it.
    layers = [Path(place.written_cwd)] if place.mode == "private" else [session.cwd, Path(place.written_cwd)]
    entries: dict[str, tuple[Path, Entry]] = {}
    for layer in dict.fromkeys(layers):
        with suppress(SandboxError), Workdir.open(layer) as workdir:
            for entry in _entries(workdir):
                if entry.type == "whiteout":
                    entries.pop(entry.path, None)
                elif layer / entry.path != session.path:
                    entries[entry.path] = (layer, entry)
    data = data_files(entries)
    names = [*data, *sorted(entries.keys() - set(data))]
    columns = {name: _columns(*entries[name]) for name in data[:_MOST_HEADS]}
    return tuple(WorkFile(quoted_path(name), entries[name][1].size, columns.get(name, ())) for name in names)


def _entries(workdir: Workdir) -> Iterator[Entry]:
    """Files at the top and one folder below; what is hidden or made by tools is left out."""
    folders = [""]
    for folder in folders:
        with suppress(SandboxError):
            for entry in workdir.list(folder, max_entries=_MOST_FILES).entries:
                name = PurePosixPath(entry.path).name
                if name.startswith(".") or name in SKIPPED:
                    continue
                if entry.type in ("file", "whiteout"):
                    yield entry
                elif entry.type == "directory" and not folder and len(folders) <= _MOST_FOLDERS:
                    folders.append(entry.path)


def _columns(layer: Path, entry: Entry) -> tuple[str, ...]:
    try:
        with Workdir.open(layer) as workdir:
            head = workdir.read_part(entry.path, max_bytes=HEAD_BYTES).data
        names = [column.name for column in described(entry.path, head).columns]
    except (SandboxError, ValueError):  # it went away, or is not what its name says
        return ()
    more = len(names) - _MOST_COLUMNS
    return (*names[:_MOST_COLUMNS], f"and {more} more") if more > 0 else tuple(names)
