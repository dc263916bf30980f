"""The MCP server itself: one server object over one engine, for any number of clients.

Built once by the daemon, which brings the connections: a byte stream for each local client, or an ASGI application
behind its own guard. Closing a connection ends its calls; executions belong to the engine and go on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.abc
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.request_state import RequestStateSecurity
from mcp.server.runner import serve_dual_era_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, SubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    PARSE_ERROR,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCMessage,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Resource,
    ResourceTemplate,
    SetLevelRequestParams,
    SubscribeRequestParams,
    Tool,
    UnsubscribeRequestParams,
    jsonrpc_message_adapter,
)
from pydantic import AnyUrl, ValidationError
from starlette.applications import Starlette
from starlette.types import ASGIApp

from cellwright.delegation import Delegate
from cellwright.engine import Engine
from cellwright.errors import CellwrightError
from cellwright.mcp._completions import completed
from cellwright.mcp._prompts import prompt_problem, prompts, reason_of
from cellwright.mcp._resources import Resources
from cellwright.mcp._scopes import ScopedCalls
from cellwright.mcp._script_module import ScriptTools
from cellwright.mcp._tool_names import ToolNames
from cellwright.mcp.apps.shell import app_resource, shows_apps, with_apps
from cellwright.mcp.apps.views import APP_TOOLS
from cellwright.mcp.calls import Definition, ServerTool, Shared, ToolServer, as_tool
from cellwright.mcp.clients import (
    NO_GRANTS,
    Client,
    ClientGrants,
    Clients,
    Notifier,
    Pace,
    RequestContext,
    form_for,
)
from cellwright.mcp.context import Knowledge
from cellwright.mcp.dialects.dialect import Dialect, DialectPlugin
from cellwright.mcp.in_process import InProcessClient
from cellwright.mcp.tools.executions import ROUND
from cellwright.mcp.toolsets import CORE, TOOLSETS, chosen_sets, instructions, tools_of, toolsets
from cellwright.plans import Planner
from cellwright.plugins.registry import registry
from cellwright.templates import Catalogue
from cellwright.tools.web.fetch import Fetcher
from cellwright.unixstreams import lines
from cellwright.verification import Verifier

__all__ = ["McpServer", "every_dialect", "message_streams"]
_MAX_BODY_BYTES = 32 * 1024 * 1024


class McpServer:
    """MCP over an engine. Servers of one engine share its planner, its verifier and its fetcher, which know what is going on."""

    def __init__(
        self,
        engine: Engine,
        *,
        planner: Planner | None = None,
        verifier: Verifier | None = None,
        fetcher: Fetcher | None = None,
        delegate: Delegate | None = None,
        dialect: str | None = None,
        toolset: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Raises CellwrightError where there is no such dialect or toolset."""
        self._transports: set[Clients] = set()
        plugin = _dialect_plugin(dialect)
        language = (plugin and plugin.language) or engine.settings.default_language
        self._shared = Shared(
            engine,
            planner or Planner(engine),
            verifier or Verifier(engine),
            fetcher or Fetcher(engine.settings),
            Catalogue.at(engine.settings.storage),
            Knowledge(engine),
            pace or Pace(),
            language,
            ScriptTools,
            data_changed=self._data_changed,
            delegate=delegate,
        )
        self._notifier: Notifier | None = None
        self._bus = InMemorySubscriptionBus()
        sets = chosen_sets(toolset, connections=bool(engine.options.connections))
        spoken = _dialect(plugin, sets)
        definitions = spoken.tools
        there = frozenset(definition.name for definition in definitions)
        if CORE in sets and "toolset_enable" in there:
            # Called though they are not listed, until their set is asked for.
            others = (made for made in tools_of(tuple(toolsets())) if made.name not in there)
            definitions = (*definitions, *others)
        self._shared = replace(self._shared, names=ToolNames(_OURS, there, spoken.instead))
        self._tools = [as_tool(definition, self._shared) for definition in definitions]
        self.server: NotebookServer = build_server(
            self._shared,
            self._tools,
            self._bus,
            self._transport,
            plugin=plugin,
            about=spoken.about,
            listed=there,
        )

    @asynccontextmanager
    async def _transport(
        self,
        _: MCPServer[Clients],
        directory: Path | None = None,
        grants: ClientGrants = NO_GRANTS,
    ) -> AsyncIterator[Clients]:
        clients = Clients(directory, grants)
        self._transports.add(clients)
        try:
            yield clients
        finally:
            self._transports.discard(clients)
            for client in clients:
                self._shared.engine.presence.left(client.visitor)

    async def serve(
        self,
        read: ByteReceiveStream,
        write: ByteSendStream,
        *,
        directory: Path | None = None,
        grants: ClientGrants = NO_GRANTS,
    ) -> None:
        """Serve one client over newline-delimited JSON-RPC until it goes away. Its calls end; executions go on.

        ``directory`` is where the client works, ``grants`` what its person gave along.
        """
        async with message_streams(read, write) as (incoming, outgoing):
            await self.attend(incoming, outgoing, directory=directory, grants=grants)

    async def attend(
        self,
        incoming: Incoming,
        outgoing: Outgoing,
        *,
        directory: Path | None = None,
        grants: ClientGrants = NO_GRANTS,
    ) -> None:
        """The same over streams of messages."""
        lowlevel = self.server._lowlevel_server  # noqa: SLF001  # the SDK has no public name for it yet
        # Tools and prompts stay; but who was told them from the daemon's record is told where they are others.
        options = lowlevel.create_initialization_options(
            NotificationOptions(resources_changed=True, tools_changed=True, prompts_changed=True)
        )
        async with self._transport(self.server, directory, grants) as clients:
            await serve_dual_era_loop(
                lowlevel, incoming, outgoing, lifespan_state=clients, init_options=options
            )

    def in_process(
        self, program: str, *, directory: Path | None = None, begun: set[str] | None = None
    ) -> InProcessClient:
        """A client in this process, which works in ``directory``; ``begun`` is given the ids of what its calls began."""
        client = Client(directory, begun=begun)
        return InProcessClient(
            self._tools, client, program, leave=partial(self._shared.engine.presence.left, client.visitor)
        )

    def http_app(self) -> Starlette:
        """Streamable HTTP at ``/mcp``. Whoever mounts it checks token, Host and Origin, and runs its lifespan."""
        return self.server.streamable_http_app(
            max_request_body_size=_MAX_BODY_BYTES,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    def scoped(self, app: ASGIApp) -> ASGIApp:
        """What serves ``http_app``, with calls bounded by the scopes of clients that signed in, where there are any."""
        return ScopedCalls(app, self.server, _MAX_BODY_BYTES)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Tell clients what happens in the engine, until cancelled."""
        shared = self._shared
        self._notifier = Notifier(shared.engine, shared.knowledge, self._bus, self._transports, shared.pace)
        await self._notifier.run(task_status=task_status)

    @property
    def engine(self) -> Engine:
        return self._shared.engine

    @property
    def tools(self) -> Sequence[ServerTool]:
        return self._tools

    @property
    def knowledge(self) -> Knowledge:
        """What is known of sessions; told of what happens while the MCP server runs."""
        return self._shared.knowledge

    @property
    def planner(self) -> Planner:
        return self._shared.planner

    def _data_changed(self, paths: Sequence[str]) -> None:
        if self._notifier is not None:
            self._notifier.data_changed(paths)


# Puts the server object together: tools, resources, prompts, and the dialect that was asked for.


def every_dialect() -> tuple[str, ...]:
    """The names of the dialects that there are."""
    return registry().names("dialects")


_MOST_FOLLOWED = 1_000

_PAGE = 500
"""Resources that one answer lists."""

_ONLY_FOR_APPS = frozenset(made.name for made in APP_TOOLS)

Lifespan = Callable[[MCPServer[Clients]], AbstractAsyncContextManager[Clients]]


class NotebookServer(ToolServer):
    """The SDK's server, with resources that come and go with the engine's sessions."""

    def __init__(
        self,
        engine: Engine,
        resources: Resources,
        go_on: ServerTool,
        listed: frozenset[str],
        definitions: Mapping[str, Definition],
        *,
        has_apps: bool,
        **options: Any,
    ) -> None:
        """``listed`` are the tools that clients see before they ask for more, ``definitions`` those of all by name.

        ``has_apps`` is whether apps may show them.
        """
        super().__init__(go_on, **options)
        self._engine = engine
        self._notebooks = resources
        self._listed = listed
        self._definitions = definitions
        self._has_apps = has_apps
        lowlevel = self._lowlevel_server
        lowlevel.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        lowlevel.add_request_handler("resources/list", PaginatedRequestParams, self._list)
        lowlevel.add_request_handler("completion/complete", CompleteRequestParams, self._complete)
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, _subscribe)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, _unsubscribe)
        lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, _set_level)

    async def _list_tools(self, context: RequestContext, _: PaginatedRequestParams) -> ListToolsResult:
        asked_for = context.lifespan_context.of(context).toolsets
        sets = toolsets() if asked_for else {}
        names = self._listed.union(made.name for name in asked_for for made in sets[name])
        session, named = context.session, self._engine.settings.app_clients
        if self._has_apps and shows_apps(session.client_capabilities, session.client_params, named):
            return ListToolsResult(tools=with_apps(await super().list_tools(), names))
        listed = [tool for tool in await self.list_tools() if tool.name in names]
        if form_for(context.session, self._engine.settings.structured_clients) == "data":
            schemas = {name: made.output_schema() for name, made in self._definitions.items()}
            listed = [tool.model_copy(update={"output_schema": schemas.get(tool.name)}) for tool in listed]
        return ListToolsResult(tools=listed)

    async def list_tools(self) -> list[Tool]:
        """The tools that a model may call: not those that only apps do."""
        return [tool for tool in await super().list_tools() if tool.name not in _ONLY_FOR_APPS]

    async def _list(self, context: RequestContext, params: PaginatedRequestParams) -> ListResourcesResult:
        # Who asked for the list once is told when it changes.
        context.lifespan_context.of(context).reach = context.session
        before = params.cursor or "0"
        if not re.fullmatch(r"\d{1,6}", before):
            raise MCPError(INVALID_PARAMS, f"There is no cursor {before!r}: begin the list anew")
        resources, start = await self.list_resources(), int(before)
        end = start + _PAGE
        return ListResourcesResult(
            resources=resources[start:end], next_cursor=str(end) if end < len(resources) else None
        )

    async def _complete(self, _: RequestContext, params: CompleteRequestParams) -> CompleteResult:
        given = (params.context.arguments if params.context is not None else None) or {}
        argument = params.argument
        return CompleteResult(completion=completed(self._engine, argument.name, argument.value, given))

    async def list_resources(self) -> list[Resource]:
        return [*await super().list_resources(), *await self._notebooks.listed()]

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        return [*await super().list_resource_templates(), *self._notebooks.templates()]

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[Clients, Any] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        """The text of a prompt.

        Raises:
            MCPError: there is no such prompt, or its arguments are wrong; the reason is in it.
        """
        known = {prompt.name: prompt for prompt in self._prompt_manager.list_prompts()}
        if (problem := prompt_problem(name, arguments or {}, known)) is not None:
            raise MCPError(INVALID_PARAMS, problem)
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            if (reason := reason_of(error)) is None:
                raise
            raise MCPError(INVALID_PARAMS, reason) from error

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Clients, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        content = await self._notebooks.read(str(uri)) or await app_resource(str(uri))
        return [content] if content is not None else await super().read_resource(uri, context)


def build_server(
    shared: Shared,
    tools: Sequence[ServerTool],
    bus: SubscriptionBus,
    lifespan: Lifespan,
    *,
    plugin: DialectPlugin | None,
    about: str,
    listed: frozenset[str],
) -> NotebookServer:
    """The server object; ``about`` is what a client is told first, ``listed`` the tools that it sees first."""
    # A dialect's tools are another system's, whose results have no views.
    for_apps = [as_tool(made, shared) for made in APP_TOOLS] if plugin is None else []
    server = NotebookServer(
        shared.engine,
        Resources(shared.engine, shared.knowledge, shared.names),
        as_tool(ROUND, shared),
        listed,
        {tool.name: tool.definition for tool in tools},
        has_apps=bool(for_apps),
        instructions=about,
        tools=[*tools, *for_apps],
        lifespan=lifespan,
        subscriptions=bus,
        log_level="WARNING",
        # A person's answer comes with the state of what was asked: it lasts as long as the question.
        request_state_security=RequestStateSecurity.ephemeral(
            ttl=max(_STATE_S, shared.engine.options.approvals.timeout_s)
        ),
    )
    for prompt in prompts(shared):
        server.add_prompt(prompt)
    for resource in plugin.resources if plugin is not None else ():
        read = partial(resource.read, shared.engine)
        server.add_resource(
            FunctionResource(uri=resource.uri, name=resource.name, mime_type="application/json", fn=read)
        )
    return server


_STATE_S = 600.0

_OURS = frozenset(definition.name for name in TOOLSETS for definition in TOOLSETS[name])


def _dialect_plugin(name: str | None) -> DialectPlugin | None:
    """A dialect by its name; None for our own tools."""
    if name is None:
        return None
    found: DialectPlugin | None = registry().get("dialects", name)
    if found is None:
        raise CellwrightError(
            f"There is no dialect {name!r}", hint=f"Choose one of: {', '.join(every_dialect())}"
        )
    return found


def _dialect(plugin: DialectPlugin | None, sets: tuple[str, ...]) -> Dialect:
    """A dialect's tools and words; without one our own."""
    own = Dialect(tools_of(sets), instructions(sets))
    return plugin.speak(own) if plugin is not None else own


# What the handshake era asks for and MCPServer has no hook for -------------------------------------------------------


async def _subscribe(context: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
    client = context.lifespan_context.of(context)
    client.reach = context.session
    if len(client.followed) < _MOST_FOLLOWED:
        client.followed[str(params.uri)] = context.session
    return EmptyResult()


async def _unsubscribe(context: RequestContext, params: UnsubscribeRequestParams) -> EmptyResult:
    context.lifespan_context.of(context).followed.pop(str(params.uri), None)
    return EmptyResult()


async def _set_level(context: RequestContext, params: SetLevelRequestParams) -> EmptyResult:
    client = context.lifespan_context.of(context)
    client.log_level, client.reach = params.level, context.session
    return EmptyResult()


# Newline-delimited JSON-RPC over two byte streams, as stdio and the daemon's socket carry it.

_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError)

Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]

Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def message_streams(
    read: ByteReceiveStream, write: ByteSendStream
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Messages of one connection; the reading side ends when the client is gone."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = outgoing.clone()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_messages, read, to_server, refusals)
        tasks.start_soon(_write_messages, from_server, write)
        try:
            yield incoming, outgoing
        finally:
            incoming.close()
            outgoing.close()
            tasks.cancel_scope.cancel()


async def _read_messages(
    read: ByteReceiveStream,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
) -> None:
    async with to_server, refusals:
        try:
            async for line in lines(read):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError:
                    await refusals.send(SessionMessage(_refusal("This line is not a JSON-RPC message")))
                else:
                    await to_server.send(SessionMessage(message))
        except _GONE:
            return


async def _write_messages(
    from_server: MemoryObjectReceiveStream[SessionMessage], write: ByteSendStream
) -> None:
    async with from_server:
        try:
            async for item in from_server:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await write.send(text.encode() + b"\n")
        except _GONE:
            return


def _refusal(message: str) -> JSONRPCMessage:
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR, message=message))
