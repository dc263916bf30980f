"""Which clients the user let in, and by which tokens: ``oauth.json`` in the storage directory.

Of a token only its digest is kept. Tokens are long and random, so that a plain digest reveals nothing about them. A writer
holds the file's lock; a reader sees the file whole, and sees a change at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.paths import write_private

__all__ = ["Access", "Client", "Grant", "Grants", "GrantsUnreadable", "Tokens", "digest"]

_log = logging.getLogger(__name__)

_MOST_CLIENTS = 200
_MOST_GRANTS = 200
_MOST_SPENT = 20
"""Refresh tokens of one grant that are known to have been used."""
_MOST_ACCESS = 8


class GrantsUnreadable(CellwrightError):
    """The file of what was granted cannot be read or written."""

    code = "grants_unreadable"


class Client(msgspec.Struct, frozen=True):
    """A program that was let in at least once."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]


class Access(msgspec.Struct, frozen=True):
    """One access token, but for itself."""

    scopes: tuple[str, ...]
    until: float


class Grant(msgspec.Struct, frozen=True):
    """What the user once allowed a client, and the tokens that came of it."""

    id: str
    client_id: str
    scopes: tuple[str, ...]
    resource: str
    granted_at: float
    refresh: str
    """The digest of the refresh token."""
    until: float
    """When it ends, unless the refresh token is used before."""
    access: dict[str, Access]
    """Access tokens by their digests."""
    spent: tuple[str, ...] = ()
    """Digests of refresh tokens that were used: a second use means that a token was stolen."""


class Tokens(msgspec.Struct, frozen=True):
    """The tokens for a client, in the clear this once: only their digests are kept."""

    grant: Grant
    access: str
    refresh: str


class _Book(msgspec.Struct):
    clients: dict[str, Client] = {}
    grants: dict[str, Grant] = {}


_decode = msgspec.json.Decoder(_Book).decode


class Grants:
    """The grants in the file as it is now."""

    def __init__(
        self,
        storage: Path,
        *,
        token_s: float = 3600.0,
        idle_s: float = 30 * 86_400.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = storage / "oauth.json"
        self._token_s, self._idle_s = token_s, idle_s
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        self._book = _Book()

    def client(self, client_id: str) -> Client | None:
        return self._now().clients.get(client_id)

    def all(self) -> list[tuple[Client, Grant]]:
        """Every grant that has not ended, the oldest first, with its client."""
        book, now = self._now(), self._clock()
        grants = sorted(book.grants.values(), key=lambda grant: grant.granted_at)
        return [(book.clients[grant.client_id], grant) for grant in grants if grant.until > now]

    def with_access(self, token: str) -> tuple[Grant, Access] | None:
        """The grant of an access token that is good."""
        key, now = digest(token), self._clock()
        for grant in self._now().grants.values():
            if (access := grant.access.get(key)) is not None and access.until > now:
                return grant, access
        return None

    def with_refresh(self, token: str) -> Grant | None:
        """The grant of a refresh token that is good, or was before it was used."""
        key, now = digest(token), self._clock()
        for grant in self._now().grants.values():
            if key == grant.refresh or key in grant.spent:
                return grant if grant.until > now else None
        return None

    def begin(self, client: Client, scopes: tuple[str, ...], resource: str) -> Tokens:
        """Let a client in.

        Raises:
            GrantsUnreadable: that cannot be kept.
        """
        fresh = Grant(secrets.token_hex(8), client.id, scopes, resource, self._clock(), "", 0.0, {})
        with self._changing() as book:
            book.clients.pop(client.id, None)
            book.clients[client.id] = client
            return self._issue(book, fresh, scopes)

    def renew(self, grant: Grant, scopes: tuple[str, ...]) -> Tokens | None:
        """New tokens in place of those that a grant has; None where others were given out for it meanwhile.

        Raises:
            GrantsUnreadable: that cannot be kept.
        """
        with self._changing() as book:
            if (current := book.grants.get(grant.id)) is None or current.refresh != grant.refresh:
                return None
            spent = (*current.spent, current.refresh)[-_MOST_SPENT:]
            return self._issue(book, msgspec.structs.replace(current, spent=spent), scopes)

    def end(self, grant_id: str) -> bool:
        """Take back what a grant allowed, at once; whether there was one.

        Raises:
            GrantsUnreadable: that cannot be kept.
        """
        with self._changing() as book:
            return book.grants.pop(grant_id, None) is not None

    def _issue(self, book: _Book, grant: Grant, scopes: tuple[str, ...]) -> Tokens:
        access, refresh, now = secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._clock()
        good = {key: one for key, one in grant.access.items() if one.until > now}
        good[digest(access)] = Access(scopes, now + self._token_s)
        issued = msgspec.structs.replace(
            grant,
            refresh=digest(refresh),
            until=now + self._idle_s,
            access=dict(list(good.items())[-_MOST_ACCESS:]),
        )
        book.grants.pop(grant.id, None)
        book.grants[grant.id] = issued
        return Tokens(issued, access, refresh)

    def _now(self) -> _Book:
        try:
            status = self._file.stat()
            seen = status.st_ino, status.st_mtime_ns
        except OSError:
            seen = None
        if seen != self._seen:
            try:
                self._book = self._read()
            except GrantsUnreadable as error:
                _log.warning("grants_unreadable %s", error)
                self._book = _Book()
            self._seen = seen
        return self._book

    def _read(self) -> _Book:
        try:
            return _decode(self._file.read_bytes())
        except FileNotFoundError:
            return _Book()
        except (OSError, msgspec.MsgspecError) as error:
            raise GrantsUnreadable(
                f"{self._file} cannot be read: {error}", hint="Remove it: clients then sign in again"
            ) from error

    @contextmanager
    def _changing(self) -> Iterator[_Book]:
        """What was granted, to be changed; what is there at the end is kept, but for what is too old or too much."""
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._file.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                book, now = self._read(), self._clock()
                yield book
                going_on = [(key, one) for key, one in book.grants.items() if one.until > now]
                book.grants = dict(going_on[-_MOST_GRANTS:])
                used = {grant.client_id for grant in book.grants.values()}
                # Those with a grant stay whatever comes; of the others the latest.
                others = [key for key in book.clients if key not in used]
                for key in others[: max(0, len(book.clients) - _MOST_CLIENTS)]:
                    del book.clients[key]
                write_private(str(self._file), msgspec.json.encode(book))
        except OSError as error:
            raise GrantsUnreadable(
                f"{self._file} cannot be written: {error}", hint="Make room for it, and try again"
            ) from error


def digest(token: str) -> str:
    """The digest of a token, kept and looked up in its place: the time of a look-up reveals nothing about a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
