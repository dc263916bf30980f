"""Clients of the MCP server: what each has worked with and follows, and how replies and events reach it.

There is no notebook that clients share as "current": each has its own sessions here, and they are forgotten with
the connection. A client that keeps no connection (stateless HTTP) has none, and must name its sessions.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import anyio
from mcp import MCPDeprecationWarning
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, SubscriptionBus
from mcp.types import LOG_LEVEL_META_KEY, ElicitRequestFormParams, ElicitResult, LoggingLevel
from starlette.requests import ClientDisconnect, Request

from cellwright.engine import Engine, Event, Missed
from cellwright.engine.records import Handback
from cellwright.mcp.apps.shell import shows_apps
from cellwright.mcp.context import Knowledge
from cellwright.mcp.outputs import cell_output_uri, clean, data_uri, parts_of, session_uri
from cellwright.presence import Visitor
from cellwright.text_budget import cut_middle

__all__ = [
    "NO_GRANTS",
    "Caller",
    "Client",
    "ClientGrants",
    "Clients",
    "Notifier",
    "Pace",
    "RequestCaller",
    "RequestContext",
    "form_for",
    "log_entry",
]

RequestContext: TypeAlias = ServerRequestContext["Clients", Request]

_SESSION_HEADER = "mcp-session-id"

_MOST_HTTP_CLIENTS = 1_000

_MOST_WRITTEN = 10_000

_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)


@dataclass(frozen=True, slots=True)
class ClientGrants:
    """What the person at the other end gave the connection. No call can: an agent's word is not enough for it.

    It lives in memory, with the connection, and is told to nobody.
    """

    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """Keys and addresses of models; None where nothing was said of them."""

    files: frozenset[Path] = field(default=frozenset(), repr=False)
    """Files that may be read, wherever they lie."""

    servers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """MCP servers: a name, and a command or an address; with neither the connection of that name."""

    models: frozenset[str] = field(default=frozenset(), repr=False)
    """Models by their addresses or files: data and a key would go there."""

    applied: frozenset[str] = field(default=frozenset(), repr=False)
    """Paths of a project that may be overwritten though tools run by themselves what lies there."""


NO_GRANTS = ClientGrants()


@dataclass(eq=False, slots=True)
class Client:
    """One client of the MCP server."""

    directory: Path | None = None
    """Where it works: its paths begin there, and its notebooks go there. None: the engine's root directory."""

    grants: ClientGrants = field(default=NO_GRANTS, repr=False)

    begun: set[str] | None = None
    """Ids of the executions and runs of plans that its calls began, where somebody wants to know."""

    sessions: dict[str, None] = field(default_factory=dict)
    """Ids of the sessions it has worked with, the latest last."""

    generations: dict[str, int] = field(default_factory=dict)
    """The generation of each session's kernel that it was last told."""

    names: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names in each session that it knows of."""

    toolsets: set[str] = field(default_factory=set)
    """The sets of tools that it asked for, beyond those that it began with."""

    addressed: str | None = None
    """The session that it named last, or that a reply to it named."""

    places: dict[str, str] = field(default_factory=dict)
    """Where each session's files lie, as it was told."""

    plans: dict[str, frozenset[str]] = field(default_factory=dict)
    """The attempts of each session's plan that it was told of."""

    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What it was told of each session's last check of types."""

    handbacks: dict[str, int] = field(default_factory=dict)
    """The number of the handback of each session that it was told of, or that was before it came."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Session ids by the names it gave them, in dialects where a client names notebooks."""

    followed: dict[str, ServerSession] = field(default_factory=dict)
    """Resources it subscribed to by the handshake-era call, and where to tell it."""

    reach: ServerSession | None = None
    """How to reach it outside of a call, for a client of the handshake era that has asked for anything."""

    visitor: Visitor = field(default_factory=Visitor, repr=False)
    """What people who look at its sessions see it by."""

    log_level: LoggingLevel | None = None
    """The weight from which it wants log messages; it gets none before it says so."""

    _written: dict[int, None] = field(default_factory=dict, repr=False)
    """Hashes of the code that it wrote itself, the latest last."""

    def wrote(self, code: str) -> None:
        """It knows this code: it need not be told of the names in it."""
        self._written[hash(code)] = None
        if len(self._written) > _MOST_WRITTEN:
            del self._written[next(iter(self._written))]

    def has_written(self, code: str) -> bool:
        return hash(code) in self._written

    def began(self, *ids: str) -> None:
        if self.begun is not None:
            self.begun.update(ids)

    def news_of(self, session_id: str, handback: Handback | None) -> Handback | None:
        """That a session it worked on was given back, where it was not told so yet; from now on it was."""
        if handback is None or self.handbacks.get(session_id) == handback.seq:
            return None
        self.handbacks[session_id] = handback.seq
        return handback if session_id in self.sessions else None

    def worked_with(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)
        self.sessions[session_id] = None

    def forget(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)
        self.generations.pop(session_id, None)
        self.names.pop(session_id, None)
        self.places.pop(session_id, None)
        self.plans.pop(session_id, None)
        self.handbacks.pop(session_id, None)

    async def log(self, level: LoggingLevel, data: Any) -> None:
        """Send a log message, if the client asked for messages of this weight."""
        if self.reach is None or self.log_level is None:
            return
        if _LEVELS.index(level) >= _LEVELS.index(self.log_level):
            with warnings.catch_warnings():
                # Deprecated by the newest protocol, and still what earlier clients ask for. Awaited outside: the
                # filters are everybody's.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                sending = self.reach.send_log_message(level, data, logger="cellwright")
            await sending


