"""One tool of the agent's own: what the model is told of it, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models.table import ModelRow
from cellwright.agent.toolbox import ToolReply

__all__ = ["Desk", "OwnTool"]


class Desk(Protocol):
    """What a tool may use of the branch that it is called on."""

    async def face(self, name: str, /, **arguments: Any) -> ToolReply:
        """Call a tool of the face, in the branch's session."""
        ...

    async def printed(self) -> str:
        """What the newest execution of the branch put out."""
        ...


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool whose arguments are a model and whose description is its docstring."""

    name: str
    arguments: type[BaseModel]
    run: Callable[[Desk, Any], Awaitable[ToolReply]]
    suits: Callable[[ModelRow], bool] = lambda _: True
    """Which models are offered it."""

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            name=self.name,
            description=" ".join((self.arguments.__doc__ or "").split()),
            parameters_json_schema=self.arguments.model_json_schema(),
        )
