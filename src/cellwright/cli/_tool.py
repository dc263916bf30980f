"""The commands that need no session: fetch from the web, draw a file's data, calculate, call a tool by its name."""

from __future__ import annotations

import base64
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._terminal import (
    ALL_TOKENS,
    AsJson,
    ExitCode,
    local_time,
    note,
    show_data,
    show_error,
    table,
)
from cellwright.errors import CellwrightError, ChartRefused

__all__ = ["calc", "call", "fetch", "visualize"]

_LOG = "cellwright://network"


class FetchType(StrEnum):
    HTML = "html"
    JSON = "json"
    TEXT = "text"
    FILE = "file"


def fetch(
    url: Annotated[str | None, Argument(help="What to fetch, http or https.")] = None,
    kind: Annotated[FetchType, Option("--type", help="What to read it as.")] = FetchType.HTML,
    output: Annotated[
        str | None, Option("--output", "-o", help="A file in the data directory to save it to.")
    ] = None,
    session: Annotated[str | None, Option(help="Fetch for a session, into its directory and log.")] = None,
    refresh: Annotated[bool, Option("--refresh", help="Ask the host whatever the cache has.")] = False,
    log: Annotated[bool, Option("--log", help="Show the newest requests instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch a page as Markdown, JSON, text or a file, if the network policy allows it."""
    if log:
        _show_log(as_json=as_json)
        return
    if url is None:
        raise BadArgument("give a URL, or --log", argument="URL")
    data = call_daemon(
        lambda caller: caller.data(
            "web_fetch",
            url=url,
            type=kind.value,
            path=output,
            session_id=session,
            refresh=refresh,
            max_tokens=ALL_TOKENS,
            response_format="json",
        ),
        doing=f"fetching {url}",
    )
    show_data(data, data.get("text") or data.get("saved", ""), as_json=as_json)
    _tell(data)


def _tell(data: dict[str, Any]) -> None:
    """What there is to know beside the data."""
    for said in data.get("notes", ()):
        note(said)
    if "saved" in data:
        note(f"saved to {data['saved']}")


def _show_log(*, as_json: bool) -> None:
    async def read(caller: Caller) -> dict[str, Any]:
        return json.loads(await caller.resource(_LOG))  # type: ignore[no-any-return]  # the server's JSON

    data = call_daemon(read)
    rows = [
        (
            local_time(one["time"]),
            one["verdict"],
            f"{one['host']}:{one['port']}",
            one["address"] or "-",
            one["bytes_down"],
            one["reason"],
        )
        for one in reversed(data["requests"])
    ]
    headers = ("TIME", "VERDICT", "HOST", "ADDRESS", "BYTES", "REASON")
    show_data(data, table(headers, rows), as_json=as_json)


def visualize(
    file: Annotated[
        str,
        Argument(help="CSV or JSON: a file here, else one in the data directory; `-` is stdin."),
    ],
    kind: Annotated[str, Option("--type", help="Such as bar_chart, line_chart, table.")] = "auto",
    x: Annotated[str | None, Option(help="The column of the x axis.")] = None,
    y: Annotated[list[str] | None, Option(help="A column of the y axis; may be repeated.")] = None,
    group: Annotated[str | None, Option(help="The column to colour by.")] = None,
    title: Annotated[str | None, Option(help="What it shows.")] = None,
    directory: Annotated[
        str | None, Option("--dir", metavar="NAME", help="Where in the data directory it is kept.")
    ] = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write the picture, or a table's HTML, here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a file's data as a chart or a table, print its digest, and keep both with a manifest."""
    columns = {"x": x, "y": y[0] if y and len(y) == 1 else y, "group": group, "title": title}
    options = {name: value for name, value in columns.items() if value}
    try:
        given = _given(file)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.RUN_FAILED) from error
    data = call_daemon(
        lambda caller: caller.data(
            "visualize", **given, type=kind, options=options, workingDir=directory, response_format="json"
        )
    )
    for problem in data["problems"]:
        note(problem)
    if output is not None:
        _write(output, data["outputs"])
    shown = [
        {name: value for name, value in one.items() if name not in ("png", "html")} for one in data["outputs"]
    ]
    show_data({**data, "outputs": shown}, "\n".join(one["digest"] for one in shown), as_json=as_json)
    note(f"manifest: {data['manifest']}")


def _given(file: str) -> dict[str, Any]:
    """What the daemon is told to draw: it does not see the files here."""
    if file == "-":
        return {"data": sys.stdin.read()}
    path = Path(file)
    if not path.is_file():
        return {"file": file}
    try:
        return {"data": path.read_text(encoding="utf-8-sig")}
    except UnicodeDecodeError as error:
        raise ChartRefused(f"{file}: byte {error.start:,} is not UTF-8; CSV and JSON can be drawn") from None
    except OSError as error:
        raise ChartRefused(f"{file} cannot be read: {error.strerror}") from None


def _write(output: Path, shown: list[dict[str, Any]]) -> None:
    drawn = next((one for one in shown if one["png"] or one["html"]), None)
    if drawn is None:
        return
    from cellwright.notebook import write_atomically  # of no use to other commands

    content = base64.b64decode(drawn["png"]) if drawn["png"] else drawn["html"].encode()
    try:
        write_atomically(output, content)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.RUN_FAILED) from error


def calc(
    expression: Annotated[list[str], Argument(metavar="EXPRESSION...", help="Such as `3 ft + 20 cm to m`.")],
    as_json: AsJson = False,
) -> None:
    """Calculate: exact numbers, units, statistics, matrices, dates."""
    from cellwright.tools.calculator import calculate, described  # of no use to other commands

    try:
        answer = calculate(" ".join(expression))
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.RUN_FAILED) from None
    if not as_json:
        for told in answer.notes:
            note(told)
    show_data(described(answer), answer.result, as_json=as_json)


def call(
    tool: Annotated[str, Argument(help="The tool's name, such as one that a plugin brings.")],
    given: Annotated[
        list[str] | None,
        Argument(metavar="NAME=VALUE...", help="Its arguments; lists and objects as JSON."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool by its name, and print its reply; `cellwright tool NAME` alone does so too."""
    arguments = dict(_argument(one) for one in given or ())
    text = call_daemon(lambda caller: caller.text(tool, **arguments), asks=True, doing=f"calling {tool}")
    show_data({"tool": tool, "reply": text}, text, as_json=as_json)


def _argument(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise BadArgument(f"{given!r} is not of the form NAME=VALUE", argument="NAME=VALUE")
    if not value.startswith(("[", "{")):
        return name, value
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise BadArgument(f"{name} is no JSON: {error}", argument="NAME=VALUE") from None
