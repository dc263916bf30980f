"""One call of a tool and its reply, and how the tools' plain functions become tools of the SDK.

A tool is a function of a ``Call`` and its ``Arguments`` that returns a ``Reply``. What it raises on purpose reaches
the model with the next step; anything else is logged here and told without its insides.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    ContentBlock,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

import cellwright
from cellwright.audit import acting, actor
from cellwright.delegation import Delegate
from cellwright.engine import Engine, Session
from cellwright.engine.approvals import Matter
from cellwright.errors import (
    CellwrightError,
    KernelBusy,
    SessionTaken,
    StaleEdit,
    TooManyCells,
    TooManySessions,
    UnknownCell,
    UnknownSession,
)
from cellwright.mcp._arguments import (
    Arguments,
    Formerly,
    TimeLimits,
    complaint,
    former_names,
    in_names_of_now,
    published_schema,
    unit_note,
)
from cellwright.mcp._elicitation import OUR_STATE, InputNeeded, asked_by_call, take_approvals
from cellwright.mcp._looks import icon_of, server_icon, title_of
from cellwright.mcp._tool_names import ToolNames
from cellwright.mcp.apps.shell import ABOUT, VIEW_OF_TOOL
from cellwright.mcp.clients import Caller, Client, Clients, Pace, RequestCaller
from cellwright.mcp.context import Knowledge, handback_note
from cellwright.notebook import slug
from cellwright.oauth.scopes import Scope
from cellwright.plans import Planner
from cellwright.settings import fenced
from cellwright.templates import Catalogue
from cellwright.tools.script_calls import OfferedTools
from cellwright.tools.web.fetch import Fetcher
from cellwright.verification import Verifier

__all__ = [
    "CHANGES",
    "DESTROYS",
    "READS",
    "RUNS_CODE",
    "Call",
    "Definition",
    "Reply",
    "ServerTool",
    "Shared",
    "TimeLimits",
    "as_tool",
    "data_reply",
    "find_session",
    "unknown_tool",
    "untimed",
]

# Whether a call may be repeated says nothing where it changes nothing.
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)

CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

DESTROYS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

# As DESTROYS, without the promise that a second call changes nothing more.
RUNS_CODE = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)


@dataclass(frozen=True, slots=True)
class Shared:
    """What every call of a MCP server has in common."""

    engine: Engine
    planner: Planner
    verifier: Verifier
    fetcher: Fetcher
    templates: Catalogue
    knowledge: Knowledge
    pace: Pace
    default_language: str
    script_tools: Callable[[Call], OfferedTools]
    """Gives the tools that the script of a call may call."""
    names: ToolNames = field(default_factory=ToolNames)
    """The tools that clients have, by name."""
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
    destroys: bool = False
    """Whether it may lose something."""
    endings: list[Callable[[], None]] = field(default_factory=list)
    """Called once the call is over."""
    beside: set[str] = field(default_factory=set)
    """The sessions that it may change though a person has them: they, or the settings, said so."""
    about: dict[str, Any] = field(default_factory=dict)
    """What an app begins with that shows the reply: the session, and what of it."""

    @property
    def engine(self) -> Engine:
        return self.shared.engine

    @property
    def root(self) -> Path:
        """Where the caller works."""
        return self.client.directory or self.engine.settings.root

    @property
    def chosen(self) -> Path | None:
        """The folder that a person started the caller in; None for callers elsewhere, whom nobody put in a folder here."""
        return self.client.directory

    @property
    def notebooks(self) -> Path:
        """Where the caller's new notebooks go."""
        return self.root / self.engine.settings.notebook_dir

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
        found = find_session(
            self.engine.sessions(),
            session_id,
            own=list(self.client.sessions),
            reads=reads,
            certain=self.destroys,
            base=self.root,
        )
        if found.note is not None:
            self.notes.append(found.note)
        if found.note is not None or (session_id or "").strip() == found.session.id:
            self.client.addressed = found.session.id
        elif len(self.client.sessions) > 1:
            self.client.addressed = None  # so that the reply says which it was
        self._is_seen_at(found.session, changes=not reads and self.changes)
        self.about["session_id"] = found.session.id
        if (news := self.client.news_of(found.session.id, found.session.record.handback)) is not None:
            self.notes.append(self.shared.names.say(handback_note(news)))
        if not reads:
            self.works_with(found.session)
        return found.session

    def refuse_if_taken(self, session: Session) -> None:
        """Refuse to change a session that a person has.

        Raises:
            SessionTaken: a person has taken it over.
        """
        if session.id not in self.beside:
            session.refuse_if_taken()

    def _is_seen_at(self, session: Session, *, changes: bool) -> None:
        presence, visitor, who = self.engine.presence, self.client.visitor, actor()
        try:
            if changes:
                self.refuse_if_taken(session)
        except SessionTaken:
            presence.wants(visitor, session.id, who)
            raise
        self.endings.append(presence.calls(visitor, session.id, who, changes=changes))

    def works_with(self, session: Session) -> None:
        """A session is the client's own from now on, and known as what it works on."""
        self.about["session_id"] = session.id
        self.client.worked_with(session.id)
        if self.caller.program is not None and self.changes:
            session.worked_on_by(self.caller.program)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool answers. ``data`` is for tools without images only: clients show one form and drop the other."""

    text: str
    images: tuple[ImageContent, ...] = ()
    links: tuple[ResourceLink, ...] = ()
    """Files that the text names too, for the client's person: a model is to read the text alone."""
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
    former_names: bool = False
    """Whether arguments are published by the names and units that they had before."""
    needs: Scope | None = None
    """The scope that a client which signed in needs, where that is not told by what the tool does to the world."""
    gives: type[Any] | None = None
    """What its data has, where that is always the same."""
    all_defaults: bool = False
    """Whether defaults are published that a reader could guess: they cost tokens."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def scope(self) -> Scope:
        """The scope that a client which signed in needs to call it."""
        return self.needs or ("read" if self.hints.read_only_hint else "run")

    @property
    def description(self) -> str:
        return " ".join((self.run.__doc__ or "").split())

    def output_schema(self) -> dict[str, Any] | None:
        """The schema of its structured content, for clients that get any."""
        return TypeAdapter(self.gives).json_schema() if self.gives is not None else None

    def names(self) -> Mapping[str, Formerly]:
        """The arguments that are published by a former name, each with it."""
        return former_names(self.arguments) if self.former_names else {}

    def operators_defaults(self, limits: TimeLimits) -> dict[str, float]:
        """The defaults that the operator's settings give, by the names and in the units that are published."""
        found, names = self.arguments.operators_defaults(limits), self.names()
        unchanged = {name: value for name, value in found.items() if name not in names}
        return unchanged | {
            names[name].name: value * names[name].per_unit for name, value in found.items() if name in names
        }


