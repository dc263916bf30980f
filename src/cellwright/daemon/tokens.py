"""The bearer token of the TCP listeners: given, or made once and kept where only its user can read it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cellwright.errors import CellwrightError

__all__ = ["TokenRefused", "obtain_token", "read_token"]

_SHORTEST = 16


class TokenRefused(CellwrightError):
    """A token that would protect nothing."""

    code = "token_refused"


def obtain_token(given: str | None, path: Path) -> tuple[str, Path | None]:
    """The token that the settings give, else the one in the file, which is made on need; and that file, if it is used.

    Raises:
        TokenRefused: it is too short, or others can read its file.
    """
    if given is not None:
        return given, None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_token(path), path
    token = secrets.token_urlsafe(32)
    with open(fd, "w", encoding="ascii") as file:  # a descriptor, opened 0600 from the start
        file.write(token + "\n")
    return token, path


def read_token(path: Path) -> str:
    """The token in a file.

    Raises:
        TokenRefused: it is too short, or others can read its file.
    """
    status = path.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise TokenRefused(
            f"Others can read the token in {path}", hint=f"Run `chmod 600 {path}`, or remove the file"
        )
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < _SHORTEST:
        raise TokenRefused(
            f"The token in {path} is shorter than {_SHORTEST} characters",
            hint="Remove the file: a new one is made",
        )
    return token
