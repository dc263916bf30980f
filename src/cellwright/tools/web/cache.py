"""Answers that may be used again, on disk within a bound. Which may, and for how long, is what their headers say.

A cache of one user's own: it keeps what is ``private``, never what says ``no-store``. Blocking, like all file work.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path

import msgspec

from cellwright.tools.web.client import Answer

__all__ = ["Kept", "WebCache", "freshness_s", "may_keep"]

_LONGEST_S = 24 * 3600.0
_SHARE = 4
"""One answer may take this part of the whole at most."""
_KEPT_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "vary",
)
_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')


class Kept(msgspec.Struct, frozen=True):
    """One answer, when it came, and for how long it needs no asking."""

    url: str
    address: str
    """Where it came from; whether that may still be asked is for the rules of today."""
    accept: str
    stored_at: float
    fresh_s: float
    headers: dict[str, str]
    body: bytes

    @property
    def answer(self) -> Answer:
        return Answer(HTTPStatus.OK, self.headers, self.body, self.address)

    @property
    def conditions(self) -> dict[str, str]:
        """Headers that ask whether it is still so; none where the host gave nothing to ask by."""
        asked = {
            "If-None-Match": self.headers.get("etag"),
            "If-Modified-Since": self.headers.get("last-modified"),
        }
        return {name: value for name, value in asked.items() if value is not None}

    def answers(self, accept: str) -> bool:
        """Whether it is what the host would answer to a request for this."""
        varies = {name.strip().lower() for name in self.headers.get("vary", "").split(",")}
        return accept == self.accept or "accept" not in varies

    def is_fresh(self, now: float) -> bool:
        return self.stored_at <= now < self.stored_at + self.fresh_s


def may_keep(answer: Answer) -> bool:
    """Whether an answer may be kept at all, and there is a use in it."""
    directives = _directives(answer.headers)
    if (
        answer.status != HTTPStatus.OK
        or "no-store" in directives
        or answer.headers.get("vary", "").strip() == "*"
    ):
        return False
    return freshness_s(answer.headers) > 0 or "etag" in answer.headers or "last-modified" in answer.headers


def freshness_s(headers: Mapping[str, str]) -> float:
    """For how long an answer needs no asking, as it says itself; nothing is guessed."""
    directives = _directives(headers)
    if "no-cache" in directives:
        return 0.0
    age = _number(headers.get("age", "0"))
    if "max-age" in directives:
        return min(max(_number(directives["max-age"]) - age, 0.0), _LONGEST_S)
    try:
        lasts = parsedate_to_datetime(headers["expires"]) - parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError, TypeError):
        return 0.0
    return min(max(lasts.total_seconds() - age, 0.0), _LONGEST_S)


class WebCache:
    """A directory of answers. The least recently used go first when it is full."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes

    def find(self, url: str) -> Kept | None:
        """What is kept of an address."""
        path = self._path(url)
        try:
            kept = msgspec.msgpack.decode(path.read_bytes(), type=Kept)
            os.utime(path)
        except (OSError, msgspec.MsgspecError):
            return None
        return kept if kept.url == url else None

    def keep(self, url: str, answer: Answer, now: float, *, accept: str) -> None:
        """Keep an answer if it may be kept, else forget what was kept of its address."""
        path = self._path(url)
        if not may_keep(answer) or len(answer.body) * _SHARE > self._max_bytes:
            path.unlink(missing_ok=True)
            return
        headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        kept = Kept(url, answer.address, accept, now, freshness_s(answer.headers), headers, answer.body)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._directory / f".{secrets.token_hex(8)}"
        try:
            beside.write_bytes(msgspec.msgpack.encode(kept))
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        self._make_space()

    def _make_space(self) -> None:
        files = []
        for path in self._directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, url: str) -> Path:
        return self._directory / hashlib.sha256(url.encode()).hexdigest()


def _directives(headers: Mapping[str, str]) -> dict[str, str]:
    found = _DIRECTIVE.findall(headers.get("cache-control", "").lower())
    return {name: value or "" for name, value in found}


def _number(text: str) -> float:
    text = text.strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) <= len("1000000000") else 0.0
