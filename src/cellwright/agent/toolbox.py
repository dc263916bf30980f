"""The tools that a model may call on one branch: the MCP server's, the agent's own, and those of the user's servers.

One call at a time on each branch. What a reply means, the caller decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from pydantic_ai.tools import ToolDefinition

__all__ = ["ToolReply", "Toolbox", "Tools"]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a call came to."""

    text: str
    pictures: tuple[bytes, ...] = ()
    """PNG."""
    failed: bool = False
    answer: str | None = None
    """The answer to the question, where the call was to give it."""


class Toolbox(Protocol):
    """Tools of one origin: ``NotebookTools``, ``OwnTools`` or ``ServerTools``."""

    @property
    def definitions(self) -> Sequence[ToolDefinition]: ...

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        """Call one; what goes wrong is a reply that failed."""
        ...


class Tools:
    """All tools of one branch."""

    def __init__(self, boxes: Sequence[Toolbox]) -> None:
        self._boxes = tuple(boxes)
        self._turn = anyio.Lock()

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        found: dict[str, ToolDefinition] = {}
        for box in self._boxes:
            for definition in box.definitions:
                found.setdefault(definition.name, definition)
        return tuple(found.values())

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        for box in self._boxes:
            if any(definition.name == name for definition in box.definitions):
                async with self._turn:
                    return await box.call(name, arguments)
        known = ", ".join(definition.name for definition in self.definitions)
        return ToolReply(f"There is no tool {name!r}. There are: {known}", failed=True)
