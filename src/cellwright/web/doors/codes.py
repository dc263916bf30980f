"""One-time codes, by which a link signs its reader in: each for two minutes, once, and in memory only.

Given out over the daemon's own socket, which only its user reaches.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

__all__ = ["Codes"]

_VALID_S = 120.0


class Codes:
    """The codes of one daemon that are still good."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def issue(self) -> str:
        """A new code."""
        now = self._clock()
        self._until = {digest: until for digest, until in self._until.items() if until > now}
        code = secrets.token_urlsafe(32)
        self._until[_digest(code)] = now + _VALID_S
        return code

    def redeem(self, code: str) -> bool:
        """Whether a code was good; it no longer is."""
        return self._until.pop(_digest(code), 0.0) > self._clock()


def _digest(code: str) -> bytes:
    """Looked up instead of the code: how long that takes tells nothing about any code."""
    return hashlib.sha256(code.encode(errors="replace")).digest()
