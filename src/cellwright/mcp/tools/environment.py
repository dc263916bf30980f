"""The tool that installs packages for a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from cellwright.engine import Session
from cellwright.mcp._arguments import Arguments, MaxTokens, SessionId
from cellwright.mcp.calls import CHANGES, DESTROYS, Call, Definition, Reply, data_reply
from cellwright.sandbox.overlay import LayerChange
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle

__all__ = ["FILE_TOOLS", "PACKAGE_TOOLS"]


class InstallPackages(Arguments):
    session_id: SessionId = None
    packages: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        min_length=1, max_length=50, description="Names, with versions if need be: pandas, polars>=1"
    )


async def package_install(call: Call, args: InstallPackages) -> Reply:
    """Install approved Python packages for a session; importable at once. Code itself cannot install any."""
    session = call.session(args.session_id)
    result = await session.install(args.packages)
    about = {
        "session_id": session.id,
        "installed": [str(pin) for pin in result.installed],
        "already_there": list(result.already_there),
        "not_listed": list(result.not_listed),
        "seconds": round(result.seconds, 1),
    }
    return data_reply({key: value for key, value in about.items() if value != []}, call)


PACKAGE_TOOLS = (Definition(package_install, InstallPackages, CHANGES, asks_for=("session_id",)),)


# The tool for what a session's code wrote: listed, shown against the project, brought over into it.

_FILE_TOKENS = 10_000

_TOKENS_PER_FILE = 50


class SessionFiles(Arguments):
    session_id: SessionId = None
    action: Literal["list", "diff", "apply"] = "list"
    paths: list[Annotated[str, Field(min_length=1, max_length=4_000)]] | None = Field(
        default=None, max_length=1_000, description="Only these files and directories; default: all"
    )
    force: bool = Field(default=False, description="apply: overwrite what the user changed meanwhile")
    max_tokens: MaxTokens = None


async def session_files(call: Call, args: SessionFiles) -> Reply:
    """Files that a session's code wrote: list them, diff them, apply (copy) them to the project from the overlay. Not
    over what changed there meanwhile, nor what tools run by themselves (.git, a Makefile): a person applies that."""
    session = call.session(args.session_id, reads=args.action != "apply")
    about: dict[str, Any] = {
        "session_id": session.id,
        "mode": session.mode,
        "directory": session.place.written,
    }
    match args.action:
        case "list":
            about |= await _listed(session, args.paths, args.max_tokens or _FILE_TOKENS)
        case "diff":
            diff = await session.file_diff(args.paths) if session.mode == "overlay" else ""
            tokens = args.max_tokens or _FILE_TOKENS
            about["diff"] = cut_middle(
                diff,
                tokens * CHARACTERS_PER_TOKEN,
                rest="session_files(action='diff', paths=…), a few at a time",
            )
        case "apply":
            trusted = call.client.grants.applied
            applied = await session.apply_files(args.paths, force=args.force, trusted=trusted)
            about["applied"] = [_change_data(change) for change in applied.changes]
            if applied.skipped:
                about["skipped"] = dict(applied.skipped)
    return data_reply(about, call)


async def _listed(session: Session, paths: list[str] | None, max_tokens: int) -> dict[str, Any]:
    if session.mode == "overlay":
        most = max_tokens // _TOKENS_PER_FILE
        changes = [change for change in await session.file_changes() if _is_named(change.path, paths)]
        more = max(len(changes) - most, 0)
        return {"files": [_change_data(change) for change in changes[:most]], "more_files": more}
    left = await session.files()
    files = [
        {**msgspec.to_builtins(file), "real": f"{left.directory}/{file.path}"}
        for file in left.files
        if _is_named(file.path, paths)
    ]
    return {"files": files, "more_files": left.more}


def _is_named(path: str, paths: list[str] | None) -> bool:
    return paths is None or any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in paths)


def _change_data(change: LayerChange) -> dict[str, Any]:
    about = asdict(change)
    if not about["conflict"]:
        del about["conflict"]
    return about


FILE_TOOLS = (
    Definition(session_files, SessionFiles, DESTROYS, asks_for=("session_id",), keeps_back=("max_tokens",)),
)
