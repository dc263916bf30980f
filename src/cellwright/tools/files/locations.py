"""Where the paths of ``files`` begin, what of it may be seen, and what may be written: a session's workspace, or the data directory.

A session in ``overlay`` mode has two directories, its layer over the project: which of them a path is in is decided
here as the kernel's overlay does. Blocking. Opens nothing but through ``sandbox.files``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from cellwright.errors import FileRefused, FileTooLarge, NoSuchFile, SandboxError
from cellwright.sandbox.files import Entry, Listing, Workdir
from cellwright.sandbox.safe_paths import components
from cellwright.sandbox.workspace import Workspace
from cellwright.tools.data_directory import DataDirectory

__all__ = ["FileRoots", "Root", "check_capacity", "data_directory_roots", "workspace_roots"]

# Code that writes there would be run by others later: by git, by whoever uses the environment.
_NEVER_WRITTEN = (".git", ".venv")
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Root:
    """A directory, from one above it on that nobody but us can replace."""

    top: Path
    below: str = ""

    def open(self) -> Workdir:
        return Workdir.open(self.top, below=self.below)


@dataclass(frozen=True, slots=True)
class FileRoots:
    """The directories that relative paths are looked up in, from the first root on."""

    called: str
    roots: tuple[Root, ...]
    hidden: tuple[tuple[str, ...], ...] = ()
    """Names that lead to the engine's own state."""
    unwritten: tuple[str, ...] = ()
    """Names at its beginning that are never written."""

    @property
    def is_layered(self) -> bool:
        return len(self.roots) > 1

    def check(self, path: str, *, writes: bool) -> tuple[str, ...]:
        """The names along a path that may be used.

        Raises:
            FileRefused: it leads elsewhere, or to what is not to be seen or written.
        """
        try:
            names = components(path)
            path.encode()
        except UnicodeEncodeError:
            raise FileRefused(f"{path!a} is no text in UTF-8", hint="Name the file in Unicode") from None
        except ValueError as error:
            raise FileRefused(
                f"{path!r} cannot be used in {self.called}: {error}",
                hint="Give a path relative to it, such as 'prices/may.csv'",
            ) from None
        if any(names[: len(one)] == one for one in self.hidden):
            raise FileRefused(f"{path!r} is the engine's own", hint="Name a file of yours")
        if writes and names and names[0] in self.unwritten:
            raise FileRefused(
                f"{names[0]} is not written to: others run what is in it", hint="Write elsewhere"
            )
        return names

    @contextmanager
    def holding(self, path: str) -> Iterator[Workdir]:
        """The directory in which what is at a path is to be found.

        Raises:
            SandboxError: there is none, or the way leads elsewhere.
        """
        names = self.check(path, writes=False)
        with ExitStack() as stack:
            *above, last = self.roots
            for root in above:
                try:
                    layer = stack.enter_context(root.open())
                except SandboxError:  # nothing was written there yet
                    continue
                if _covers(layer, names, path):
                    yield layer
                    return
            yield stack.enter_context(last.open())

    def entry(self, path: str) -> Entry | None:
        """What has this name, or None."""
        try:
            with self.holding(path) as directory:
                return directory.entry(path)
        except NoSuchFile:
            return None

    def listing(self, path: str, max_entries: int) -> Listing:
        """What lies in a directory; of several the uppermost of each name."""
        names = self.check(path, writes=False)
        found: dict[str, Entry] = {}
        complete, missing = True, None
        with self.holding(path) as directory:
            if names and directory.entry(path) is None:
                raise NoSuchFile(f"Cannot list {path}: there is none", hint="List what is above it")
        for root in self.roots:
            try:
                with root.open() as directory:
                    listed = directory.list(path, max_entries)
                    is_opaque = self.is_layered and bool(names) and directory.is_opaque(path)
            except NoSuchFile as error:
                missing = error
                continue
            for entry in listed.entries:
                found.setdefault(entry.path, entry)
            complete = complete and listed.complete
            if is_opaque:
                break
        if not found and missing is not None and len(self.roots) == 1:
            raise missing
        kept = [one for one in found.values() if one.type != "whiteout" and self._is_seen(one.path)]
        return Listing(tuple(sorted(kept, key=lambda one: one.path)), complete)

    def _is_seen(self, path: str) -> bool:
        names = tuple(path.split("/"))
        return names not in self.hidden and not names[-1].startswith(".cellwright-")


def data_directory_roots(data_directory: DataDirectory) -> FileRoots:
    """The shared data directory."""
    data_directory.open().close()
    return FileRoots("the data directory", (Root(data_directory.root),))


def workspace_roots(workspace: Workspace) -> FileRoots:
    """A session's working directory, as its code sees it."""
    cwd = PurePath(workspace.cwd)
    hidden = tuple(
        PurePath(path).relative_to(cwd).parts
        for path in workspace.hidden
        if PurePath(path).is_relative_to(cwd)
    )
    if workspace.mode == "private":
        return FileRoots("the session's directory", (Root(Path(workspace.written)),))
    below = str(cwd.relative_to(workspace.top))
    project = Root(Path(workspace.top), below)
    roots = (Root(Path(workspace.written), below), project) if workspace.mode == "overlay" else (project,)
    return FileRoots("the session's directory", roots, tuple(one for one in hidden if one), _NEVER_WRITTEN)


def check_capacity(directory: Workdir, path: str, size: int, capacity: int, *, whole: bool = False) -> None:
    """Refuse what would fill a directory beyond what one may hold: the whole, or the one that a path begins with."""
    names = components(path)
    first = "" if whole or len(names) == 1 else names[0]
    held = directory.snapshot(max_entries=_MOST_COUNTED, skip=frozenset()).entries
    beside = [
        entry.size
        for name, entry in held.items()
        if entry.type == "file"
        and name != "/".join(names)
        and (whole or (name.startswith(f"{first}/") if first else "/" not in name))
    ]
    if sum(beside) + size > capacity:
        where = first or "the directory"
        raise FileTooLarge(
            f"{path}: with {size:,} bytes more {where} would hold more than {capacity:,} (max_session_disk)",
            hint="Delete files there, write less, or raise CELLWRIGHT_MAX_SESSION_DISK",
        )


def _covers(layer: Workdir, names: tuple[str, ...], path: str) -> bool:
    """Whether a layer says what is at a path: it holds it, or something that hides what lies below."""
    for count in range(1, len(names) + 1):
        part = "/".join(names[:count])
        entry = layer.entry(part)
        if entry is None:
            return False
        if entry.type == "whiteout":
            raise NoSuchFile(f"Cannot reach {path}: the session deleted {part}", hint="List what is there")
        if entry.type != "directory" or layer.is_opaque(part):
            return True
    return bool(names)
