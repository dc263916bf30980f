"""Files that people bring: dropped on the page or chosen in a form, one a request, as the body that they are.

Data goes to the data directory or a session's own, by the same way and within the same limits as the tools' files.
"""

from __future__ import annotations

import unicodedata
from itertools import count

from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import CellwrightError
from cellwright.tools.files.file_system import FileInfo, Files
from cellwright.web.requests import PageRequest, action, answer

__all__ = ["MOST_UPLOADED", "ROUTES", "free_name", "upload_name"]

MOST_UPLOADED = 100 * 1024**2
"""What the tools read and write at once, too."""

_MOST_NAME_BYTES = 200


class BadName(CellwrightError):
    """A file that somebody brought has no name that it could have here."""

    code = "bad_file_name"


def upload_name(name: str) -> str:
    """The name of a file that was brought, as it may be used here.

    Raises:
        BadName: it is a path, is hidden, has signs that nobody sees, or is too long.
    """
    normal = unicodedata.normalize("NFC", name)
    problem = None
    if not normal.strip() or normal.startswith("."):
        problem = "is empty or begins with a dot"
    elif "/" in normal or "\\" in normal:
        problem = "is a path"
    elif any(unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for sign in normal):
        problem = "has signs that cannot be seen"
    elif len(normal.encode()) > _MOST_NAME_BYTES:
        problem = f"is longer than {_MOST_NAME_BYTES} bytes"
    if problem is not None:
        raise BadName(
            f"The file's name {name[:80]!r} {problem}", hint="Give the file another name, then bring it again"
        )
    return normal


def free_name(name: str, number: int) -> str:
    """The ``number``-th name to try for a file: ``data.csv``, ``data_2.csv``, ``data_3.csv``."""
    stem, dot, suffix = name.rpartition(".")
    if number == 1:
        return name
    return f"{stem}_{number}.{suffix}" if dot and stem else f"{name}_{number}"


async def _to_data(request: PageRequest) -> Response:
    info = await _kept(request, None)
    return answer({"say": f"{info.path} is in the data directory ({info.size:,} bytes)", "name": info.path})


async def _to_session(request: PageRequest) -> Response:
    info = await _kept(request, request.session())
    return request.done(f"{info.path} is beside the notebook ({info.size:,} bytes)", parts={"@files": ""})


async def _kept(request: PageRequest, session: Session | None) -> FileInfo:
    """Write what was brought under its own name or, where another file has that, under the next that is free."""
    files, name = Files(request.engine), upload_name(request.http.query_params.get("name", ""))
    content = await request.http.body()
    for number in count(1):
        path = free_name(name, number)
        if not await files.exists(path, session=session):
            return await files.write(path, content, session=session)
    raise AssertionError  # count() never ends


ROUTES = [
    action("/data", _to_data, most_bytes=MOST_UPLOADED),
    action("/sessions/{session_id}/files", _to_session, most_bytes=MOST_UPLOADED),
]
