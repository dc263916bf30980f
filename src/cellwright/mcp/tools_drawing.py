"""The tool that shows data which is in no kernel: given inline, or in a file of the data directory."""

from __future__ import annotations

import base64
from typing import Any, Literal

import anyio
from mcp.types import ImageContent
from pydantic import Field

from cellwright.mcp.arguments import Arguments, SessionId
from cellwright.mcp.budget import CHARACTERS_PER_TOKEN, cut_middle, share
from cellwright.mcp.calls import CHANGES, Call, Definition, Reply, data_reply
from cellwright.mcp.images import MAX_PICTURES, picture_content
from cellwright.mcp.rendering import DEFAULT_TOKENS
from cellwright.mcp.uris import data_uri
from cellwright.tools.visuals import Shown, Visualization
from cellwright.tools.visuals import visualize as visualized

__all__ = ["DRAWING_TOOLS"]

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
    """Draw data as a chart or table; keeps it in the data directory with visualization_manifest.json."""
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
