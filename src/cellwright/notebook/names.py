"""Names for new notebooks: a time, a readable slug of the problem in any language, and never one that is taken."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from itertools import count
from pathlib import Path

from cellwright.errors import SaveFailed
from cellwright.notebook.files import create_exclusively

__all__ = ["create_notebook_file", "slug"]

# A name may have 255 bytes; this leaves room for the time, a number after a collision, and the suffix.
_MAX_SLUG_BYTES = 200
_FALLBACK = "notebook"
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
    stem = f"{now:%Y%m%d_%H%M%S}_{slug(problem)}"
    for number in count(1):
        path = directory / f"{stem}{f'_{number}' if number > 1 else ''}.ipynb"
        # Looked at first: a file that is written and synced only to find its name taken costs a hundred times more.
        if not path.exists() and create_exclusively(path, content):
            return path
    raise AssertionError  # count() never ends
