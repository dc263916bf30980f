"""Gives the branches of a run what they work with: tools, a session, the question's data.

Decides nothing: ``runner`` asks for it, ``data_agent`` makes one for each run and ends it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.abc
from pydantic_ai.messages import ModelMessage
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.branches import MAIN, Branch
from cellwright.agent.models.requests import ANSWER_TOOL
from cellwright.agent.models.table import ModelRow
from cellwright.agent.own_tools import CONNECTION_TOOLS, OWN_TOOLS, SERVER_TOOLS, OwnTools
from cellwright.agent.questions import Question
from cellwright.agent.toolbox import NotebookTools, ToolReply, Tools
from cellwright.agent.trace.steps import Step, runs_since
from cellwright.connections.broker import Answer, Broker
from cellwright.connections.known import Connection
from cellwright.engine import Engine, Session
from cellwright.errors import AgentError, CellwrightError
from cellwright.mcp.context import Knowledge
from cellwright.mcp.outputs import MAX_PICTURES, picture_content
from cellwright.mcp.server import McpServer
from cellwright.plugins.registry import registry
from cellwright.text_budget import cut_middle
from cellwright.tools import Files

__all__ = ["PROGRAM", "RunResources", "ServerTools", "open_resources"]

T = TypeVar("T")

Room: TypeAlias = Callable[[int], Awaitable[None]]
"""Makes room for so many sessions more."""

NoteMade: TypeAlias = Callable[[Session], Awaitable[None]]
"""Receives each session that was made for the conversation."""

PROGRAM = "cellwright agent"
"""What sessions and the audit log call it."""

_TITLE_WORDS = 6

# Longer than a machine stands still whose disk is slow: what is not stopped by then keeps its kernel.
_SETTLE_S = 60.0

# A server that is fetched before it starts takes its time.
_OPEN_S = 60.0
_MAX_DATA_BYTES = 500 * 1024 * 1024


class RunResources:
    """What the branches of one run work with."""

    def __init__(
        self,
        server: McpServer,
        question: Question,
        row_of: Callable[[], ModelRow],
        servers: Sequence[ServerTools],
        room: Room,
        note_made: NoteMade,
    ) -> None:
        self.engine: Engine = server.engine
        self.knowledge: Knowledge = server.knowledge
        self._server = server
        self._question = question
        self._row_of = row_of
        self._servers = tuple(servers)
        self._making = anyio.Lock()
        self.room = room
        self._note_made = note_made
        self.made: set[str] = set()
        """The sessions that were made here."""
        self._branches: list[Branch] = []

    async def branch(
        self, label: str, session: Session | None = None, *, history: Sequence[ModelMessage] = ()
    ) -> Branch:
        """A branch that is ready to be worked on."""
        if session is not None and session.state != "active":
            await self.room(1)
        branch = Branch(label, list(history))
        if session is not None:
            branch.work_in(session)
        client = self._server.in_process(PROGRAM, directory=self._question.directory, begun=branch.begun)

        async def session_id() -> str:
            return (await self.session_of(branch)).id

        branch.notebook_tools = NotebookTools(
            client,
            offered=(*SERVER_TOOLS, *self._named(), *registry().names("tools")),
            session_of=session_id,
            room=partial(self.room, 1),
            made=partial(self._take_in, branch),
        )
        own = OwnTools(self.engine, branch, self._row_of)
        branch.tools = Tools([own, branch.notebook_tools, *self._servers])
        self._branches.append(branch)
        return branch

    def _named(self) -> tuple[str, ...]:
        """The tools for what the operator named, where that is anything."""
        return CONNECTION_TOOLS if self.engine.options.connections else ()

    async def session_of(self, branch: Branch) -> Session:
        """The branch's session; where it has none, a new notebook with the question's data in its place."""
        async with self._making:
            if branch.session is not None:
                return branch.session
            made = await branch.notebook_tools.data("notebook_create", {"name": _title(self._question.text)})
            return self.engine.session(made["session_id"])

    async def _take_in(self, branch: Branch, session_id: str) -> None:
        """Give the branch a new notebook, with the question's data in its place."""
        self.made.add(session_id)
        session = self.engine.session(session_id)
        branch.work_in(session)
        if branch.label == MAIN:
            # At once: a daemon that is killed in the first cell leaves a conversation that knows its notebook.
            await self._note_made(session)
        await self.bring_data(session)

    async def bring_data(self, session: Session) -> None:
        """Put the question's files into a session's working directory.

        Raises:
            AgentError: one of them cannot be read, or two have one name.
        """
        names = [path.name for path in self._question.data]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise AgentError(
                f"Two data files are called {min(doubled)!r}", hint="Rename one: they share a directory"
            )
        files = Files(self.engine)
        most = min(_MAX_DATA_BYTES, self.engine.settings.max_session_disk)
        for path in self._question.data:
            try:
                if path.exists() and not path.is_file():  # a pipe or a device would never end
                    raise AgentError(f"{path} is no file", hint="Check the paths of the data files")
                if path.stat().st_size > most:
                    raise AgentError(
                        f"{path} has more than the {most >> 20} MB that a notebook is given",
                        hint="Open a notebook beside it in direct mode and ask about that, or raise"
                        f" max_session_disk, up to {_MAX_DATA_BYTES >> 20} MB",
                    )
                content = await anyio.Path(path).read_bytes()
            except OSError as error:
                raise AgentError(
                    f"{path} cannot be read: {error.strerror}", hint="Check the paths of the data files"
                ) from None
            await files.write(path.name, content, session=session)

    async def settle(self) -> None:
        """Stop what the run is still at, and wait for its end: the next question finds an idle kernel.

        What others run in the same notebook goes on. Branches that nobody took back keep their notebooks, not their
        kernels.
        """
        for branch in self._branches:
            branch.leave()
            branch.notebook_tools.leave()
        with anyio.move_on_after(_SETTLE_S, shield=True):
            for branch in self._branches:
                session = branch.session
                if session is None or all(session is not one for one in self.engine.sessions()):
                    continue
                with suppress(CellwrightError):
                    await self._stop(branch, session)
                    if branch.label != MAIN and session.record.branch_of and session.state == "active":
                        await session.suspend(reason="The question that it was tried for is over")

    async def _stop(self, branch: Branch, session: Session) -> None:
        plan = self._server.planner.run_of(session)
        if plan is not None and plan.id in branch.begun:
            await plan.cancel()
        for execution in session.runs.live:
            if execution.id in branch.begun:
                with suppress(CellwrightError):
                    await session.cancel(execution.id)
                    await execution.wait()

    @property
    def sessions(self) -> set[str]:
        """Those that the run works with."""
        return {branch.session.id for branch in self._branches if branch.session is not None} | self.made

    async def note_runs(self, branch: Branch, step: Step, before: int, *, own: bool = False) -> None:
        """Put what ran since into a step, and into what the branch can rest on; ``own``: only what it began itself."""
        if branch.session is not None:
            ran = await runs_since(self.engine, branch.session, before)
            step.runs = [one for one in ran if not own or one.execution_id in branch.begun]
            branch.runs += step.runs
            step.seconds.kernel = sum(one.seconds for one in step.runs)


