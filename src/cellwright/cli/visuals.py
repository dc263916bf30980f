"""The verb that draws: data in a file, here or in the data directory, becomes a picture."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cellwright.cli.client import call_daemon
from cellwright.cli.exits import ExitCode, show_error
from cellwright.cli.verbs import AsJson, note, show_data
from cellwright.errors import CellwrightError, ChartRefused
from cellwright.notebook import write_atomically

__all__ = ["visualize"]


def visualize(  # noqa: PLR0913, PLR0917  # each is an option of the verb
    file: Annotated[
        str,
        typer.Argument(help="CSV or JSON: a file here, else one in the data directory; `-` is stdin."),
    ],
    kind: Annotated[str, typer.Option("--type", help="Such as bar_chart, line_chart, table.")] = "auto",
    x: Annotated[str | None, typer.Option(help="The column of the x axis.")] = None,
    y: Annotated[list[str] | None, typer.Option(help="A column of the y axis; may be repeated.")] = None,
    group: Annotated[str | None, typer.Option(help="The column to colour by.")] = None,
    title: Annotated[str | None, typer.Option(help="What it shows.")] = None,
    directory: Annotated[
        str | None, typer.Option("--dir", metavar="NAME", help="Where in the data directory it is kept.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the picture, or a table's HTML, here.")
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way to say a flag
) -> None:
    """Draw a file's data as a chart or a table, print its digest, and keep both with a manifest."""
    columns = {"x": x, "y": y[0] if y and len(y) == 1 else y, "group": group, "title": title}
    options = {name: value for name, value in columns.items() if value}
    try:
        given = _given(file)
    except CellwrightError as error:
        show_error(error)
        raise typer.Exit(ExitCode.RUN_FAILED) from error
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
    content = base64.b64decode(drawn["png"]) if drawn["png"] else drawn["html"].encode()
    try:
        write_atomically(output, content)
    except CellwrightError as error:
        show_error(error)
        raise typer.Exit(ExitCode.RUN_FAILED) from error
