"""Empties a directory that code filled to be hard to empty: too deep to walk, closed to its owner, full of links."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

__all__ = ["clear_directory"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def clear_directory(root: int) -> int:
    """Delete everything in an open directory, and tell how many entries could not be deleted.

    Directories inside others are first moved to the top, so that neither the depth of the tree nor the length of
    its paths matters and at most two descriptors are open. No link is followed. Nobody may be writing there any
    more, else this may leave what is new.
    """
    stuck: set[str] = set()
    while ahead := [name for name in _names(root) if name not in stuck]:
        for name in ahead:
            if not _remove(root, name):
                stuck.add(name)
    return len(stuck)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _remove(root: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=root)
    except IsADirectoryError:
        return _dissolve(root, name)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _dissolve(root: int, name: str) -> bool:
    """Delete a directory's files, move its directories to the top, and delete it."""
    try:
        descriptor = _open(root, name)
    except OSError:
        return False
    try:
        for inside in _names(descriptor):
            _unlink_or_lift(root, descriptor, inside)
        os.rmdir(name, dir_fd=root)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _unlink_or_lift(root: int, directory: int, name: str) -> None:
    """What can be neither deleted nor moved stays, and so does the directory that it is in."""
    with contextlib.suppress(OSError):
        try:
            os.unlink(name, dir_fd=directory)
        except IsADirectoryError:
            # Moving a directory writes to it, so it must be open to us first.
            os.close(_open(directory, name))
            os.rename(name, secrets.token_hex(16), src_dir_fd=directory, dst_dir_fd=root)


def _open(parent: int, name: str) -> int:
    """A directory, open for reading, even where its owner (us) has no permission: it is given that first."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with contextlib.suppress(OSError):
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(".", _DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)