@asynccontextmanager
async def open_resources(
    server: McpServer, question: Question, row_of: Callable[[], ModelRow], room: Room, note_made: NoteMade
) -> AsyncIterator[RunResources]:
    """The resources of a run, for as long as it lasts."""
    failure: Exception | None = None
    resources: RunResources | None = None
    try:
        async with anyio.create_task_group() as tasks:
            try:
                servers = [await _opened(tasks, one, server.engine) for one in question.servers]
                resources = RunResources(server, question, row_of, servers, room, note_made)
                yield resources
            except Exception as error:  # noqa: BLE001  # raised below: in here it would become a group
                failure = error
            tasks.cancel_scope.cancel()
    finally:
        # After its tasks have ended: a call that was cut off while it queued a cell has told of the cell by then.
        if resources is not None:
            await resources.settle()
    if failure is not None:
        raise failure


async def _opened(tasks: anyio.abc.TaskGroup, server: Connection, engine: Engine) -> ServerTools:
    try:
        with anyio.fail_after(_OPEN_S):
            return await held(tasks, server_tools(server, engine))
    except TimeoutError:
        raise AgentError(
            f"The MCP server {server.name!r} did not answer within {_OPEN_S:g} s",
            hint="Check its command or address",
        ) from None


async def held(tasks: anyio.abc.TaskGroup, opened: AbstractAsyncContextManager[T]) -> T:
    """What a context manager opens, held by a task of its own: it may be asked for by one task and end with another."""

    async def hold(*, task_status: anyio.abc.TaskStatus[T]) -> None:
        async with opened as value:
            task_status.started(value)
            await anyio.sleep_forever()

    value: T = await tasks.start(hold)
    return value


