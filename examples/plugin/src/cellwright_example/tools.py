"""A tool: agents call it over MCP, people as `cellwright tool roll`. It runs in the sandbox."""

from __future__ import annotations

import random

from cellwright.plugins.ports import Tool

CELLWRIGHT_API = 1


def roll(sides: int = 6, times: int = 1) -> list[int]:
    """Roll dice with so many sides, so many times."""
    if sides < 2:
        raise ValueError("a die has at least two sides")
    return [random.randint(1, sides) for _ in range(times)]


ROLL = Tool(roll, timeout_s=30)