def data_reply(data: dict[str, Any], call: Call, *, known: Collection[str] = ()) -> Reply:
    """A reply of data alone; the text leaves out what its reader has ``known`` before."""
    if call.notes:
        data = {**data, "notes": list(call.notes)}
        call.notes.clear()
    news = {name: value for name, value in data.items() if name not in known}
    return Reply(json.dumps(news, ensure_ascii=False, separators=(",", ":")), data=data)


_NEXT_CALLS: dict[type[CellwrightError], str] = {
    UnknownCell: "notebook_read",
    StaleEdit: "notebook_read",
    TooManySessions: "notebook_list",
    TooManyCells: "notebook_create",
    KernelBusy: "execution_wait",
    SessionTaken: "notebook_read",
}


def tool_error(error: CellwrightError, names: ToolNames, notes: Sequence[str] = ()) -> ToolError:
    """An error as a model reads it: what failed, on what, what to do next, with which of its tools."""
    text = names.say(str(error)).rstrip(".") or error.message
    if (next_call := _NEXT_CALLS.get(type(error))) is not None and (
        call := names.name(next_call)
    ) is not None:
        text += f". Next call: {call}"
    if isinstance(error, StaleEdit):
        text += f"\n{error.diff}"
    return ToolError("\n".join([text, *(f"note: {note}" for note in notes)]))


