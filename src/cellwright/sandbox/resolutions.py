"""What was resolved lately: the same request, beside the same packages, needs no second resolution. Blocking.

A file for each request beside the store of layers, named by all that its answer depends on. Only ours to write; an answer
that cannot be read is none. New versions of packages are found when an answer is too old.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from pathlib import Path

from cellwright.errors import PackageFailed
from cellwright.sandbox.layers import Lock

__all__ = ["Resolutions"]

SUFFIX = "-resolved"
LASTS_S = 24 * 3600


class Resolutions:
    """The memory of one request."""

    def __init__(self, store: Path, request: str) -> None:
        """``request`` says all that the answer depends on."""
        # Beside it: what is in the store, sessions see.
        self._directory = store.with_name(f"{store.name}{SUFFIX}")
        self._file = self._directory / f"{hashlib.sha256(request.encode()).hexdigest()}.json"

    def recall(self) -> tuple[Lock, list[str]] | None:
        """What was found then: the packages to add, and what was there already."""
        try:
            if not 0 <= time.time() - self._file.stat().st_mtime <= LASTS_S:
                return None
            known = json.loads(self._file.read_text())
            return Lock.parse(known["lock"]), [str(name) for name in known["there"]]
        except (OSError, ValueError, KeyError, TypeError, PackageFailed):
            return None

    def remember(self, lock: Lock, there: list[str]) -> None:
        """Keep an answer; where that cannot be done it is found again."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._directory / f"{secrets.token_hex(8)}.tmp"
            fresh.write_text(json.dumps({"lock": lock.text(), "there": there}))
            os.replace(fresh, self._file)  # noqa: PTH105  # at once, in place of an older one
