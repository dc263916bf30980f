"""The tool that brings the others: a client that began with the core asks for a set, or calls one of its tools."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from cellwright.errors import CellwrightError
from cellwright.mcp._arguments import Arguments
from cellwright.mcp.calls import CHANGES, Call, Definition, Reply

__all__ = ["enabler"]

_FOR = {
    "notebooks": "list, delete, export, charts, variables, scratch code, restart",
    "history": "checkpoints, branches, replay, verify",
    "hosts": "SLURM",
    "connections": "databases, S3, APIs",
    "once": "scripts, files, web, calculator",
}


class EnableToolset(Arguments):
    toolset: str | None = Field(default=None, max_length=200)
    tool: str | None = Field(
        default=None, max_length=100, description="Call this one at once, where your list stays as it is"
    )
    arguments: dict[str, Any] | None = Field(default=None, description="The tool's")


def enabler(sets: dict[str, tuple[Definition, ...]]) -> Definition:
    """The tool over these sets. A call with ``tool`` never comes here: the server makes it that tool's call."""

    async def toolset_enable(call: Call, args: EnableToolset) -> Reply:
        names = [name for name in sets if args.toolset in (name, "all")]
        if not names:
            raise CellwrightError(
                f"There is no toolset {args.toolset!r}", hint=f"Choose one of: {', '.join(sets)}, all"
            )
        call.client.toolsets.update(names)
        await call.caller.tools_changed()
        lines = [_line(made) for name in names for made in sets[name]]
        return Reply(
            "\n".join([*lines, "Where your list does not show them: toolset_enable(tool='…', arguments={…})"])
        )

    about = ", ".join(f"{name} ({_FOR[name]})" if name in _FOR else name for name in sets)
    toolset_enable.__doc__ = f"Get more tools, by toolset: {about}."
    return Definition(toolset_enable, EnableToolset, CHANGES, needs="read")


def _line(made: Definition) -> str:
    arguments = [
        name + ("*" if field.is_required() else "")
        for name, field in made.arguments.model_fields.items()
        if name not in made.keeps_back
    ]
    return f"{made.name}({', '.join(arguments)}): {made.description}"