class Clients:
    """The clients of one transport: a connection has one, HTTP has one per protocol session."""

    def __init__(self, directory: Path | None = None, grants: ClientGrants = NO_GRANTS) -> None:
        self._own = Client(directory, grants)
        self._by_header: OrderedDict[str, Client] = OrderedDict()

    def __iter__(self) -> Iterator[Client]:
        return iter([self._own, *self._by_header.values()])

    def of(self, context: RequestContext) -> Client:
        """Whoever sent this request."""
        if context.request is None:
            return self._own
        key = context.request.headers.get(_SESSION_HEADER)
        if key is None:
            return Client(visitor=Visitor(stays=False))  # stateless: nothing of it is known afterwards
        client = self._by_header.setdefault(key, Client(visitor=Visitor(stays=False)))
        self._by_header.move_to_end(key)
        if len(self._by_header) > _MOST_HTTP_CLIENTS:
            self._by_header.popitem(last=False)
        return client


# Who makes a tool call, and what it hears while the call goes on: progress, log messages, whether it was
# taken back.

_MAX_PROGRAM = 60

_FIRST_WITH_LINKS = "2025-06-18"

Form: TypeAlias = Literal["text", "data", "both"]

STRUCTURED = "cellwright/structured"
"""The experimental capability by which a client asks for structured content instead of text."""

_COMMAND_LINE = "cellwright"


def form_for(session: ServerSession, structured_clients: Iterable[str]) -> Form:
    """The form in which a client gets data: a model is to read it once, and a program wants it whole.

    ``structured_clients`` are patterns of the names of programs that do not say so themselves.
    """
    about, able = session.client_params, session.client_capabilities
    name = about.client_info.name if about is not None else ""
    if name == _COMMAND_LINE:
        return "both"
    asks = STRUCTURED in ((able and able.experimental) or {})
    return "data" if asks or any(fnmatchcase(name, one) for one in structured_clients) else "text"


_PASSWORDS = "cellwright/passwords"


