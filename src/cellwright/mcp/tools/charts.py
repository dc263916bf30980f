"""The tool that shows data: a cell's result or a variable as a picture or a table."""

from __future__ import annotations

import base64
from typing import Any, Literal

import anyio
from mcp.types import ImageContent
from pydantic import Field

from cellwright.charts import Picture
from cellwright.engine import Session
from cellwright.errors import NoSuchData, NotebookError
from cellwright.mcp._arguments import Arguments, SessionId
from cellwright.mcp._replies import DEFAULT_TOKENS
from cellwright.mcp.apps.charts import chart_shown
from cellwright.mcp.calls import CHANGES, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.outputs import MAX_PICTURES, data_uri, picture_content, table_of_html
from cellwright.notebook import Cell
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle, share
from cellwright.tools.visuals import Shown, Visualization
from cellwright.tools.visuals import visualize as visualized

__all__ = ["DRAWING_TOOLS", "VISUAL_TOOLS"]
_MAX_NAME = 1_000


class VisualizeCell(Arguments):
    session_id: SessionId = None
    cell_id: str | None = Field(default=None, max_length=300)
    variable: str | None = Field(
        default=None, min_length=1, max_length=_MAX_NAME, description="Instead of a cell's result"
    )
    type: Literal["chart", "table", "graph", "auto"] = "auto"
    options: dict[str, Any] | None = Field(
        default=None,
        description="type (line_chart bar_chart scatter pie_chart histogram area heatmap box), x, y, group, title",
    )


async def cell_visualize(call: Call, args: VisualizeCell) -> Reply:
    """Plot a variable or a cell's result (frame, array, records, graph) as a chart or table, with its digest."""
    session = call.session(args.session_id, reads=True)
    if args.cell_id is None and args.variable is None:
        raise NotebookError("Nothing is named to be shown", hint="Give cell_id or variable")
    try:
        visual = await session.visualize(
            args.cell_id, variable=args.variable, form=args.type, options=args.options
        )
    except NoSuchData:
        picture = await _from_the_page(session, args)
        if picture is None:
            raise
        return await _reply(call, session, args, picture, "what the notebook shows of it")
    held = visual.held
    named = held.digest if held.digest.startswith(held.type) else f"{held.type}: {held.digest}"
    return await _reply(call, session, args, visual.picture, named)


async def _from_the_page(session: Session, args: VisualizeCell) -> Picture | None:
    """A picture of the table that a cell's output shows, where no kernel has the value any more."""
    if args.cell_id is None or args.variable is not None:
        return None
    found = _table_shown(session.cell(args.cell_id))
    if found is None:
        return None
    return await session.draw(found, form=args.type, options=args.options)


def _table_shown(cell: Cell) -> Any:
    for output in reversed(cell.outputs):
        html = (output.get("data") or {}).get("text/html", "")
        found = table_of_html(html if isinstance(html, str) else "".join(html))
        if found is not None:
            return found[0]
    return None


async def _reply(call: Call, session: Session, args: VisualizeCell, picture: Picture, data: str) -> Reply:
    if call.caller.shows_apps:
        call.about["charts"] = [chart_shown(picture)]
    what = args.variable or f"cell {args.cell_id}"
    lines = [f"session {session.id} · {what}", picture.digest]
    if picture.type != "table":
        lines.append(f"data: {data}")
    if picture.png is None:
        return Reply("\n".join(lines))
    encoded = base64.b64encode(picture.png).decode()
    pixels = call.engine.settings.image_pixels
    image = await anyio.to_thread.run_sync(lambda: picture_content(encoded, "image/png", max_pixels=pixels))
    return Reply("\n".join(lines), (image,) if image is not None else ())


VISUAL_TOOLS = (Definition(cell_visualize, VisualizeCell, READS, asks_for=("session_id", "cell_id")),)


# The tool that shows data which is in no kernel: given inline, or in a file of the data directory.

_MAX_PATH = 4_000

_MAX_PROBLEMS = 20


class Visualize(Arguments):
    data: Any = Field(default=None, description="Records, columns, CSV")
    file: str | None = Field(default=None, min_length=1, max_length=_MAX_PATH, description="Or its file")
    manifest: dict[str, Any] | None = Field(default=None)
    type: str = Field(default="auto", max_length=100, description="table, bar_chart, …")
    options: dict[str, Any] | None = Field(default=None, description="x, y, group, title, id")
    session_id: SessionId = None
    workingDir: str | None = Field(default=None, min_length=1, max_length=_MAX_PATH)  # noqa: N815  # as agreed
    response_format: Literal["text", "json"] = "text"


async def visualize(call: Call, args: Visualize) -> Reply:
    """Draw data of a file or given here as a chart or table; keeps it in the data directory."""
    session_id = call.session(args.session_id, reads=True).id if args.session_id is not None else None
    options = dict(args.options or {})
    kind = options.pop("type", "auto") if args.type == "auto" else args.type
    made = await visualized(
        call.engine,
        args.data,
        file=args.file,
        session_id=session_id,
        type=kind,
        options=options,
        manifest=args.manifest,
        working_dir=args.workingDir,
    )
    call.data_changed(made.manifest, *(one.data_file for one in made.shown))
    if args.response_format == "json":
        return data_reply(_as_data(made), call)
    if call.caller.shows_apps:
        call.about["charts"] = [chart_shown(one.picture) for one in made.shown]
    pixels = call.engine.settings.image_pixels
    images = await anyio.to_thread.run_sync(_pictures, made.shown, pixels)
    return Reply(_as_text(made, len(images)), images)


def _pictures(shown: tuple[Shown, ...], max_pixels: int) -> tuple[ImageContent, ...]:
    drawn = [one.picture.png for one in shown if one.picture.png is not None]
    scaled = [
        picture_content(base64.b64encode(png).decode(), "image/png", max_pixels=max_pixels)
        for png in drawn[:MAX_PICTURES]
    ]
    return tuple(image for image in scaled if image is not None)


def _as_text(made: Visualization, pictures: int) -> str:
    """What was drawn from what, within a budget."""
    heads = [f"{one.picture.type} {one.id} | data: {one.data_file}" for one in made.shown]
    digests = [one.picture.digest for one in made.shown]
    room = DEFAULT_TOKENS * CHARACTERS_PER_TOKEN - sum(map(len, heads))
    shares = share([len(digest) for digest in digests], room)
    parts = [
        f"{head}\n{cut_middle(digest, most, rest=data_uri(one.data_file))}"
        for head, digest, most, one in zip(heads, digests, shares, made.shown, strict=True)
    ]
    charts = sum(one.picture.png is not None for one in made.shown)
    if charts > pictures:
        parts.append(f"{charts - pictures} more pictures are not shown: put fewer outputs into a manifest")
    parts += [f"not drawn: {problem}" for problem in made.problems[:_MAX_PROBLEMS]]
    return "\n".join([*parts, f"manifest: {made.manifest}"])


def _as_data(made: Visualization) -> dict[str, Any]:
    outputs = [
        {
            "id": one.id,
            "type": one.picture.type,
            "data_file": one.data_file,
            "digest": one.picture.digest,
            "html": one.picture.html,
            "png": base64.b64encode(one.picture.png).decode() if one.picture.png is not None else None,
        }
        for one in made.shown
    ]
    return {"manifest": made.manifest, "outputs": outputs, "problems": list(made.problems)}


DRAWING_TOOLS = (Definition(visualize, Visualize, CHANGES, keeps_back=("response_format",)),)