def _title(question: str) -> str:
    """A notebook's name after the question."""
    return " ".join(question.split()[:_TITLE_WORDS])[:80] or "question"


# Tools of an MCP server that the user brought, named with the server's name in front, so that none hides one of
# ours. The server itself is a connection's: a broker speaks to it (``connections``).

_TAKEN = frozenset({*SERVER_TOOLS, *CONNECTION_TOOLS, *(tool.name for tool in OWN_TOOLS), ANSWER_TOOL})
_LONGEST_REPLY = 32_000
_LONGEST_ABOUT = 2_000
_LONGEST_NAME = 60
_MOST_TOOLS = 100


class ServerTools:
    """The tools of one server. What it says is bounded as our own tools' replies are."""

    def __init__(
        self,
        name: str,
        ask: Callable[[dict[str, Any]], Awaitable[Answer]],
        tools: Sequence[Mapping[str, Any]],
    ) -> None:
        """``ask`` has a connection's request answered."""
        self._ask = ask
        self._names: dict[str, str] = {}
        definitions: list[ToolDefinition] = []
        for tool in tools[:_MOST_TOOLS]:
            called = _free(f"{name}_{tool['name']}", {*_TAKEN, *self._names})
            self._names[called] = tool["name"]
            about = cut_middle(tool["description"], _LONGEST_ABOUT)
            definitions.append(
                ToolDefinition(
                    name=called, description=about, parameters_json_schema=dict(tool["parameters"])
                )
            )
        self._definitions = tuple(definitions)

    @property
    def definitions(self) -> Sequence[ToolDefinition]:
        return self._definitions

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        request = {"do": "show", "operation": self._names[name], "arguments": arguments}
        try:
            shown = (await self._ask(request)).value()
        except CellwrightError as error:
            return ToolReply(cut_middle(f"{name} failed: {error}", _LONGEST_REPLY), failed=True)
        drawn = shown["pictures"][:MAX_PICTURES]
        pictures = await anyio.to_thread.run_sync(_scaled, drawn) if drawn else ()
        return ToolReply(cut_middle(shown["text"], _LONGEST_REPLY), pictures)


def _free(name: str, taken: Collection[str]) -> str:
    """The name as every provider takes it, and such as nothing else has."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME]
    found, number = plain, 1
    while found in taken:
        number += 1
        found = f"{plain}_{number}"
    return found


def _scaled(drawn: Sequence[Mapping[str, str]]) -> tuple[bytes, ...]:
    """The pictures as models take them: broken ones are left out."""
    scaled = (picture_content(block["data"], block["mime_type"]) for block in drawn)
    return tuple(
        base64.b64decode(one.data) for one in scaled if one is not None and one.mime_type == "image/png"
    )


@asynccontextmanager
async def server_tools(server: Connection, engine: Engine) -> AsyncIterator[ServerTools]:
    """A server's tools for as long as they are needed; one that the settings name is asked as any connection is.

    Raises:
        AgentError: it cannot be reached, or is no MCP server.
    """
    broker: Broker | None = None
    ask: Callable[[dict[str, Any]], Awaitable[Answer]]
    if engine.connections.known.get(server.name) is server:
        ask = partial(engine.connections.ask, server.name)
    else:
        broker = Broker(server)
        ask = broker.ask
    try:
        try:
            tools = (await ask({"do": "tools"})).value()["tools"]
        except CellwrightError as error:
            raise AgentError(error.message, hint=error.hint) from None
        yield ServerTools(server.name, ask, tools)
    finally:
        if broker is not None:
            with anyio.CancelScope(shield=True):
                await broker.close()