class Caller:
    """A caller in the same process: it hears nothing before the reply, and takes a call back by cancelling its task."""

    wants_log = False
    """Whether it is sent log messages during the call."""
    asks: Literal["no", "calls", "rounds"] = "no"
    """Whether its person can be asked something: by a request during its call, or by an answer to it."""
    shows_apps = False
    """Whether a result is shown by an app, where it has one."""
    asks_passwords = False
    """Whether it does so where nobody else sees the answer."""
    form: Form = "both"
    """In which form it gets data; nothing is sent to a program in this process, and so both cost nothing."""
    knows_links = False
    """Whether its protocol has links to resources in replies."""
    answers: Mapping[str, Any] = MappingProxyType({})
    """What its person answered, where the call goes on after that."""
    request_state: str = ""
    """What the answer to an earlier call gave it to bring back, where the call is made again after a question."""

    def __init__(self, program: str | None, session: ServerSession | None = None) -> None:
        self.program = program
        """What it calls itself."""
        self.session = session
        """Its connection, where it has one: its own model may be asked through it."""

    async def report_progress(self, progress: float, message: str, *, total: float | None = None) -> None:
        """Tell how far the call is; without a total ``progress`` is only more than before."""

    async def log(self, level: LoggingLevel, data: Any) -> None:
        """Send a log message; only where ``wants_log`` says so."""

    async def elicit(self, form: ElicitRequestFormParams) -> ElicitResult:
        """Ask its person; only where ``asks`` says that it is done by calls.

        Raises:
            MCPError: the client could not.
        """
        return ElicitResult(action="cancel")

    async def tools_changed(self) -> None:
        """Tell it that it has other tools than before."""

    async def was_cancelled(self) -> bool:
        """Whether the caller took back this call, rather than went away or was cut off by the daemon's end."""
        return True


class RequestCaller(Caller):
    """The client that sent a request."""

    def __init__(
        self,
        context: Context[Clients, Any],
        *,
        structured_clients: Sequence[str],
        app_clients: Sequence[str],
    ) -> None:
        session = context.request_context.session
        about = session.client_params
        super().__init__(about.client_info.name[:_MAX_PROGRAM] if about is not None else None, session)
        self._context = context
        self.form = form_for(session, structured_clients)
        self.knows_links = context.request_context.protocol_version >= _FIRST_WITH_LINKS
        self.wants_log = LOG_LEVEL_META_KEY in (context.request_context.meta or {})
        able = context.client_capabilities
        form = able.elicitation if able is not None else None
        # A bare capability, the only one before there were modes, is that of forms.
        if form is not None and (form.form is not None or form.url is None):
            self.asks = "rounds" if context.request_context.protocol_version >= "2026" else "calls"
            self.asks_passwords = _PASSWORDS in ((able and able.experimental) or {})
        may = bool(app_clients) or (able is not None and bool(able.extensions))
        self.shows_apps = may and shows_apps(able, about, app_clients)
        self.answers = context.input_responses or {}
        self.request_state = context.request_state or ""

    async def report_progress(self, progress: float, message: str, *, total: float | None = None) -> None:
        await self._context.report_progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Any) -> None:
        with warnings.catch_warnings():
            # Deprecated by the newest protocol, and still asked for. Awaited outside: the filters are everybody's.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            sending = self._context.session.send_log_message(level, data, logger="cellwright")
        await sending

    async def tools_changed(self) -> None:
        if self._context.request_context.protocol_version >= "2026":
            await self._context.notify_tools_changed()
        else:
            await self._context.session.send_tool_list_changed()

    async def elicit(self, form: ElicitRequestFormParams) -> ElicitResult:
        session: ServerSession = self._context.session
        return await session.elicit_form(
            form.message, form.requested_schema, related_request_id=self._context.request_id
        )

    async def was_cancelled(self) -> bool:
        context = self._context.request_context
        # The SDK has no public word for this yet: the request's own channel knows that its peer cancelled it.
        if context.session._request_outbound.cancel_requested.is_set():  # noqa: SLF001
            return True
        if context.request is None:
            return False
        try:
            # The newest protocol has no other way over HTTP to take back a call than to close its response.
            return context.protocol_version >= "2026" and await context.request.is_disconnected()
        except (ClientDisconnect, RuntimeError):
            return False


