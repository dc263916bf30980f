"""Links by which people who are not signed in see one notebook's verified view: given, looked up, taken back.

A link is known by its hash only: whoever reads the file cannot use it.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.paths import write_private

__all__ = ["Share", "Shares", "SharesUnreadable", "SharesUnwritable"]

_DAY_S = 86_400


class SharesUnreadable(CellwrightError):
    """The file that has the links is damaged."""

    code = "shares_unreadable"


class SharesUnwritable(CellwrightError):
    """The file that has the links takes no other."""

    code = "shares_unwritable"


class Share(msgspec.Struct, frozen=True):
    """A link that was given."""

    id: str
    """The beginning of its hash."""
    session_id: str
    by: str
    until: float


_decode = msgspec.json.Decoder(dict[str, Share]).decode


class Shares:
    """The links of a storage directory, in one file that only its user can read."""

    def __init__(self, storage: Path) -> None:
        self._path = storage / "shares.json"

    def give(self, session_id: str, *, by: str, days: int, now: float) -> str:
        """A new link's secret, told this once."""
        token = secrets.token_urlsafe(24)
        kept = self._read(now)
        kept[_hash(token)] = Share(_hash(token)[:12], session_id, by, now + days * _DAY_S)
        self._write(kept)
        return token

    def find(self, token: str, *, now: float) -> Share | None:
        """What a link leads to, while it holds."""
        return self._read(now).get(_hash(token))

    def of(self, session_id: str, *, now: float) -> list[Share]:
        """The links to one session."""
        return [share for share in self._read(now).values() if share.session_id == session_id]

    def take_back(self, session_id: str, share_id: str, *, now: float) -> None:
        """End a link at once."""
        kept = self._read(now)
        self._write(
            {key: one for key, one in kept.items() if (one.session_id, one.id) != (session_id, share_id)}
        )

    def _read(self, now: float) -> dict[str, Share]:
        try:
            shares = _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise SharesUnreadable(
                f"{self._path} cannot be read: {error}", hint="Mend it, or remove it and share again"
            ) from error
        return {key: share for key, share in shares.items() if share.until > now}

    def _write(self, shares: dict[str, Share]) -> None:
        try:
            write_private(str(self._path), msgspec.json.encode(shares))
        except OSError as error:
            raise SharesUnwritable(
                f"{self._path} cannot be written: {error}",
                hint="No link was changed: make room for it, and try again",
            ) from error


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