_NEAR_TOOLS = 3

_SAME_WORD = {
    "run": "execute",
    "exec": "execute",
    "insert": "add",
    "edit": "update",
    "remove": "delete",
    "get": "read",
}


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """What a caller of a tool that is not there reads: the tools with the nearest names."""
    plain = name.rpartition("__")[2].replace("-", "_").lower()  # some clients put the server's name in front
    words = {_SAME_WORD.get(word, word) for word in plain.split("_")}

    def nearness(tool: str) -> float:
        others = {_SAME_WORD.get(word, word) for word in tool.split("_")}
        shared = len(words & others) / len(words | others)
        return shared + difflib.SequenceMatcher(None, plain, tool).ratio()

    near = sorted(known, key=nearness, reverse=True)[:_NEAR_TOOLS]
    return f"There is no tool {name!r}. Did you mean {' or '.join(near)}?"


_OF_WAITING = ("wait_s", "wait", "response_format", "max_tokens")


class ToolServer(MCPServer[Clients]):
    """The SDK's server, which names the nearest tool to one that it does not have."""

    def __init__(self, go_on: ServerTool, **options: Any) -> None:
        """``go_on`` is the tool that goes on with a call that was answered with a question."""
        self._go_on = go_on
        icons = [server_icon()]
        super().__init__(
            "cellwright", title="Cellwright", version=cellwright.__version__, icons=icons, **options
        )

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Clients, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool, or go on with a call that was answered with a question.

        A call of ``toolset_enable`` that names a tool is that tool's call.

        Raises:
            ToolError: there is no such tool, or it failed.
        """
        if context is not None and (state := context.request_state or "").startswith(OUR_STATE):
            kept = {key: arguments[key] for key in _OF_WAITING if key in arguments}
            return await self._go_on.run({**kept, "round": state}, context)
        name, arguments = self.called(name, arguments)
        known = [tool.name for tool in self._tool_manager.list_tools()]
        if name not in known:
            raise ToolError(unknown_tool(name, known))
        return await super().call_tool(name, arguments, context)

    def called(self, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The tool that a call comes to, and its arguments."""
        passes_on = name == "toolset_enable" and self._tool_manager.get_tool(name) is not None
        if passes_on and isinstance(inner := arguments.get("tool"), str):
            given = arguments.get("arguments") or {}
            return inner, given if isinstance(given, dict) else {"arguments": given}
        return name, arguments

    def scope_of(self, tool: str) -> Scope:
        """The scope that a tool needs of a client that signed in; one that is not there does nothing."""
        made = self._tool_manager.get_tool(tool)
        return made.definition.scope if isinstance(made, ServerTool) else "read"


