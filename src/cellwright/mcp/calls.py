"""One call of a tool and its reply, and how the tools' plain functions become tools of the SDK.

A tool is a function of a ``Call`` and its ``Arguments`` that returns a ``Reply``. What it raises on purpose reaches
the model with the next step; anything else is logged here and told without its insides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent, ToolAnnotations
from pydantic import ConfigDict, Field, ValidationError

from cellwright.audit import acting
from cellwright.delegation import Delegate
from cellwright.engine import Engine, Session
from cellwright.errors import (
    CellwrightError,
    KernelBusy,
    SessionTaken,
    StaleEdit,
    TooManyCells,
    TooManySessions,
    UnknownCell,
    UnknownExecution,
)
from cellwright.mcp.arguments import Arguments, TimeLimits, complaint, published_schema
from cellwright.mcp.callers import Caller, RequestCaller
from cellwright.mcp.clients import Client, Clients
from cellwright.mcp.handovers import handback_note
from cellwright.mcp.knowledge import Knowledge
from cellwright.mcp.pace import Pace
from cellwright.mcp.session_lookup import find_session
from cellwright.plans import Planner
from cellwright.settings import fenced
from cellwright.tools.web.fetch import Fetcher
from cellwright.verification import Verifier

__all__ = [
    "CHANGES",
    "DESTROYS",
    "READS",
    "Call",
    "Definition",
    "Reply",
    "ServerTool",
    "Shared",
    "as_tool",
    "data_reply",
    "in_calls",
]
# Whether a call may be repeated says nothing where it changes nothing.
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)

CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

DESTROYS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


@dataclass(frozen=True, slots=True)
class Shared:
    """What every call of a MCP server has in common."""

    engine: Engine
    planner: Planner
    verifier: Verifier
    fetcher: Fetcher
    knowledge: Knowledge
    pace: Pace
    default_language: str
    tools: frozenset[str] = frozenset()
    """The names of the tools there are."""
    data_changed: Callable[[Sequence[str]], None] = lambda _: None
    """Tells whoever follows them that these files of the data directory are new."""
    delegate: Delegate | None = None
    """Who answers questions by itself, where there is one."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: who asked, and what it may use."""

    shared: Shared
    client: Client
    caller: Caller
    notes: list[str] = field(default_factory=list)
    """Sentences that the reply begins with."""
    changes: bool = True
    """Whether the tool may change or run something."""

    @property
    def engine(self) -> Engine:
        return self.shared.engine

    @property
    def root(self) -> Path:
        """Where the caller works."""
        return self.client.directory or self.engine.settings.root

    @property
    def notebooks(self) -> Path:
        """Where the caller's new notebooks go."""
        return self.root / "notebooks"

    def path(self, named: str) -> Path:
        """A path that the caller names, inside of the directories that the settings allow, else of its own.

        Raises:
            OutsideRoots: it leads out of them.
        """
        return fenced(named, self.engine.settings.roots or (self.root,), base=self.root)

    def data_changed(self, *paths: str) -> None:
        """Say that the call wrote these files of the data directory."""
        self.shared.data_changed(paths)

    def session(self, session_id: str | None, *, reads: bool = False) -> Session:
        """The session that the caller means; a note says so where it was not named exactly.

        One that a call only ``reads`` does not become the client's own.

        Raises:
            UnknownSession: no session, or more than one, could be meant.
            SessionTaken: the call would change it, and a person has taken it over.
        """
        found = find_session(self.engine.sessions(), session_id, own=list(self.client.sessions), reads=reads)
        if found.note is not None:
            self.notes.append(found.note)
        if not reads and self.changes:
            found.session.refuse_if_taken()
        if (news := self.client.news_of(found.session.id, found.session.record.handback)) is not None:
            self.notes.append(handback_note(news))
        if not reads:
            self.works_with(found.session)
        return found.session

    def works_with(self, session: Session) -> None:
        """A session is the client's own from now on, and known as what it works on."""
        self.client.worked_with(session.id)
        if self.caller.program is not None and self.changes:
            session.worked_on_by(self.caller.program)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool answers. ``data`` is for tools without images only: clients show one form and drop the other."""

    text: str
    images: tuple[ImageContent, ...] = ()
    data: dict[str, Any] | None = None


ToolFunction: TypeAlias = Callable[[Call, Any], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool: its function, whose name and docstring are the tool's, its arguments, and what it does to the world."""

    run: ToolFunction
    arguments: type[Arguments]
    hints: ToolAnnotations
    asks_for: tuple[str, ...] = ()
    """Arguments published as required, though a call without them is understood."""
    keeps_back: tuple[str, ...] = ()
    """Arguments that are not published, for a caller that knows them: the command line."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


def data_reply(data: dict[str, Any], call: Call) -> Reply:
    """A reply of data alone, the same in both forms."""
    if call.notes:
        data = {**data, "notes": list(call.notes)}
        call.notes.clear()
    return Reply(json.dumps(data, ensure_ascii=False, separators=(",", ":")), data=data)


_NEXT_CALLS: dict[type[CellwrightError], str] = {
    UnknownCell: "notebook_read",
    StaleEdit: "notebook_read",
    UnknownExecution: "execution_list",
    TooManySessions: "notebook_list",
    TooManyCells: "notebook_create",
    KernelBusy: "execution_wait",
    SessionTaken: "notebook_read",
}


def tool_error(error: CellwrightError, tools: Container[str] = (), notes: Sequence[str] = ()) -> ToolError:
    """An error as a model reads it: what failed, on what, what to do next, with which of these tools."""
    text = in_calls(str(error).rstrip("."))
    if (call := _NEXT_CALLS.get(type(error))) is not None and call in tools:
        text += f". Next call: {call}"
    if isinstance(error, StaleEdit):
        text += f"\n{error.diff}"
    return ToolError("\n".join([text, *(f"note: {note}" for note in notes)]))


def as_tool(definition: Definition, shared: Shared) -> ServerTool:
    """The SDK's tool of a definition."""
    settings = shared.engine.settings
    limits = TimeLimits(settings.cell_timeout_s, settings.run_timeout_s)
    schema = published_schema(
        definition.arguments,
        also_required=definition.asks_for,
        but=definition.keeps_back,
        defaults=definition.arguments.operators_defaults(limits),
    )
    return ServerTool(
        fn=definition.run,
        name=definition.name,
        title=None,
        description=definition.description,
        parameters=schema,
        fn_metadata=FuncMetadata(arg_model=ArgModelBase),
        is_async=True,
        context_kwarg=None,
        annotations=definition.hints,
        definition=definition,
        shared=shared,
    )


