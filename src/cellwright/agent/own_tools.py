"""The tools that the model is offered: names of the MCP server's tools, and the agent's own (``answer``, ``notebook_fill``).

``answer`` takes one cell and a sentence around what it prints in a single call, so that a task of one cell takes one
request; ``notebook_fill`` takes a notebook's cells in one call, for models that make one call a turn.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.branches import Branch
from cellwright.agent.models.table import ModelRow
from cellwright.agent.toolbox import ToolReply
from cellwright.engine import Engine

__all__ = ["CONNECTION_TOOLS", "OWN_TOOLS", "SERVER_TOOLS", "OwnTool", "OwnTools", "filled"]

_place = re.compile(r"\{(output|[0-9]{1,6})\}")
_LONGEST_INSTRUCTION = 100_000


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool whose arguments are a model and whose description is its docstring."""

    name: str
    arguments: type[BaseModel]
    run: Callable[[OwnTools, Any], Awaitable[ToolReply]]
    suits: Callable[[ModelRow], bool] = lambda _: True
    """Which models are offered it."""

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            name=self.name,
            description=" ".join((self.arguments.__doc__ or "").split()),
            parameters_json_schema=self.arguments.model_json_schema(),
        )


class OwnTools:
    """The agent's own tools on one branch; each is called with this, and uses the branch through it."""

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
        return [tool for tool in OWN_TOOLS if tool.suits(row)]

    async def call_server(self, name: str, /, **arguments: Any) -> ToolReply:
        """Call one of the MCP server's tools, in the branch's session."""
        return await self._branch.notebook_tools.call(name, arguments)

    async def printed(self) -> str:
        """The output of the branch's newest execution."""
        session = self._branch.session
        if session is None:
            return ""
        own = [run for run in await self._engine.history(session.id) if run.id in self._branch.begun]
        return own[-1].text if own else ""


class Answer(BaseModel):
    """Answer at once, where one cell is enough: adds and runs the code, and puts what it prints into the sentence. In
    the sentence {output} is all that is printed, {1} the first line, {2} the second. If the cell fails, nothing is
    answered."""

    code: str = Field(description="Python that prints what the answer needs")
    sentence: str = Field(description="The answer, such as 'The total is {1} USD.'")


async def _answer(tools: OwnTools, arguments: Answer) -> ToolReply:
    reply = await tools.call_server("cell_add_and_run", code=arguments.code, on_error="rollback")
    if reply.failed:
        return reply
    printed = (await tools.printed()).strip()
    sentence = filled(arguments.sentence, printed)
    if sentence is None:
        text = f"{reply.text}\nThe sentence asks for lines that were not printed, or for far too many. Answer in words."
        return ToolReply(text, reply.pictures)
    return ToolReply(f"{reply.text}\nAnswered: {sentence}", reply.pictures, answer=sentence)


def filled(sentence: str, printed: str) -> str | None:
    """The sentence with what was printed in its places; None where a line is missing, or it would become a book."""
    lines: Sequence[str] = printed.splitlines()
    places = _place.findall(sentence)
    wanted = [int(place) for place in places if place != "output"]
    if (wanted and not 1 <= min(wanted) <= max(wanted) <= len(lines)) or not printed:
        return None

    def value(place: str) -> str:
        return printed if place == "output" else lines[int(place) - 1].strip()

    if len(sentence) + sum(len(value(place)) for place in places) > _LONGEST_INSTRUCTION:
        return None
    return _place.sub(lambda found: value(found[1]), sentence)


ANSWER = OwnTool("answer", Answer, _answer)


class NewCell(BaseModel):
    """A cell."""

    source: str
    cell_type: Literal["code", "markdown"] = "code"


class Fill(BaseModel):
    """Add cells to the notebook and run the code among them in order, until one fails. With a name, a new notebook is
    made for them first."""

    cells: list[NewCell] = Field(min_length=1, max_length=50)
    name: str | None = Field(default=None, description="Only for a new notebook that was asked for")


async def _fill(tools: OwnTools, arguments: Fill) -> ToolReply:
    told: list[str] = []
    pictures: list[bytes] = []
    if arguments.name is not None:
        made = await tools.call_server("notebook_create", name=arguments.name)
        if made.failed:
            return made
        told.append(made.text)
    for cell in arguments.cells:
        if cell.cell_type == "markdown":
            reply = await tools.call_server("cell_add", code=cell.source, type="markdown")
        else:
            reply = await tools.call_server("cell_add_and_run", code=cell.source, on_error="rollback")
        told.append(reply.text)
        pictures += reply.pictures
        if reply.failed:
            return ToolReply("\n".join(told), tuple(pictures), failed=True)
    return ToolReply("\n".join(told), tuple(pictures))


FILL = OwnTool("notebook_fill", Fill, _fill, suits=lambda row: row.tools == "one")


OWN_TOOLS: tuple[OwnTool, ...] = (ANSWER, FILL)

SERVER_TOOLS: tuple[str, ...] = (
    "notebook_create",
    "notebook_read",
    "cell_add",
    "cell_add_and_run",
    "cell_update",
    "cell_execute",
    "cell_delete",
    "cell_visualize",
    "execution_wait",
    "package_install",
    "plan_create",
    "plan_run",
    "plan_status",
    "plan_fix",
    "python_execute",
    "node_execute",
    "file_system",
    "web_fetch",
    "calculator",
    "visualize",
)
"""Those that answering a question takes; branches and verification are left to the patterns."""
CONNECTION_TOOLS = ("connection_list", "connection_call")
"""Those as well where the operator named connections."""
