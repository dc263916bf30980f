"""The agent's own tools on one branch: which of them the model is offered, and what they may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai.tools import ToolDefinition

from cellwright.agent import belt
from cellwright.agent.belt.rows import OwnTool
from cellwright.agent.branches import Branch
from cellwright.agent.models.table import ModelRow
from cellwright.agent.toolbox import ToolReply
from cellwright.engine import Engine

__all__ = ["OwnTools"]


class OwnTools:
    """A box of the agent's own tools, and the desk that these work at."""

    def __init__(self, engine: Engine, branch: Branch, row_of: Callable[[], ModelRow]) -> None:
        self._engine = engine
        self._branch = branch
        self._row_of = row_of

    @property
    def definitions(self) -> Sequence[ToolDefinition]:
        return tuple(tool.definition for tool in self._offered())

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        tool = next(tool for tool in self._offered() if tool.name == name)
        try:
            checked = tool.arguments.model_validate(arguments)
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            return ToolReply(f"{name}: {told}", failed=True)
        return await tool.run(self, checked)

    def _offered(self) -> list[OwnTool]:
        row = self._row_of()
        return [tool for tool in belt.OWN_TOOLS if tool.suits(row)]

    # What tools work at ------------------------------------------------------------------------------------------

    async def face(self, name: str, /, **arguments: Any) -> ToolReply:
        return await self._branch.face.call(name, arguments)

    async def printed(self) -> str:
        session = self._branch.session
        if session is None:
            return ""
        own = [run for run in await self._engine.history(session.id) if run.id in self._branch.begun]
        return own[-1].text if own else ""
