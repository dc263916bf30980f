"""The tool that shows data: a cell's result or a variable as a picture or a table."""

from __future__ import annotations

import base64
from typing import Any, Literal

import anyio
from pydantic import Field

from cellwright.charts import Picture
from cellwright.engine import Session
from cellwright.errors import NoSuchData, NotebookError
from cellwright.mcp.arguments import Arguments, SessionId
from cellwright.mcp.calls import READS, Call, Definition, Reply
from cellwright.mcp.frames import table_of_html
from cellwright.mcp.images import picture_content
from cellwright.notebook import Cell

__all__ = ["VISUAL_TOOLS"]

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
    """Show a cell's result or a variable (frame, array, records, graph) as a chart or table, with its digest."""
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
