"""Files of the session's directory and of the data directory: listed, looked into, downloaded. Changes none.

Which paths lead where, and that none leads out, is ``tools.files``'s to say.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cellwright.engine import Session
from cellwright.errors import SandboxError
from cellwright.tools.files.file_system import FileInfo, Files, Reading
from cellwright.tools.files.kinds import kind_of_file
from cellwright.web.requests import PageRequest, attachment, page

__all__ = ["ROUTES", "files", "picture_type"]
_MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class FileRow:
    """What the list says of a file."""

    key: str
    """Names it in the page, where a path itself cannot."""
    name: str
    path: str
    type: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which file an address means: below the session's directory, or with ``of=data`` below the shared one."""

    path: str
    of: str
    session: Session | None

    @classmethod
    def by(cls, request: PageRequest) -> _Asked:
        asked, session = request.http.query_params, request.session()
        of = "data" if asked.get("of") == "data" else "session"
        return cls(asked.get("path", ""), of, session if of == "session" else None)

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def about(self) -> dict[str, Any]:
        return {"path": self.path, "name": self.name, "of": self.of, "key": _key(self.of, self.path)}


async def files(request: PageRequest) -> dict[str, Any]:
    """A directory's content; of the panel itself both beginnings."""
    asked = _Asked.by(request)
    found, complete = await Files(request.engine).list(asked.path, session=asked.session)
    return {**asked.about, "rows": file_rows(found, asked.of), "complete": complete}


def file_rows(found: list[FileInfo], of: str) -> list[FileRow]:
    """Directories first, then by name."""
    rows = [
        FileRow(
            key=_key(of, one.path),
            name=one.path.rpartition("/")[2],
            path=one.path,
            type=one.type,
            size=one.size,
            modified=one.modified,
        )
        for one in found
    ]
    return sorted(rows, key=lambda row: (row.type != "directory", row.name.lower()))


def _key(of: str, path: str) -> str:
    return hashlib.sha256(f"{of}:{path}".encode(errors="replace")).hexdigest()[:16]


async def _preview(request: PageRequest) -> Response:
    asked, offset = _Asked.by(request), _offset(request)
    try:
        reading, problem = await _read(request, asked, offset), None
    except SandboxError as error:
        reading, problem = None, error
    values = {
        **asked.about,
        "reading": reading,
        "problem": problem,
        "offset": offset,
        "session": request.session(),
    }
    values["is_svg"] = asked.name.lower().endswith(".svg")
    if "alone" in request.http.query_params:
        return request.html("file_alone.html", title=asked.name, alone=True, **values)
    return request.fragment("file_preview.html", alone=False, **values)


async def _read(request: PageRequest, asked: _Asked, offset: int) -> Reading:
    desk = Files(request.engine)
    return await desk.read(asked.path, session=asked.session, offset=offset, max_characters=_MOST_CHARACTERS)


def _offset(request: PageRequest) -> int:
    said = request.http.query_params.get("offset", "")
    return int(said) if said.isdecimal() and len(said) < 12 else 0  # more rows than any file has


async def _content(request: PageRequest) -> Response:
    asked = _Asked.by(request)
    descriptor, size = await Files(request.engine).open(asked.path, session=asked.session)
    return FileBytes(descriptor, size, asked.name, shown="show" in request.http.query_params)


ROUTES = (
    page("/sessions/{session_id}/files/preview", _preview),
    page("/sessions/{session_id}/files/content", _content),
)


# A file's bytes as an answer: to keep, or a picture to look at; never a document that runs anything here.

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