class ServerTool(Tool):
    """A tool that checks its own arguments: closed, and with complaints that a model can act on."""

    definition: Definition = Field(exclude=True)
    shared: Shared = Field(exclude=True)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,
    ) -> CallToolResult:
        clients: Clients = context.request_context.lifespan_context
        return await self.answer(arguments, clients.of(context.request_context), RequestCaller(context))

    async def answer(self, arguments: dict[str, Any], client: Client, caller: Caller) -> CallToolResult:
        """Call the tool.

        Raises:
            ToolError: the arguments are wrong, or the tool failed; the message is for a model to read.
        """
        try:
            return await self._answer(arguments, client, caller)
        except ToolError as error:
            if (banner := self.shared.engine.banner) is None:
                raise
            raise type(error)(f"{banner}\n{error}") from error.__cause__

    async def _answer(self, arguments: dict[str, Any], client: Client, caller: Caller) -> CallToolResult:
        try:
            checked = self.definition.arguments.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(complaint(self.name, self.parameters, error)) from error
        call = Call(self.shared, client, caller, changes=not self.definition.hints.read_only_hint)
        try:
            with acting(f"mcp:{caller.program or 'unnamed'}"):
                reply = await self.definition.run(call, checked)
        except CellwrightError as error:
            raise tool_error(error, self.shared.tools, call.notes) from error
        except (MCPError, ToolError):
            raise
        except Exception as error:  # boundary: whoever calls logs it; nothing of it reaches the client
            message = f"{self.name} failed inside Cellwright. The session is as it was; look at `cellwright daemon logs`"
            raise UnexpectedToolError(message) from error
        return _result(reply, call.notes, self.shared.engine.banner)


def _result(reply: Reply, notes: list[str], banner: str | None) -> CallToolResult:
    """A reply as the SDK sends it. What is said before a text is a block of its own: the text may be a file's."""
    data, text = reply.data, reply.text
    if data is not None and banner is not None:
        data = {"banner": banner, **data}
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    before = [f"note: {note}" for note in notes]
    if data is None and banner is not None:
        before.insert(0, banner)
    content: list[ContentBlock] = [TextContent(text="\n".join(before))] if before else []
    content += [TextContent(text=text), *reply.images]
    return CallToolResult(content=content, structured_content=data)


# What the engine says to people, in the words of the tools: who calls them has no command line. Pure.

_INSTEAD = {
    "hosts": "host_list",
    "start": "host_start",
    "stop": "host_stop",
    "wait": "host_list(wait=60000)",
}

_VERB = re.compile(rf"`cellwright ({'|'.join(_INSTEAD)})(?: --name ([\w-]+))?(?: NAME)?`")


def in_calls(text: str) -> str:
    """The same with tools where it names verbs for hosts."""
    return _VERB.sub(lambda verb: _INSTEAD[verb[1]] + (f"(host='slurm:{verb[2]}')" if verb[2] else ""), text)
