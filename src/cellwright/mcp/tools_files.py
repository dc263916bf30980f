"""The tool for what a session's code wrote: listed, shown against the project, brought over into it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from cellwright.engine import Session
from cellwright.mcp.arguments import Arguments, SessionId
from cellwright.mcp.budget import CHARACTERS_PER_TOKEN, cut_middle
from cellwright.mcp.calls import DESTROYS, Call, Definition, Reply, data_reply

__all__ = ["FILE_TOOLS"]

_DIFF_TOKENS = 10_000


class SessionFiles(Arguments):
    session_id: SessionId = None
    action: Literal["list", "diff", "apply"] = "list"
    paths: list[Annotated[str, Field(min_length=1, max_length=4_000)]] | None = Field(
        default=None, max_length=1_000, description="Only these; default: all"
    )


async def session_files(call: Call, args: SessionFiles) -> Reply:
    """Files that a session's code wrote. In overlay mode they lie beside the project until 'apply' copies them over
    it; 'diff' shows what that would change."""
    session = call.session(args.session_id, reads=args.action != "apply")
    about: dict[str, Any] = {
        "session_id": session.id,
        "mode": session.mode,
        "directory": session.place.written,
    }
    match args.action:
        case "list":
            about |= await _listed(session, args.paths)
        case "diff":
            diff = await session.file_diff(args.paths) if session.mode == "overlay" else ""
            about["diff"] = cut_middle(diff, _DIFF_TOKENS * CHARACTERS_PER_TOKEN)
        case "apply":
            about["applied"] = [asdict(change) for change in await session.apply_files(args.paths)]
    return data_reply(about, call)


async def _listed(session: Session, paths: list[str] | None) -> dict[str, Any]:
    left = await session.files()
    files = [msgspec.to_builtins(file) for file in left.files if paths is None or file.path in paths]
    return {"files": files, "more_files": left.more}


FILE_TOOLS = (Definition(session_files, SessionFiles, DESTROYS, asks_for=("session_id",)),)
