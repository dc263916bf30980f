"""Notebooks on disk: read whole, written whole or not at all, and watched for what others do to them.

The only room of this package that touches the file system, besides ``files``, which creates files through it. What
to do about a change by somebody else is decided elsewhere (see merge).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from cellwright.errors import NotebookError, SaveFailed
from cellwright.notebook.document import Document

__all__ = [
    "FileState",
    "changed_since",
    "create_exclusively",
    "create_notebook_file",
    "file_state",
    "read_notebook",
    "remove_leftovers",
    "slug",
    "write_atomically",
]
_PREFIX = ".cellwright-"

_SUFFIX = ".tmp"

_NEXT_STEPS = {
    errno.ENOSPC: "The disk is full: free some space, then save again",
    errno.EDQUOT: "The disk quota is used up: free some space, then save again",
    errno.EROFS: "The file system is read-only: save the notebook somewhere else",
    errno.EACCES: "Make the file and its directory writable, or save the notebook somewhere else",
    errno.EPERM: "Make the file and its directory writable, or save the notebook somewhere else",
    errno.ENOENT: "Create the directory, then save again",
}

# A file system without hard links says so with one of these.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class FileState:
    """What a file was when it was read or written."""

    digest: str
    size: int
    mtime_ns: int
    inode: int


def read_notebook(path: Path) -> tuple[Document, FileState]:
    """Read a notebook, and what its file was at that moment.

    Raises:
        NotebookError: the file cannot be read.
        NotebookFormatError: it is not a notebook that this version reads.
    """
    found = _read(path)
    if found is None:
        raise NotebookError(f"There is no notebook {path}", hint="Check the path, or create it")
    data, state = found
    return Document.from_bytes(data, name=str(path)), state


def file_state(path: Path) -> FileState | None:
    """What the file is now, or None where there is none.

    Raises:
        NotebookError: the file cannot be read.
    """
    found = _read(path)
    return None if found is None else found[1]


def changed_since(path: Path, state: FileState) -> bool:
    """Whether the file's content is another than it was then, or there is none any more.

    Raises:
        NotebookError: the file cannot be read.
    """
    current = file_state(path)
    return current is None or current.digest != state.digest


def write_atomically(path: Path, data: bytes, *, follow: bool = True) -> FileState:
    """Put this content in place of the file's, so that a reader or a crash sees the old or the new, never a part.

    The file keeps its mode, and one that is read-only is left alone. A symbolic link stays, and the file that it
    points to is written; without ``follow``, where code may have put it there, the link is replaced.

    Raises:
        SaveFailed: the file is as it was before.
    """
    target = Path(os.path.realpath(path)) if follow else path
    try:
        if not follow and _is_foreign(path):
            path.unlink(missing_ok=True)
        _check_writable(target)
        with _temporary(target.parent, data, mode=_mode(target)) as (temporary, state):
            temporary.replace(target)
            _sync_directory(target.parent)
    except OSError as error:
        raise _save_failed(path, error) from error
    return state


def create_exclusively(path: Path, data: bytes) -> bool:
    """Create a file with this content, whole, unless the name is taken; tell whether it was created.

    Raises:
        SaveFailed: the file could not be written, and there is none.
    """
    try:
        with _temporary(path.parent, data, mode=None) as (temporary, _):
            created = _link(temporary, path, data)
            _sync_directory(path.parent)
    except OSError as error:
        raise _save_failed(path, error) from error
    return created


def remove_leftovers(directory: Path, *, older_than_s: float = 3600) -> int:
    """Delete the temporary files of saves that were killed half-way, and tell how many there were."""
    limit = time.time() - older_than_s
    removed = 0
    for path in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime <= limit:
                path.unlink()
                removed += 1
    return removed


@contextlib.contextmanager
def _temporary(directory: Path, data: bytes, *, mode: int | None) -> Iterator[tuple[Path, FileState]]:
    """A synced file of this content beside the target; gone afterwards, unless it was renamed."""
    path = directory / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # Some file systems have no modes to set: asking for the mode that is there would fail for nothing.
            if mode is not None and mode != stat.S_IMODE(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            state = _state(data, os.fstat(descriptor))
        yield path, state
    finally:
        path.unlink(missing_ok=True)


def _link(temporary: Path, path: Path, data: bytes) -> bool:
    """Give the file its name unless that is taken, also where there are no hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_in_place(path, data)
    return True


def _create_in_place(path: Path, data: bytes) -> bool:
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def _is_foreign(path: Path) -> bool:
    """Whether something other than a file lies there, which only the session's code can have put there."""
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _read(path: Path) -> tuple[bytes, FileState] | None:
    """The content of a file; nothing where it was replaced by a link, which may lead anywhere, or by a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            # Taken before reading: a write in between then shows as a change, never as the state of this content.
            status = os.fstat(file.fileno())
            if stat.S_ISFIFO(status.st_mode):
                return None
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise NotebookError(
            f"Cannot read {path}: {error.strerror}", hint="Check that it is a file that you may read"
        ) from error
    return data, _state(data, status)


def _state(data: bytes, status: os.stat_result) -> FileState:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return FileState(digest, status.st_size, status.st_mtime_ns, status.st_ino)


def _check_writable(target: Path) -> None:
    """Refuse what a rename would do all the same: replace a read-only file, or a link that leads to itself."""
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")


def _mode(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _sync_directory(directory: Path) -> None:
    """Make the new name last. Some network file systems cannot, and the rename is done all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _save_failed(path: Path, error: OSError) -> SaveFailed:
    step = _NEXT_STEPS.get(error.errno or 0, "Check the disk and the directory, then save again")
    return SaveFailed(f"Cannot save {path}: {error.strerror or error}", hint=step)


# Names for new notebooks: a time, a readable slug of the problem in any language, and never one that is
# taken.

# A name may have 255 bytes; this leaves room for the time, a number after a collision, and the suffix.
_MAX_SLUG_BYTES = 200

_FALLBACK = "notebook"

_stamps = re.compile(r"^(?:\d{8}_\d{6}_)+(?=.)")

_reserved = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)")  # on Windows, with which a directory may be shared


def slug(text: str, *, max_length: int = 60) -> str:
    """A part of a file name that says what the text is about: letters, marks and digits of any script, and ``_``."""
    normal = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    words = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in normal).split()
    short = "_".join(words)[:max_length]
    # Cutting bytes may cut a character in two; what is left of it is dropped.
    fitting = short.encode()[:_MAX_SLUG_BYTES].decode(errors="ignore").strip("_")
    if not fitting or _reserved.fullmatch(fitting):
        return "_".join(filter(None, [fitting, _FALLBACK]))
    return fitting


def create_notebook_file(directory: Path, problem: str, *, now: datetime, content: bytes) -> Path:
    """Create ``{time}_{slug}.ipynb`` with this content in the directory, which is made where it is missing.

    Among any number of processes that do so at once each gets a file of its own.

    Raises:
        SaveFailed: the directory or the file could not be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveFailed(
            f"Cannot create the directory {directory}: {error.strerror}", hint="Choose another root directory"
        ) from error
    # The name of another notebook of ours, which an import or a copy brings along, has its own time in front.
    stem = f"{now:%Y%m%d_%H%M%S}_{slug(_stamps.sub('', problem.strip()))}"
    for number in count(1):
        path = directory / f"{stem}{f'_{number}' if number > 1 else ''}.ipynb"
        # Looked at first: a file that is written and synced only to find its name taken costs a hundred times more.
        if not path.exists() and create_exclusively(path, content):
            return path
    raise AssertionError  # count() never ends
