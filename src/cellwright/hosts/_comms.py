"""Checks what a kernel's comms say before it is passed on, and bounds how much that may be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

__all__ = ["COMMS", "CommAllowance", "comm_of"]

COMMS = frozenset({"comm_open", "comm_msg", "comm_close"})

_BYTES = 16 << 20
_BYTES_PER_S = 1 << 20

# Whoever folds or writes a state goes down as deep as it does.
_MAX_DEPTH = 60

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class CommAllowance:
    """Bounds what comms may add to the journal; kernels of ours merge what comes too fast before it gets here."""

    clock: Callable[[], float] = time.monotonic
    _left: float = _BYTES
    _at: float = field(default_factory=time.monotonic)

    def admit(self, size: int) -> bool:
        """Whether a message of this size may pass."""
        now = self.clock()
        self._left = min(_BYTES, self._left + (now - self._at) * _BYTES_PER_S)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True


def comm_of(content: bytes) -> bytes | None:
    """What a comm said, as it may be passed on; None where it cannot be read."""
    try:
        return content if _depth(_decode(content)) <= _MAX_DEPTH else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _depth(said: Any) -> int:
    depth, level = 0, [said]
    while level and depth <= _MAX_DEPTH:
        depth += 1
        inside = (
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        )
        level = [value for values in inside for value in values if isinstance(value, dict | list)]
    return depth
