"""The verbs for files of the data directory and of sessions, beside those for what a session's code wrote."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from cellwright.cli.client import call_daemon
from cellwright.cli.verbs import AsJson, note, show_data
from cellwright.sandbox.listing import quoted_path

__all__ = ["add_verbs"]

Path = Annotated[str, typer.Argument(metavar="PATH", help="From the top of the directory.")]
InSession = Annotated[
    str | None, typer.Option("--session", help="In this session's directory. [default: the data directory]")
]
_MOST_TOKENS = 200_000


def add_verbs(app: typer.Typer) -> None:
    """Give ``cellwright files`` its verbs for single files."""
    app.command("ls")(list_directory)
    app.command("read")(read)
    app.command("write")(write)
    app.command("rm")(remove)
    app.command("mv")(move)
    app.command("mkdir")(make_directory)
    app.command("info")(info)


def list_directory(
    path: Annotated[str, typer.Argument(metavar="PATH", help="[default: the top]", show_default=False)] = "",
    session: InSession = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way to say a flag
) -> None:
    """List a directory: type, size, time and path."""
    data = _asked("list", path, session, max_tokens=_MOST_TOKENS)
    lines = [
        f"{one['type']:<9}  {one['size']:>12}  {_time(one['modified'])}  {quoted_path(one['path'])}"
        for one in data["files"]
    ]
    show_data(data, "\n".join(lines), as_json=as_json)
    if "more" in data:
        note(data["more"])


def read(  # an option each
    path: Path,
    session: InSession = None,
    offset: Annotated[int, typer.Option(min=0, help="The first row or line, from 0.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows or lines.")] = None,
    sheet: Annotated[str | None, typer.Option(help="One of a workbook. [default: the first]")] = None,
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Show a file as a digest: a table's columns and rows, JSON's structure, a text's lines."""
    data = _asked(
        "read",
        path,
        session,
        offset=offset,
        limit=limit,
        sheet=sheet,
        max_tokens=_MOST_TOKENS,
        response_format="json",
    )
    show_data(data, data["text"], as_json=as_json)
    if data["next_offset"] is not None:
        note(f"more: --offset {data['next_offset']}")


def write(
    path: Path,
    content: Annotated[
        str | None, typer.Argument(help="What to write; `-`, or nothing, reads it from stdin.")
    ] = None,
    session: InSession = None,
    append: Annotated[bool, typer.Option("--append", help="Add to the end of what is there.")] = False,  # noqa: FBT002  # as above
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Write a file, all at once."""
    text = sys.stdin.read() if content in (None, "-") else content
    data = _asked("append" if append else "write", path, session, content=text)
    show_data(data, f"{data['path']}: {data['size']} bytes", as_json=as_json)


def remove(
    path: Path,
    session: InSession = None,
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Delete a file, a link or an empty directory."""
    data = _asked("delete", path, session)
    show_data(data, data["deleted"]["path"], as_json=as_json)


def move(
    path: Path,
    to: Annotated[str, typer.Argument(metavar="TO", help="Its new path.")],
    session: InSession = None,
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Give a file or directory another name; nothing is replaced."""
    data = _asked("move", path, session, to=to)
    show_data(data, data["path"], as_json=as_json)


def make_directory(
    path: Path,
    session: InSession = None,
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Make a directory, with those above it."""
    data = _asked("mkdir", path, session)
    show_data(data, data["path"], as_json=as_json)


def info(
    path: Path,
    session: InSession = None,
    as_json: AsJson = False,  # noqa: FBT002  # as above
) -> None:
    """Tell type, size, time and SHA-256 of what has this name."""
    data = _asked("info", path, session)
    lines = [f"{name:<9}  {_time(value) if name == 'modified' else value}" for name, value in data.items()]
    show_data(data, "\n".join(lines), as_json=as_json)


def _asked(action: str, path: str, session: str | None, **more: Any) -> dict[str, Any]:
    text = call_daemon(
        lambda caller: caller.text("file_system", action=action, path=path, session_id=session, **more)
    )
    return json.loads(text)  # type: ignore[no-any-return]  # the server's JSON


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
