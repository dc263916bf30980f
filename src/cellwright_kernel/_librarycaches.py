"""A kernel's side of the caches that libraries fill at their first use (see ``cellwright.kernels._interpreters``)."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

__all__ = ["hold_notices", "link_caches", "look_anew"]

# The logger and the beginning of what it says where a cache must be filled after all.
NOTICES = {"matplotlib.font_manager": "Matplotlib is building the font cache"}


def link_caches(directories: Iterable[str]) -> None:
    """Link prepared caches into this kernel's home, where libraries look for them and may add to them."""
    # Best effort: a library without its cache fills it itself.
    for directory in directories:
        with contextlib.suppress(OSError):
            _link_all(directory, os.path.expanduser("~/.cache"))


def _link_all(directory: str, home: str) -> None:
    for above, _, names in os.walk(directory):
        target = os.path.normpath(os.path.join(home, os.path.relpath(above, directory)))
        os.makedirs(target, exist_ok=True)
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.symlink(f"{above}/{name}", f"{target}/{name}")


def look_anew() -> None:
    """Have libraries that the fork server has loaded look for their caches in this kernel's home, not in the user's."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    if (jedi := sys.modules.get("jedi.settings")) is not None:
        vars(jedi)["cache_directory"] = str(caches / "jedi")
    if (parso := sys.modules.get("parso.cache")) is not None:
        vars(parso)["_default_cache_path"] = caches / "parso"


def hold_notices() -> None:
    """Keep notices of a cache that is being filled out of cells' outputs: how long it took is no result."""
    for name, beginning in NOTICES.items():
        logging.getLogger(name).addFilter(partial(_says_more, beginning))


def _says_more(notice: str, record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(notice)
