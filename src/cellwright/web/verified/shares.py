"""Links by which people who are not signed in see one notebook's verified view: given, looked up, taken back.

A link is known by its hash only: whoever reads the file cannot use it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from cellwright.notebook import write_atomically

__all__ = ["Share", "Shares"]

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Share:
    """A link that was given."""

    id: str
    """The beginning of its hash."""
    session_id: str
    by: str
    until: float


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
            held = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        shares = {key: Share(**value) for key, value in held.items()}
        return {key: share for key, share in shares.items() if share.until > now}

    def _write(self, shares: dict[str, Share]) -> None:
        self._path.touch(mode=0o600)
        write_atomically(self._path, json.dumps({key: asdict(one) for key, one in shares.items()}).encode())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
