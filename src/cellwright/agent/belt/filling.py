"""``notebook_fill``: a notebook made and filled in one call, for models that make one call a turn."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from cellwright.agent.belt.rows import Desk, OwnTool
from cellwright.agent.toolbox import ToolReply

__all__ = ["FILL"]


class NewCell(BaseModel):
    """A cell."""

    source: str
    cell_type: Literal["code", "markdown"] = "code"


class Fill(BaseModel):
    """Add cells to the notebook and run the code among them in order, until one fails. With a name, a new notebook is
    made for them first."""

    cells: list[NewCell] = Field(min_length=1, max_length=50)
    name: str | None = Field(default=None, description="Only for a new notebook that was asked for")


async def _fill(desk: Desk, arguments: Fill) -> ToolReply:
    told: list[str] = []
    pictures: list[bytes] = []
    if arguments.name is not None:
        made = await desk.face("notebook_create", name=arguments.name)
        if made.failed:
            return made
        told.append(made.text)
    for cell in arguments.cells:
        if cell.cell_type == "markdown":
            reply = await desk.face("cell_add", content=cell.source, type="markdown")
        else:
            reply = await desk.face("cell_add_and_run", content=cell.source, on_error="rollback")
        told.append(reply.text)
        pictures += reply.pictures
        if reply.failed:
            return ToolReply("\n".join(told), tuple(pictures), failed=True)
    return ToolReply("\n".join(told), tuple(pictures))


FILL = OwnTool("notebook_fill", Fill, _fill, suits=lambda row: row.tools == "one")
