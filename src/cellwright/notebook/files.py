"""Notebooks on disk: read whole, written whole or not at all, and watched for what others do to them.

The only room of this package that touches the file system, besides ``names``, which creates files through it. What
to do about a change by somebody else is decided elsewhere (see merge).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cellwright.errors import NotebookError, SaveFailed
from cellwright.notebook.document import Document

__all__ = [
    "FileState",
    "changed_since",
    "create_exclusively",
    "file_state",
    "read_notebook",
    "write_atomically",
]

_NEXT_STEPS = {
    errno.ENOSPC: "The disk is full: free some space, then save again",
    errno.EDQUOT: "The disk quota is used up: free some space, then save again",
    errno.EROFS: "The file system is read-only: save the notebook somewhere else",
    errno.EACCES: "Make the directory writable, or save the notebook somewhere else",
    errno.EPERM: "Make the directory writable, or save the notebook somewhere else",
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
    try:
        data, state = _read(path)
    except FileNotFoundError as error:
        raise NotebookError(f"There is no notebook {path}", hint="Check the path, or create it") from error
    except OSError as error:
        raise NotebookError(
            f"Cannot read {path}: {error.strerror}", hint="Check the file's rights"
        ) from error
    return Document.from_bytes(data, name=str(path)), state


def file_state(path: Path) -> FileState | None:
    """What the file is now, or None where there is none."""
    try:
        return _read(path)[1]
    except FileNotFoundError:
        return None


def changed_since(path: Path, state: FileState) -> bool:
    """Whether the content is another than it was then. Reads the file only where its times or size differ."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return True
    if (now.st_size, now.st_mtime_ns, now.st_ino) == (state.size, state.mtime_ns, state.inode):
        return False
    current = file_state(path)
    return current is None or current.digest != state.digest


def write_atomically(path: Path, data: bytes) -> FileState:
    """Put this content in place of the file's, so that a reader or a crash sees the old or the new, never a part.

    The file keeps its mode. A symbolic link stays, and the file that it points to is written.

    Raises:
        SaveFailed: the file is as it was before.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))  # noqa: TRY301  # worded with the others below
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
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return _create_in_place(path, data)
            _sync_directory(path.parent)
    except OSError as error:
        raise _save_failed(path, error) from error
    return True


@contextlib.contextmanager
def _temporary(directory: Path, data: bytes, *, mode: int | None) -> Iterator[tuple[Path, FileState]]:
    """A synced file of this content beside the target; gone afterwards, unless it was renamed."""
    path = directory / f".cellwright-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            state = _state(data, os.fstat(descriptor))
        yield path, state
    finally:
        path.unlink(missing_ok=True)


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


def _read(path: Path) -> tuple[bytes, FileState]:
    with path.open("rb") as file:
        # Taken before reading: a write in between then shows as a change, never as the state of this content.
        status = os.fstat(file.fileno())
        data = file.read()
    return data, _state(data, status)


def _state(data: bytes, status: os.stat_result) -> FileState:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return FileState(digest, status.st_size, status.st_mtime_ns, status.st_ino)


def _mode(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _sync_directory(directory: Path) -> None:
    """Make the new name last. Some network file systems cannot, and the rename is done all the same."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _save_failed(path: Path, error: OSError) -> SaveFailed:
    step = _NEXT_STEPS.get(error.errno or 0, "Check the disk and the directory, then save again")
    return SaveFailed(f"Cannot save {path}: {error.strerror or error}", hint=step)
