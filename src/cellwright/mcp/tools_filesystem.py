"""The one-shot tool for files: read as digests, written, listed; in the data directory or a session's own."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeAlias

import anyio
from mcp.types import ToolAnnotations
from pydantic import Field

from cellwright.engine import Session
from cellwright.errors import FileRefused
from cellwright.mcp.arguments import MAX_CONTENT, Arguments, MaxTokens, ResponseFormat, SessionId
from cellwright.mcp.budget import CHARACTERS_PER_TOKEN
from cellwright.mcp.calls import Call, Definition, Reply
from cellwright.mcp.images import picture_content
from cellwright.tools.files.file_system import FileInfo, Files, Reading

__all__ = ["FILESYSTEM_TOOLS"]

Action: TypeAlias = Literal["read", "write", "append", "list", "exists", "info", "mkdir", "move", "delete"]
_READS = frozenset({"read", "list", "exists", "info"})
_READ_TOKENS = 2_000
# As what else destroys, but that something appended twice is there twice.
_HINTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
_MIMES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WebP": "image/webp",
    "BMP": "image/bmp",
}


class FileSystem(Arguments):
    action: Action
    path: Annotated[str, Field(max_length=4_096)]
    content: Annotated[str | None, Field(default=None, max_length=MAX_CONTENT)] = None
    to: Annotated[str | None, Field(default=None, max_length=4_096)] = None
    session_id: SessionId = None
    offset: Annotated[int | None, Field(default=None, ge=0)] = None
    limit: Annotated[int | None, Field(default=None, ge=1, le=100_000)] = None
    sheet: Annotated[str | None, Field(default=None, max_length=300)] = None
    max_tokens: MaxTokens = None
    response_format: ResponseFormat = "text"


async def file_system(call: Call, args: FileSystem) -> Reply:
    """Shared files, or a session's. 'read' gives a digest of tables, JSON, text; by rows or lines."""
    session = None
    if args.session_id is not None:
        session = call.session(args.session_id, reads=args.action in _READS)
    files = Files(call.engine)
    if args.action == "read":
        return await _read(files, args, session)
    told = await _done(files, args, session)
    if session is None and args.action not in _READS:
        call.data_changed(*filter(None, (args.path, args.to)))
    return Reply(_json(told))


async def _read(files: Files, args: FileSystem, session: Session | None) -> Reply:
    reading = await files.read(
        args.path,
        session=session,
        offset=args.offset or 0,
        limit=args.limit,
        max_characters=(args.max_tokens or _READ_TOKENS) * CHARACTERS_PER_TOKEN,
        sheet=args.sheet,
    )
    if args.response_format == "json":
        about = asdict(reading)
        del about["picture"]
        return Reply(_json(about))
    picture = await anyio.to_thread.run_sync(_picture, reading)
    return Reply(_text(reading), (picture,) if picture is not None else ())


def _text(reading: Reading) -> str:
    lines = [f"{reading.path} ({reading.size:,} bytes)", reading.text]
    if reading.next_offset is not None:
        of = f" of {reading.total:,}" if reading.total is not None else ""
        lines.append(f"next: offset={reading.next_offset}{of}")
    return "\n".join(lines)


def _picture(reading: Reading) -> Any:
    mime = next((mime for word, mime in _MIMES.items() if reading.text.startswith(word)), None)
    if reading.picture is None or mime is None:
        return None
    return picture_content(base64.b64encode(reading.picture).decode(), mime)


async def _done(files: Files, args: FileSystem, session: Session | None) -> dict[str, Any]:
    path = args.path
    match args.action:
        case "list":
            return _listed(*await files.list(path, session=session), args)
        case "exists":
            return {"path": path, "exists": await files.exists(path, session=session)}
        case "delete":
            return {"deleted": _told(await files.delete(path, session=session))}
        case "info":
            info = await files.info(path, session=session)
        case "mkdir":
            info = await files.make_directory(path, session=session)
        case "move":
            info = await files.move(path, _given(args.to, "move", "to"), session=session)
        case _:
            content = _given(args.content, args.action, "content")
            info = await files.write(path, content, session=session, append=args.action == "append")
    return _told(info)


def _given(value: str | None, action: str, name: str) -> str:
    if value is None:
        raise FileRefused(f"Action {action} needs {name}", hint=f"Give {name}")
    return value


def _listed(found: list[FileInfo], complete: bool, args: FileSystem) -> dict[str, Any]:  # noqa: FBT001  # a pair
    """As many as there is room for, from an offset on."""
    room = (args.max_tokens or _READ_TOKENS) * CHARACTERS_PER_TOKEN
    page: list[dict[str, Any]] = []
    start = args.offset or 0
    for one in found[start:][: args.limit]:
        told = _told(one)
        room -= len(_json(told))
        if room < 0 and page:
            break
        page.append(told)
    end = start + len(page)
    about: dict[str, Any] = {"files": page}
    if end < len(found):
        about["next"] = f"offset={end}"
    if not complete:
        about["more"] = f"only the first {len(found):,} were looked at"
    return about


def _told(info: FileInfo) -> dict[str, Any]:
    return {name: value for name, value in asdict(info).items() if value is not None}


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


FILESYSTEM_TOOLS: tuple[Definition, ...] = (
    # Which sheets there are is told with the first of them, and how to ask for another.
    Definition(file_system, FileSystem, _HINTS, keeps_back=("response_format", "sheet")),
)
