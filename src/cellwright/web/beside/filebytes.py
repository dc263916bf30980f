"""A file's bytes as an answer: to keep, or a picture to look at; never a document that runs anything here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cellwright.tools.files.kinds import kind_of_file
from cellwright.web.downloads import attachment

__all__ = ["FileBytes", "picture_type"]

_CHUNK = 256 << 10
_HEAD = 4_096
_PICTURES = {
    "PNG image": "image/png",
    "JPEG image": "image/jpeg",
    "GIF image": "image/gif",
    "WebP image": "image/webp",
}
_KEPT_APART = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}


def picture_type(name: str, head: bytes) -> str | None:
    """What kind of picture a browser would show a file as, by what it begins with; None where it is none."""
    kind = kind_of_file(name, head)
    if kind.form == "text" and name.lower().endswith(".svg"):
        return "image/svg+xml"
    return _PICTURES.get(kind.called)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    descriptor: int
    size: int


class FileBytes(Response):
    """Sends an open file, and closes it whatever happens."""

    def __init__(self, descriptor: int, size: int, name: str, *, shown: bool) -> None:
        picture = picture_type(name, os.pread(descriptor, _HEAD, 0)) if shown else None
        headers = dict(_KEPT_APART)
        if picture is None:
            headers |= attachment(name)
        super().__init__(media_type=picture or "application/octet-stream", headers=headers)
        # How much there will be is not promised: code may write to it meanwhile.
        del self.headers["content-length"]
        self._file = _OpenFile(descriptor, size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            sent = 0
            while sent < self._file.size:
                read = partial(os.pread, self._file.descriptor, min(_CHUNK, self._file.size - sent), sent)
                part = await anyio.to_thread.run_sync(read)
                if not part:
                    break
                await send({"type": "http.response.body", "body": part, "more_body": True})
                sent += len(part)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(self._file.descriptor)