def as_tool(definition: Definition, shared: Shared) -> ServerTool:
    """The SDK's tool of a definition."""
    settings = shared.engine.settings
    limits = TimeLimits(settings.cell_timeout_s, settings.run_timeout_s)
    schema = published_schema(
        definition.arguments,
        also_required=definition.asks_for,
        but=definition.keeps_back,
        defaults=definition.arguments.operators_defaults(limits),
        all_defaults=definition.all_defaults,
        former=definition.former_names,
    )
    return ServerTool(
        fn=definition.run,
        name=definition.name,
        title=title_of(definition.name),
        icons=[icon_of(definition.name)],
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
    ) -> CallToolResult | InputRequiredResult:
        clients: Clients = context.request_context.lifespan_context
        try:
            settings = self.shared.engine.settings
            caller = RequestCaller(
                context, structured_clients=settings.structured_clients, app_clients=settings.app_clients
            )
            return await self.answer(arguments, clients.of(context.request_context), caller)
        except InputNeeded as needed:
            return needed.result

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
        model = self.definition.arguments
        if caller.form == "data" and "response_format" in model.model_fields:
            arguments = {"response_format": "json", **arguments}
        former = former_names(model)
        if any(before.name in arguments for before in former.values()):
            arguments = in_names_of_now(arguments, former)
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(complaint(self.name, self.parameters, error, self.definition.names())) from error
        hints = self.definition.hints
        call = Call(
            self.shared,
            client,
            caller,
            changes=not hints.read_only_hint,
            destroys=bool(hints.destructive_hint),
        )
        timeout_s: float | None = getattr(checked, "timeout_s", None)
        if timeout_s is not None and (doubt := unit_note(timeout_s)) is not None:
            call.notes.append(doubt)
        try:
            # Where a call's client cannot ask, whoever made the call may have somebody.
            asking = nullcontext() if caller.asks == "no" else asked_by_call(caller, call.notes)
            with acting(f"mcp:{caller.program or 'unnamed'}"), asking:
                if caller.request_state:
                    await take_approvals(call.engine.approvals, caller)
                reply = await self._run_beside(call, checked)
        except CellwrightError as error:
            raise tool_error(error, self.shared.names, call.notes) from error
        except (MCPError, ToolError, InputNeeded):
            raise
        except Exception as error:  # boundary: whoever calls logs it; nothing of it reaches the client
            message = f"{self.name} failed inside Cellwright. The session is as it was; look at `cellwright daemon logs`"
            raise UnexpectedToolError(message) from error
        finally:
            for end in call.endings:
                end()
        about = call.about if caller.shows_apps and self.name in VIEW_OF_TOOL else None
        return _result(reply, call.notes, self.shared.engine.banner, caller, about=about)

    async def _run_beside(self, call: Call, args: Arguments) -> Reply:
        """Run the tool; where a person has the session, ask whether it may be changed all the same."""
        try:
            return await self.definition.run(call, args)
        except SessionTaken as taken:
            if call.engine.approvals.rule("take_over") == "refuse":
                raise
            record = call.engine.session(taken.session_id).record
            what = f"change {record.name} ({self.name}), which {taken.by} has"
            await call.engine.approvals.require(Matter.of("take_over", what, record))
            call.beside.add(taken.session_id)
            return await self.definition.run(call, args)


def _result(
    reply: Reply, notes: list[str], banner: str | None, caller: Caller, *, about: dict[str, Any] | None
) -> CallToolResult:
    """A reply as the SDK sends it. What is said before a text is a block of its own: the text may be a file's.

    Data goes as text or as structured content: some clients show their model both. ``about`` is for the app that
    shows it.
    """
    data, text = reply.data, reply.text
    if data is not None and banner is not None:
        data = {"banner": banner, **data}
    before = [f"note: {note}" for note in notes]
    if banner is not None and (data is None or caller.form == "text"):
        before.insert(0, banner)
    content: list[ContentBlock] = [TextContent(text="\n".join(before))] if before else []
    if data is None or caller.form != "data":
        content.append(TextContent(text=text))
    content += [*reply.images, *(reply.links if caller.knows_links else ())]
    meta = {ABOUT: about} if about else None
    data = data if caller.form != "text" else None
    return CallToolResult(content=content, structured_content=data, _meta=meta)


# Which session a caller means: by id, by its notebook's path, by its name with or without the time in front, or by
# saying nothing.

_SHOWN = 5

_timestamp = re.compile(r"^\d{8}_\d{6}_|_\d{8}_\d{6}$")

# Of several that were made within one second.
_number = re.compile(r"_\d+$")

_SAYS_NOTHING = frozenset({"", "current", "default", "latest", "none", "null"})


@dataclass(frozen=True, slots=True)
class Found:
    """A session, and a sentence where the caller did not name it by its id."""

    session: Session
    note: str | None = None


def untimed(name: str) -> str:
    """A notebook's name without the time that made it unique."""
    return _timestamp.sub("", name)


