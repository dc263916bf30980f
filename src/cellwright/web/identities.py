"""Who somebody is: by the token that they bring, and by the cookie that they were given for it.

A cookie names somebody and says nothing about what they may do: that is looked up with every request, so that whoever is
removed is out at once.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.people import OWNER, Members, Person
from cellwright.settings.paths import write_private

if TYPE_CHECKING:
    from itsdangerous import URLSafeTimedSerializer

__all__ = ["LASTS_S", "Attempts", "Codes", "Identities", "obtain_key"]

LASTS_S = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Identities:
    """Everybody who may come in at one listener."""

    token: str = field(repr=False)
    """The listener's own, which is its owner's."""
    key: bytes = field(repr=False)
    members: Members

    def with_token(self, token: str) -> Person | None:
        """Whose token that is."""
        is_owner = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        member = self.members.with_token(token)
        if is_owner:
            return self.owner
        return Person(member.name, member.role) if member is not None else None

    def with_cookie(self, cookie: str) -> Person | None:
        """Whose cookie that is, as they are now."""
        unsigned = _unsigned(cookie, self.key)
        if unsigned is None:
            return None
        name, stamp = unsigned
        if stamp != self._stamp(name):
            return None
        if name == OWNER:
            return self.owner
        member = self.members.named(name)
        return Person(name, member.role) if member is not None else None

    def cookie(self, person: Person) -> str:
        """What somebody brings from now on in place of the token."""
        return _cookies(self.key).dumps((person.name, self._stamp(person.name)))

    @property
    def owner(self) -> Person:
        return Person(OWNER, "own")

    def _stamp(self, name: str) -> str | None:
        """What a cookie says besides a name: it is another for whoever comes after a removal, or brings a new token."""
        if name == OWNER:
            return hmac.new(self.key, b"owner " + self.token.encode(), "sha256").hexdigest()[:16]
        member = self.members.named(name)
        return member.stamp if member is not None else None


# Texts that only this storage directory's daemon can have written: itsdangerous signs them.

_KEY_BYTES = 32


def obtain_key(path: Path) -> bytes:
    """The key in a file that only its user can read, made where there is none that is whole."""
    if path.is_file() and len(key := path.read_bytes()) == _KEY_BYTES:
        return key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(_KEY_BYTES)
    write_private(str(path), key)
    return key


@functools.lru_cache
def _cookies(key: bytes) -> URLSafeTimedSerializer:
    from itsdangerous import URLSafeTimedSerializer  # an extra, and needed where the page is open

    return URLSafeTimedSerializer(key, salt="cookie", signer_kwargs={"digest_method": hashlib.sha256})


def _unsigned(cookie: str, key: bytes) -> tuple[str, str | None] | None:
    """Name and stamp in a cookie that was signed here within its time."""
    from itsdangerous import BadSignature  # as above

    try:
        name, stamp = _cookies(key).loads(cookie.encode(errors="replace"), max_age=LASTS_S)
    except BadSignature:
        return None
    return name, stamp


# How long somebody who gave wrong tokens has to wait: longer with each, and forgotten bit by bit.

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
