"""A dialect: `cellwright mcp --dialect careful` has our own tools without the ones that delete."""

from __future__ import annotations

from dataclasses import replace

from cellwright.mcp.dialects.dialect import Dialect, DialectPlugin

CELLWRIGHT_API = 1


def speak(own: Dialect) -> Dialect:
    """Our own tools without the ones that delete."""
    kept = tuple(tool for tool in own.tools if "delete" not in tool.name)
    return replace(own, tools=kept, about=f"{own.about} Nothing is ever deleted.")


CAREFUL = DialectPlugin(speak)
