"""The commands for files of the data directory and of sessions."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from cellwright.cli._arguments import Argument, Option
from cellwright.cli._mcp_client import call_daemon
from cellwright.cli._terminal import ALL_TOKENS, AsJson, local_time, note, show_data, table

__all__ = ["info", "list_directory", "make_directory", "move", "read", "remove", "write"]

DataPath = Annotated[str, Argument(metavar="PATH", help="From the top of the directory.")]

InSession = Annotated[
    str | None, Option("--session", help="In this session's directory. [default: the data directory]")
]


def list_directory(
    path: Annotated[str, Argument(metavar="PATH", help="[default: the top]", show_default=False)] = "",
    session: InSession = None,
    as_json: AsJson = False,
) -> None:
    """List a directory: type, size, time and path."""
    from cellwright.sandbox.files import quoted_path  # of no use to other commands

    data = _asked("list", path, session, max_tokens=ALL_TOKENS)
    rows = [
        (one["type"], one["size"], local_time(one["modified"]), quoted_path(one["path"]))
        for one in data["files"]
    ]
    show_data(data, table(("TYPE", "BYTES", "MODIFIED", "PATH"), rows), as_json=as_json)
    if "more" in data:
        note(data["more"])


def read(  # an option each
    path: DataPath,
    session: InSession = None,
    offset: Annotated[int, Option(min=0, help="The first row or line, from 0.")] = 0,
    limit: Annotated[int | None, Option(min=1, help="At most so many rows or lines.")] = None,
    sheet: Annotated[str | None, Option(help="One of a workbook. [default: the first]")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a file as a digest: a table's columns and rows, JSON's structure, a text's lines."""
    data = _asked(
        "read",
        path,
        session,
        offset=offset,
        limit=limit,
        sheet=sheet,
        max_tokens=ALL_TOKENS,
        response_format="json",
    )
    show_data(data, data["text"], as_json=as_json)
    if data["next_offset"] is not None:
        note(f"more: --offset {data['next_offset']}")


def write(
    path: DataPath,
    content: Annotated[
        str | None, Argument(help="What to write; `-`, or nothing, reads it from stdin.")
    ] = None,
    session: InSession = None,
    append: Annotated[bool, Option("--append", help="Add to the end of what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a file, all at once."""
    text = sys.stdin.read() if content in (None, "-") else content
    data = _asked("append" if append else "write", path, session, content=text)
    show_data(data, f"{data['path']}: {data['size']} bytes", as_json=as_json)


def remove(
    path: DataPath,
    session: InSession = None,
    as_json: AsJson = False,
) -> None:
    """Delete a file, a link or an empty directory."""
    data = _asked("delete", path, session)
    show_data(data, data["deleted"]["path"], as_json=as_json)


def move(
    path: DataPath,
    to: Annotated[str, Argument(metavar="TO", help="Its new path.")],
    session: InSession = None,
    as_json: AsJson = False,
) -> None:
    """Give a file or directory another name; nothing is replaced."""
    data = _asked("move", path, session, to=to)
    show_data(data, data["path"], as_json=as_json)


def make_directory(
    path: DataPath,
    session: InSession = None,
    as_json: AsJson = False,
) -> None:
    """Make a directory, with those above it."""
    data = _asked("mkdir", path, session)
    show_data(data, data["path"], as_json=as_json)


def info(
    path: DataPath,
    session: InSession = None,
    as_json: AsJson = False,
) -> None:
    """Tell type, size, time and SHA-256 of what has this name."""
    data = _asked("info", path, session)
    lines = [
        f"{name:<9}  {local_time(value) if name == 'modified' else value}" for name, value in data.items()
    ]
    show_data(data, "\n".join(lines), as_json=as_json)


def _asked(action: str, path: str, session: str | None, **more: Any) -> dict[str, Any]:
    text = call_daemon(
        lambda caller: caller.text("file_system", action=action, path=path, session_id=session, **more),
        asks=True,
    )
    return json.loads(text)  # type: ignore[no-any-return]  # the server's JSON