# Tells clients what happens in the engine: which resources changed, and as log messages what was done.

_VIEWS = ("state", "history", "context")

_SHOWS = frozenset({"notebook.cell.output", "notebook.cell.late_output", "notebook.cell.completed"})

_HISTORY = frozenset(
    {
        "notebook.cell.executing",
        "notebook.cell.completed",
        "notebook.cell.undone",
        "notebook.session.rolled_back",
        "notebook.session.adopted",
    }
)

_CHANGES_THE_LIST = frozenset({"notebook.cell.completed", "notebook.session.adopted"})

_TOLD = (
    "state",
    "seconds",
    "message",
    "hint",
    "session",
    "host",
    "verdict",
    "done",
    "total",
    "checkpoint",
    "branch",
    "note",
    "by",
)

_MOST_OUTPUTS = 100

_OUTPUTS = frozenset({"notebook.cell.output", "notebook.cell.late_output"})

_WITH_TEXT = frozenset({"display_data", "execute_result", "error"})

_MOST_TEXT = 2_000
"""Characters of one output in a log message: a screenful to show while a cell runs; the whole is in the resources."""

_SENDING_S = 5.0

_LOG_WAITING = 1_000


class Notifier:
    """One task that follows the engine, and one that tells the clients."""

    def __init__(
        self,
        engine: Engine,
        knowledge: Knowledge,
        bus: SubscriptionBus,
        transports: Iterable[Clients],
        pace: Pace,
    ) -> None:
        self._engine = engine
        self._knowledge = knowledge
        self._bus = bus
        self._transports = transports
        self._pace = pace
        self._changed: dict[str, None] = {}
        self._cells: dict[tuple[str, str], None] = {}
        self._list_changed = False
        self._logs: list[Event] = []
        self._woken = anyio.Event()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with self._engine.subscribe() as events:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._notify)
                task_status.started()
                async for event in events:
                    self._take(event)
                tasks.cancel_scope.cancel()

    def data_changed(self, paths: Iterable[str]) -> None:
        """Files of the data directory came or changed."""
        self._changed |= dict.fromkeys(map(data_uri, paths))
        self._list_changed = True
        self._woken.set()

    def _take(self, event: Event | Missed) -> None:
        if isinstance(event, Missed):
            # Whatever was missed, everything may have changed.
            everything = [session_uri(each.id, view) for each in self._engine.sessions() for view in _VIEWS]
            self._changed |= dict.fromkeys(everything)
            self._list_changed = True
        else:
            self._knowledge.take(event)
            self._changed |= dict.fromkeys(changed_resources(event))
            if event.cell_id is not None and event.kind in _SHOWS:
                self._cells[(event.session_id, event.cell_id)] = None
            self._list_changed = self._list_changed or _changes_the_list(event)
            if len(self._logs) < _LOG_WAITING:
                self._logs.append(event)
        self._woken.set()

    async def _notify(self) -> None:
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            changed, self._changed = [*self._changed, *self._shown_outputs()], {}
            logs, self._logs = self._logs, []
            list_changed, self._list_changed = self._list_changed, False
            for uri in changed:
                await self._bus.publish(ResourceUpdated(uri=uri))
            if list_changed:
                await self._bus.publish(ResourcesListChanged())
            async with anyio.create_task_group() as tasks:
                for client in chain.from_iterable(self._transports):
                    tasks.start_soon(self._notify_one, client, changed, logs, list_changed)
            await anyio.sleep(self._pace.notify_s)

    def _shown_outputs(self) -> list[str]:
        """The addresses of the outputs of every cell that showed something new."""
        cells, self._cells = list(self._cells), {}
        known = {session.id: session for session in self._engine.sessions()}
        return [
            cell_output_uri(session_id, cell_id, index)
            for session_id, cell_id in cells
            if session_id in known and cell_id in known[session_id].document
            for index in range(min(len(known[session_id].cell(cell_id).outputs), _MOST_OUTPUTS))
        ]

    async def _notify_one(
        self,
        client: Client,
        changed: list[str],
        logs: list[Event],
        list_changed: bool,
    ) -> None:
        # A client that has stopped reading, or is gone, must not hold up the others.
        with (
            anyio.move_on_after(_SENDING_S),
            suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
        ):
            for uri in changed:
                if uri in client.followed:
                    await client.followed[uri].send_resource_updated(uri)
            if list_changed and client.reach is not None:
                await client.reach.send_resource_list_changed()
            for event in logs:
                if event.session_id in client.sessions:
                    await client.log(*log_entry(event))


