"""Puts files into a directory so that it changes as a whole, as far as a file system allows. Blocking.

Everything is first written into a directory of ours beside (in the target, so in the same file system), then renamed
into place name by name. What goes is renamed away to there, and deleted last. Decides nothing (see ``restoring``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cellwright.errors import FileFailed
from cellwright.sandbox.beneath import open_beneath
from cellwright.sandbox.clearing import clear_directory
from cellwright.sandbox.contents import Contents, copy_file
from cellwright.sandbox.kept import OURS, Identity, Kept, key_of
from cellwright.sandbox.trees import OPAQUE, Names, closing

__all__ = ["Placing"]

_STAGING = f"{OURS}restore-"
_HANDLE = os.O_PATH | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OTHER_KIND = frozenset({errno.EISDIR, errno.ENOTDIR})
_NO_LIMIT = 1 << 62


class Placing:
    """One change of a directory, in the order of its methods. The directory is somebody else's to close."""

    def __init__(
        self,
        contents: Contents,
        entries: Mapping[Names, Kept],
        target: int,
        owner: tuple[int, int] | None,
    ) -> None:
        self.changed: set[Names] = set()
        self.failed: dict[Names, str] = {}
        self._contents, self._entries, self._target, self._owner = contents, entries, target, owner
        self._staging = ""
        self._beside = -1
        self._staged: dict[Names, str] = {}
        self._first_of: dict[Identity, str] = {}
        self._was_closed: dict[Names, int] = {}
        self._made_room = False

    @contextlib.contextmanager
    def undone_if_it_fails(self) -> Iterator[None]:
        """Until everything is staged, an error leaves the directory as it was.

        Raises:
            FileFailed: the file system refused.
        """
        try:
            self._clear_leftovers()
            yield
        except BaseException as error:
            self._discard()
            for names, mode in sorted(self._was_closed.items(), key=lambda item: -len(item[0])):
                with contextlib.suppress(OSError), self._handle(names) as path:
                    path.chmod(mode)
            if not isinstance(error, OSError):
                raise
            raise FileFailed(
                f"The files could not be brought back: {error.strerror or error}",
                hint="Files that were in the way were deleted; free space and try again"
                if self._made_room
                else "Nothing was changed; free space or delete files that are not needed, and try again",
            ) from error

    def open_up(self, names: Names) -> bool:
        """Open a directory that is closed to its owner (us); false where that cannot be, or changes nothing."""
        try:
            with self._handle(names) as path:
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & stat.S_IRWXU == stat.S_IRWXU:
                    return False
                path.chmod(mode | stat.S_IRWXU)
        except OSError:
            return False
        self._was_closed.setdefault(names, mode)
        return True

    # Beside ------------------------------------------------------------------------------------------------------

    def stage(self, place: Sequence[Names], going: Sequence[Names] = (), *, make_room: bool = False) -> None:
        """Write everything that is to be placed.

        With ``make_room`` what is going, and what now has these names, is deleted first if there is not room for both.

        Raises:
            OSError: it cannot be written.
        """
        if not place and not going:
            return
        self._begin()
        try:
            self._make_all(place)
        except OSError as error:
            if not make_room or error.errno not in _FULL:
                raise
            self._empty()
            self._made_room = True
            self.clear(going)
            self.clear(names for names in place if self._entries[names].kind != "directory")
            self._empty()
            self._make_all(place)

    def _clear_leftovers(self) -> None:
        with os.scandir(self._target) as found:
            leftovers = [entry.name for entry in found if entry.name.startswith(_STAGING)]
        for name in leftovers:
            _remove(self._target, name)  # of somebody who died half-way

    def _begin(self) -> None:
        self._staging = f"{_STAGING}{secrets.token_hex(8)}.tmp"
        try:
            os.mkdir(self._staging, 0o700, dir_fd=self._target)
        except PermissionError:
            if not self.open_up(()):
                raise
            os.mkdir(self._staging, 0o700, dir_fd=self._target)
        self._beside = os.open(self._staging, _DIRECTORY, dir_fd=self._target)

    def _make_all(self, place: Sequence[Names]) -> None:
        self._staged.clear()
        self._first_of.clear()
        for number, names in enumerate(place):
            self._make(self._entries[names], str(number))
            self._staged[names] = str(number)

    def _make(self, kept: Kept, name: str) -> None:
        match kept.kind:
            case "file" if kept.shared in self._first_of:
                os.link(self._first_of[kept.shared], name, src_dir_fd=self._beside, dst_dir_fd=self._beside)
            case "file":
                self._make_file(kept, name)
            case "link":
                os.symlink(kept.points_to, name, dir_fd=self._beside)
                self._give(kept, name)
                times = (kept.mtime_ns, kept.mtime_ns)
                os.utime(name, ns=times, dir_fd=self._beside, follow_symlinks=False)
            case "directory":
                os.mkdir(name, 0o700, dir_fd=self._beside)
                self._give(kept, name)
            case _:
                os.mknod(name, stat.S_IFCHR, 0, dir_fd=self._beside)

    def _make_file(self, kept: Kept, name: str) -> None:
        if kept.content is None:
            raise FileNotFoundError(errno.ENOENT, "its content is gone")
        source = self._contents.open(kept.content)
        with closing(source):
            target = os.open(name, _NEW, 0o600, dir_fd=self._beside)
            with closing(target):
                copy_file(source, target, room=_NO_LIMIT)
                self._give(kept, name)
                os.fchmod(target, kept.mode)
                os.utime(target, ns=(kept.mtime_ns, kept.mtime_ns))
        if kept.shared is not None:
            self._first_of[kept.shared] = name

    def _give(self, kept: Kept, name: str) -> None:
        status = os.stat(name, dir_fd=self._beside, follow_symlinks=False)
        owner = self._owner or kept.owner
        if owner == (status.st_uid, status.st_gid):
            return
        try:
            os.chown(name, *owner, dir_fd=self._beside, follow_symlinks=False)
        except OSError:
            # Whose it was before may be nobody whom we may give it to.
            if self._owner is not None:
                raise

    # In place ----------------------------------------------------------------------------------------------------

    def put(self, place: Iterable[Names]) -> None:
        """Give everything that was staged its name, parents first."""
        for names in place:
            with self._failing(names), self._parent(names) as parent:
                try:
                    self._rename_over(names, parent)
                except OSError as error:
                    if error.errno not in _OTHER_KIND:
                        raise
                    self._move_away(names, parent)
                    self._rename_over(names, parent)
                self.changed.add(names)
                self._note(names, os.stat(names[-1], dir_fd=parent, follow_symlinks=False))

    def clear(self, going: Iterable[Names]) -> None:
        """Take names away, with all that lies in them."""
        for names in going:
            with self._failing(names), self._parent(names) as parent, contextlib.suppress(FileNotFoundError):
                self._move_away(names, parent)

    def adjust(self, files: Mapping[Names, os.stat_result]) -> None:
        """Set modes and times of what has the right content, if it still is what was seen."""
        for names, seen in files.items():
            kept = self._entries[names]
            with self._failing(names):
                if kept.kind == "link":
                    times = (kept.mtime_ns, kept.mtime_ns)
                    with self._parent(names) as parent:
                        os.utime(names[-1], ns=times, dir_fd=parent, follow_symlinks=False)
                else:
                    with self._handle(names) as path:
                        if key_of(path.stat()) != key_of(seen):
                            raise OSError(errno.EBUSY, "it changed meanwhile")
                        self._set(kept, path)
                        self._note(names, path.stat())
                self.changed.add(names)

    def finish(self, directories: Iterable[Names]) -> None:
        """Delete what was taken away, and set the directories' modes, times and marks: each after what it holds."""
        self._discard()
        for names in sorted(directories, key=len, reverse=True):
            if names in self.failed:
                continue
            with self._failing(names), self._handle(names) as path:
                kept, status = self._entries[names], path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, "it was replaced meanwhile")
                self._mark(kept, path)
                if status.st_mode & 0o777 != kept.mode or status.st_mtime_ns != kept.mtime_ns:
                    self._set(kept, path)

    def _set(self, kept: Kept, path: Path) -> None:
        # Bits such as a group's that is handed down are the directory's own.
        path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o7000 | kept.mode)
        os.utime(path, ns=(kept.mtime_ns, kept.mtime_ns))

    def _mark(self, kept: Kept, path: Path) -> None:
        wanted = dict(kept.opaque)
        for name in OPAQUE:
            value: bytes | None = None
            with contextlib.suppress(OSError):
                value = os.getxattr(path, name)
            if name in wanted and value != wanted[name]:
                os.setxattr(path, name, wanted[name])
            elif value is not None and name not in wanted:
                os.removexattr(path, name)

    def _note(self, names: Names, status: os.stat_result) -> None:
        content = self._entries[names].content
        if content is not None:
            # Not certain: it changed just now, and may again.
            self._contents.note(key_of(status), content, certain=False)

    # Names -------------------------------------------------------------------------------------------------------

    def _rename_over(self, names: Names, parent: int) -> None:
        self._opening_up(names[:-1], self._staged[names], self._beside, names[-1], parent)

    def _move_away(self, names: Names, parent: int) -> None:
        name = f"old-{secrets.token_hex(8)}"
        try:
            self._opening_up(names[:-1], names[-1], parent, name, self._beside)
        except PermissionError:
            # A directory is written to when it moves.
            if not self.open_up(names):
                raise
            os.rename(names[-1], name, src_dir_fd=parent, dst_dir_fd=self._beside)

    def _opening_up(self, directory: Names, old: str, source: int, new: str, target: int) -> None:
        try:
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
        except PermissionError:
            if not self.open_up(directory):
                raise
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)

    @contextlib.contextmanager
    def _parent(self, names: Names) -> Iterator[int]:
        descriptor = open_beneath(self._target, names[:-1], os.O_PATH | os.O_DIRECTORY)
        with closing(descriptor):
            yield descriptor

    @contextlib.contextmanager
    def _handle(self, names: Names) -> Iterator[Path]:
        """A path that leads to one file or directory for as long as this lasts, whatever happens to its name."""
        descriptor = open_beneath(self._target, names, _HANDLE)
        with closing(descriptor):
            yield Path(f"/proc/self/fd/{descriptor}")

    @contextlib.contextmanager
    def _failing(self, names: Names) -> Iterator[None]:
        """What cannot be done to one name is noted, and does not keep the others from being done."""
        try:
            yield
        except OSError as error:
            self.failed[names] = error.strerror or str(error)

    def _empty(self) -> None:
        clear_directory(self._beside)

    def _discard(self) -> None:
        if self._beside >= 0:
            self._empty()
            os.close(self._beside)
            self._beside = -1
            with contextlib.suppress(OSError):
                os.rmdir(self._staging, dir_fd=self._target)


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(OSError):
        directory = os.open(name, _DIRECTORY, dir_fd=parent)
        with closing(directory):
            clear_directory(directory)
        os.rmdir(name, dir_fd=parent)