def find_session(
    sessions: Sequence[Session],
    reference: str | None,
    *,
    own: Sequence[str],
    reads: bool = False,
    certain: bool = False,
    base: Path | None = None,
) -> Found:
    """The session that is meant.

    ``own`` are the ids that this client has worked with, the latest last: that is meant where none is named, unless it
    must be ``certain``. Only a call that ``reads`` may fall back on a session that the client has never named. A path
    is meant from ``base``.

    Raises:
        UnknownSession: none or several could be meant; the error names them.
    """
    if reference is None or reference.strip().lower() in _SAYS_NOTHING:
        return Found(_unnamed(sessions, own, reads=reads, certain=certain))
    reference = reference.strip()
    for session in sessions:
        if session.id == reference:
            return Found(session)
    named = _by_path(sessions, reference, base) if "/" in reference else _by_name(sessions, reference)
    if len(named) == 1:
        return Found(named[0], f"{reference!r} is session {named[0].id} (notebook {named[0].name})")
    if named:
        raise UnknownSession(
            f"{reference!r} could be {len(named)} sessions", hint=f"Repeat with one of: {_list(named)}"
        )
    near = _alike(sessions, reference) or [session for session in sessions if session.id in own]
    raise UnknownSession(f"There is no session {reference!r}", hint=_next_call(near or sessions))


def _unnamed(sessions: Sequence[Session], own: Sequence[str], *, reads: bool, certain: bool) -> Session:
    """The one that goes without saying: the client's own, of several the one that it made or used last."""
    mine = sorted((session for session in sessions if session.id in own), key=lambda one: own.index(one.id))
    if mine and not certain:
        return mine[-1]
    candidates = mine or (list(sessions) if reads else [])
    active = [session for session in candidates if session.state == "active"]
    if len(active or candidates) == 1:
        return (active or candidates)[0]
    if candidates:
        raise UnknownSession(
            "The call names no session_id, and several could be meant",
            hint=f"Repeat with one of: {_list(active or candidates)}",
        )
    raise UnknownSession(
        "The call names no session_id, and this client has not worked with a session yet",
        hint=_next_call(sessions),
    )


def _by_path(sessions: Sequence[Session], reference: str, base: Path | None) -> list[Session]:
    """The session of a notebook that lies there; never that of another which only has its name."""
    path = os.path.realpath(os.path.join(base or "", os.path.expanduser(reference)))
    return [session for session in sessions if os.path.realpath(session.path) == path]


def _by_name(sessions: Sequence[Session], reference: str) -> list[Session]:
    stem = reference.removesuffix(".ipynb")
    exact = [session for session in sessions if session.name == stem]
    if exact:
        return exact
    plain = slug(untimed(stem))
    return [
        session
        for session in sessions
        if plain in (name := untimed(session.name), _number.sub("", name)) and _same_time(stem, session.name)
    ]


def _same_time(reference: str, name: str) -> bool:
    """Whether a name that carries a time carries this notebook's."""
    time = re.search(r"\d{8}_\d{6}", reference)
    return time is None or time.group() in name


def _alike(sessions: Sequence[Session], reference: str) -> list[Session]:
    """Sessions whose id or name looks like it: worth telling, not sure enough to act on."""
    plain = slug(untimed(PurePath(reference).name.removesuffix(".ipynb")))
    words = {session.id: session for session in sessions} | {untimed(each.name): each for each in sessions}
    near = difflib.get_close_matches(reference, words, n=_SHOWN) + difflib.get_close_matches(
        plain, words, n=_SHOWN
    )
    found = {words[word].id for word in near}
    return [session for session in sessions if session.id in found]


def _next_call(sessions: Sequence[Session]) -> str:
    if not sessions:
        return "There are no sessions yet: call notebook_create"
    return f"Perhaps: {_list(sessions)}. notebook_list(filter='all') has them all"


def _list(sessions: Sequence[Session]) -> str:
    return ", ".join(f"{session.id} ({session.name}, {session.state})" for session in sessions[-_SHOWN:])
