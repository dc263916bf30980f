"""How long somebody who gave wrong tokens has to wait: longer with each, and forgotten bit by bit.

A few mistakes in a minute cost nothing. Beyond that, the wait doubles until it is as long as it takes to forget one, so
that nobody is kept out for long by whoever shares an address with them. Wrong tokens from everywhere are counted as well.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Attempts", "Codes"]
_MOST_ADDRESSES = 1_000

_MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many wrong tokens a minute cost nothing."""

    free: int

    @property
    def forgets_in_s(self) -> float:
        """How long until one of them is forgotten."""
        return 60 / self.free


HERE = Allowance(5)

EVERYWHERE = Allowance(60)


@dataclass(frozen=True, slots=True)
class Tally:
    """Wrong tokens that are not forgotten, as of the last one."""

    count: float = 0.0
    at: float = 0.0

    def with_another(self, now: float, allowance: Allowance) -> Tally:
        left = max(0.0, self.count - (now - self.at) / allowance.forgets_in_s)
        return Tally(left + 1, now)

    def wait_s(self, now: float, allowance: Allowance) -> float:
        """How long until the next token is looked at."""
        beyond = round(self.count) - allowance.free
        return max(0.0, self.at + 2.0 ** min(beyond, _MOST_DOUBLINGS) - now) if beyond >= 0 else 0.0


class Attempts:
    """The wrong tokens that one daemon was given."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._everywhere = Tally()
        self._by_address: dict[str, Tally] = {}

    def wait_s(self, address: str) -> float:
        """How long somebody has to wait."""
        now = self._clock()
        here = self._by_address.get(address, Tally())
        return max(here.wait_s(now, HERE), self._everywhere.wait_s(now, EVERYWHERE))

    def wrong(self, address: str) -> None:
        """A wrong token came from there."""
        now = self._clock()
        self._everywhere = self._everywhere.with_another(now, EVERYWHERE)
        # Taken out and put in again, so that the oldest is the first.
        self._by_address[address] = self._by_address.pop(address, Tally()).with_another(now, HERE)
        if len(self._by_address) > _MOST_ADDRESSES:
            del self._by_address[next(iter(self._by_address))]


# One-time codes, by which a link signs its reader in: each for two minutes, once, and in memory only.

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
