"""Cell ids: which are valid, how new ones are made, and how cells that came without one get theirs."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Container
from itertools import count

__all__ = ["derived_id", "is_valid_id", "new_id"]

_valid = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def is_valid_id(value: object) -> bool:
    """Whether nbformat 4.5 accepts this as a cell's id."""
    return isinstance(value, str) and _valid.fullmatch(value) is not None


def new_id(taken: Container[str]) -> str:
    """A random id in Jupyter's form that none of the others has."""
    while (candidate := uuid.uuid4().hex[:8]) in taken:
        pass
    return candidate


def derived_id(seed: str, taken: Container[str]) -> str:
    """An id that follows from the content alone.

    Reading the same file twice, or merging the same documents twice, must give the same ids.
    """
    for attempt in count():
        digest = hashlib.sha256(f"{attempt}:{seed}".encode("utf-8", "backslashreplace")).hexdigest()
        if (candidate := digest[:8]) not in taken:
            return candidate
    raise AssertionError  # count() never ends
