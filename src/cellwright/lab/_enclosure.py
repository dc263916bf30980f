"""Keeps Lab's files within the notebook's folder. Runs in Lab's own server, as a part of its configuration.

The session's code can put links into that folder, and its page can ask Lab for them; Jupyter follows links wherever they
lead. This text is copied to where Lab reads it, and Lab may have an interpreter without us: standard library and Jupyter's
server only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

__all__ = ["enclose", "leads_out"]


def leads_out(root: str, path: str) -> bool:
    """Whether a path in a folder is somewhere else in truth."""
    folder, place = os.path.realpath(root), os.path.realpath(path)
    return os.path.commonpath([folder, place]) != folder


def enclose() -> None:
    """Have Jupyter's server refuse whatever leads out of its folder."""
    from jupyter_server.base.handlers import AuthenticatedFileHandler  # an extra
    from jupyter_server.services.contents.filecheckpoints import FileCheckpoints  # an extra
    from jupyter_server.services.contents.fileio import FileManagerMixin  # an extra
    from tornado.web import HTTPError  # an extra

    find: Callable[..., str] = FileManagerMixin._get_os_path  # noqa: SLF001  # there is no other
    find_checkpoint: Callable[..., str] = FileCheckpoints.checkpoint_path
    find_served = AuthenticatedFileHandler.validate_absolute_path

    class LeadsOut(HTTPError, OSError):
        """To a page, that there is nothing; in a listing, what it leaves out: a link that leads nowhere."""

        errno = errno.ELOOP

    def inside(root: str, path: str) -> str:
        if leads_out(root, path):
            raise LeadsOut(404, "That leads out of the notebook's folder")
        return path

    def get_os_path(self: Any, path: str) -> str:
        return inside(self.root_dir, find(self, path))

    def checkpoint_path(self: Any, checkpoint_id: str, path: str) -> str:
        return inside(self.root_dir, find_checkpoint(self, checkpoint_id, path))

    def validate_absolute_path(self: Any, root: str, absolute_path: str) -> str:
        return inside(root, find_served(self, root, absolute_path))

    setattr(FileManagerMixin, "_get_os_path", get_os_path)  # noqa: B010  # type checkers would have it a method
    setattr(FileCheckpoints, "checkpoint_path", checkpoint_path)  # noqa: B010  # as above
    setattr(AuthenticatedFileHandler, "validate_absolute_path", validate_absolute_path)  # noqa: B010  # as above