def changed_resources(event: Event) -> list[str]:
    """Which addresses show something else after an event."""
    if event.kind == "notebook.network.request":
        return [session_uri(event.session_id, "network")]
    uris = [session_uri(event.session_id, "state")]
    if event.kind not in ("notebook.cell.output", "notebook.cell.late_output"):
        uris.append(session_uri(event.session_id, "context"))
    if event.kind in _HISTORY:
        uris.append(session_uri(event.session_id, "history"))
    return uris


def _changes_the_list(event: Event) -> bool:
    return event.data.get("session") in {"created", "deleted", "restored"} or event.kind in _CHANGES_THE_LIST


_LEVELS_BY_EVENT: dict[str, LoggingLevel] = {
    "notebook.error": "error",
    "notebook.session.taken": "warning",
    "notebook.cell.output": "debug",
    "notebook.cell.late_output": "debug",
    "notebook.state.changed": "debug",
}


def _output_data(kind: object, content: Mapping[str, Any]) -> dict[str, Any]:
    """What a kernel said, as text, with its stream's name or its kind; the whole of it is in the resources."""
    if kind == "stream":
        return {"output": content.get("name"), "text": cut_middle(clean(content.get("text", "")), _MOST_TEXT)}
    parts = parts_of([{"output_type": kind, **content}]) if kind in _WITH_TEXT else []
    text = "\n".join(part.text for part in parts if part.text)
    return {"output": kind} | ({"text": cut_middle(text, _MOST_TEXT)} if text else {})


def log_entry(event: Event) -> tuple[LoggingLevel, dict[str, Any]]:
    """An event as a log message: its weight, and what it says without what may be large."""
    failed = event.kind == "notebook.cell.completed" and event.data.get("state") != "ok"
    level: LoggingLevel = "warning" if failed else _LEVELS_BY_EVENT.get(event.kind, "info")
    fields = {key: event.data[key] for key in _TOLD if event.data.get(key)}
    if event.kind in _OUTPUTS:
        fields |= _output_data(event.data.get("type"), event.data.get("content") or {})
    about = {"session_id": event.session_id, "cell_id": event.cell_id, "execution_id": event.execution_id}
    return level, {"event": event.kind, **{key: value for key, value in about.items() if value}, **fields}


# How long a call waits and how often it says so: numbers that belong to clients' habits, not to the user.


@dataclass(frozen=True, slots=True)
class Pace:
    """What a MCP server keeps to. The tightest client known ends a call after 60 s; others after 300 s."""

    wait_s: float = 55.0
    """How long a call waits for an execution before it hands back the id."""

    progress_s: float = 5.0
    """How often a waiting call tells its progress; clients want to hear something every 15 s."""

    files_s: float = 0.25
    """How long a reply waits for what code left, which is looked up after its end."""

    stopping_s: float = 10.0
    """How long a call that stops something waits for its end."""

    notify_s: float = 0.25
    """How long changes of a resource are gathered before its subscribers are told once."""

    stream_s: float = 0.05
    """How long words of a model are gathered before a client that wants each of them is told."""
