"""Texts that only this storage directory's daemon can have written: who is signed in, until when. Pure but for the key.

The key is kept beside the token, so that a page stays signed in while daemons come and go.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Any

from cellwright.settings.paths import write_private

__all__ = ["obtain_key", "sign", "unsign"]

_KEY_BYTES = 32


def obtain_key(path: Path) -> bytes:
    """The key in a file that only its user can read, made where there is none that is whole."""
    if path.is_file() and len(key := path.read_bytes()) == _KEY_BYTES:
        return key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(_KEY_BYTES)
    write_private(str(path), key)
    return key


def sign(about: dict[str, Any], key: bytes) -> str:
    """Data with a signature, as a cookie can hold it."""
    body = base64.urlsafe_b64encode(json.dumps(about, separators=(",", ":")).encode()).decode().rstrip("=")
    return f"{body}.{_signature(body, key)}"


def unsign(text: str, key: bytes, now: float) -> dict[str, Any] | None:
    """The data, where the signature is right and ``until`` has not passed."""
    body, _, signature = text.partition(".")
    if not hmac.compare_digest(_signature(body, key).encode(), signature.encode(errors="replace")):
        return None
    about: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return about if about.get("until", 0) > now else None


def _signature(body: str, key: bytes) -> str:
    return hmac.new(key, body.encode(errors="replace"), hashlib.sha256).hexdigest()
