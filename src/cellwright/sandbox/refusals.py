"""What a file system's refusals mean to whoever asked: which of our errors, on what, and the next step. Acts on nothing."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from cellwright.errors import FileFailed, FileRefused, FileTooLarge, NoSuchFile, SandboxError

__all__ = ["LINK_HINT", "failure", "told", "too_large"]

LINK_HINT = (
    "Only what lies in the working directory itself can be used: copy the file there under its own name"
)
_NEXT_STEPS = {
    errno.ENOSPC: "The working directory is full: delete files there, or raise its quota",
    errno.EDQUOT: "The working directory is full: delete files there, or raise its quota",
    errno.EROFS: "The file system is read-only: write somewhere else",
    errno.EACCES: "Change the permissions of the file and of its directory",
    errno.EPERM: "Change the permissions of the file and of its directory",
    errno.ENAMETOOLONG: "Use a shorter name",
    errno.EAGAIN: "Another program holds the file: close it there, then try again",
    errno.EISDIR: "Name a file inside it",
    errno.ENOTDIR: "A part of the path is a file: name something else",
    errno.ENOTEMPTY: "Remove what it holds first",
}


@contextlib.contextmanager
def told(action: str, path: str) -> Iterator[None]:
    """Turn what the file system refuses into an error of ours."""
    try:
        yield
    except OSError as error:
        raise failure(action, path, error) from error


def failure(action: str, path: str, error: OSError) -> SandboxError:
    """The error that says what could not be done to which path."""
    match error.errno:
        case errno.ENOENT:
            return NoSuchFile(
                f"Cannot {action} {path}: there is none",
                hint="List its directory; paths begin at the top of the data directory, or of the session's",
            )
        case errno.ELOOP:
            return FileRefused(f"Cannot {action} {path}: a symbolic link stands in the way", hint=LINK_HINT)
        case errno.EXDEV:
            return FileRefused(f"Cannot {action} {path}: it lies on another mount", hint=LINK_HINT)
        case errno.ENXIO:
            return FileRefused(f"{path} is a pipe, socket or device, not a file", hint="Name a plain file")
    step = _NEXT_STEPS.get(error.errno or 0, "Check the working directory, then try again")
    return FileFailed(f"Cannot {action} {path}: {error.strerror or error}", hint=step)


def too_large(path: str, size: int, limit: int) -> FileTooLarge:
    """The error of a file that is larger than may be handled."""
    return FileTooLarge(
        f"{path} has at least {size:,} bytes, and {limit:,} may be handled at once",
        hint="Read it in parts, or write less into it",
    )
