"""A kernel's side of the caches that libraries fill at their first use (see ``cellwright.kernels._interpreters``)."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from functools import partial

__all__ = ["copy_caches", "hold_notices"]

# The logger and the beginning of what it says where a cache must be filled after all.
NOTICES = {"matplotlib.font_manager": "Matplotlib is building the font cache"}


def copy_caches(directory: str) -> None:
    """Copy prepared caches into this kernel's home, where libraries look for them and may change them."""
    # Best effort: a library without its cache fills it itself.
    with contextlib.suppress(OSError, shutil.Error):
        shutil.copytree(directory, os.path.expanduser("~/.cache"), dirs_exist_ok=True)


def hold_notices() -> None:
    """Keep notices of a cache that is being filled out of cells' outputs: how long it took is no result."""
    for name, beginning in NOTICES.items():
        logging.getLogger(name).addFilter(partial(_says_more, beginning))


def _says_more(notice: str, record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(notice)
