"""Puts the server object together: tools, resources, prompts, and the dialect that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.subscriptions import SubscriptionBus
from mcp.types import (
    EmptyResult,
    InputRequiredResult,
    ListResourcesResult,
    PaginatedRequestParams,
    Resource,
    ResourceTemplate,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from pydantic import AnyUrl

import cellwright
from cellwright.errors import CellwrightError
from cellwright.mcp.calls import Definition, Shared, as_tool
from cellwright.mcp.clients import Clients, RequestContext
from cellwright.mcp.dialects.jlab import JLAB_STATUS_URI, JLAB_TOOLS
from cellwright.mcp.dialects.jlab import status as server_status
from cellwright.mcp.dialects.jupyter import JUPYTER_TOOLS
from cellwright.mcp.dialects.monadic import MONADIC_TOOLS
from cellwright.mcp.prompts import prompts
from cellwright.mcp.resources import Resources
from cellwright.mcp.tools_executions import EXECUTION_TOOLS
from cellwright.mcp.toolsets import chosen_sets, instructions, tools_of

__all__ = ["DIALECTS", "NotebookServer", "build_server"]

DIALECTS = ("srcbook", "jlab", "jupyter", "monadic")

_MOST_FOLLOWED = 1_000
Lifespan = Callable[[MCPServer[Clients]], AbstractAsyncContextManager[Clients]]


class NotebookServer(MCPServer[Clients]):
    """The SDK's server, with resources that come and go with the engine's sessions."""

    def __init__(self, resources: Resources, **options: Any) -> None:
        super().__init__("cellwright", title="Cellwright", version=cellwright.__version__, **options)
        self._notebooks = resources
        lowlevel = self._lowlevel_server
        lowlevel.add_request_handler("resources/list", PaginatedRequestParams, self._list)
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, _subscribe)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, _unsubscribe)
        lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, _set_level)

    async def _list(self, context: RequestContext, _: PaginatedRequestParams) -> ListResourcesResult:
        # Who asked for the list once is told when it changes.
        context.lifespan_context.of(context).reach = context.session
        return ListResourcesResult(resources=await self.list_resources())

    async def list_resources(self) -> list[Resource]:
        return [*await super().list_resources(), *await self._notebooks.listed()]

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        return [*await super().list_resource_templates(), *self._notebooks.templates()]

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Clients, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        content = await self._notebooks.read(str(uri))
        return [content] if content is not None else await super().read_resource(uri, context)


def build_server(
    shared: Shared, bus: SubscriptionBus, lifespan: Lifespan, *, dialect: str | None, toolset: str | None
) -> NotebookServer:
    """The server object.

    Raises:
        CellwrightError: there is no such dialect or toolset.
    """
    sets = chosen_sets(toolset)
    definitions = _definitions(dialect, sets)
    shared = replace(shared, tools=frozenset(definition.name for definition in definitions))
    server = NotebookServer(
        Resources(shared.engine, shared.knowledge),
        instructions=instructions(sets),
        tools=[as_tool(definition, shared) for definition in definitions],
        lifespan=lifespan,
        subscriptions=bus,
        log_level="WARNING",
    )
    for prompt in prompts(shared):
        server.add_prompt(prompt)
    if dialect == "jlab":
        status = partial(server_status, shared.engine)
        server.add_resource(
            FunctionResource(uri=JLAB_STATUS_URI, name="status", mime_type="application/json", fn=status)
        )
    return server


def _definitions(dialect: str | None, sets: tuple[str, ...]) -> tuple[Definition, ...]:
    own = tools_of(sets)
    if dialect is None:
        return own
    tables = {"srcbook": own, "jlab": JLAB_TOOLS, "jupyter": JUPYTER_TOOLS, "monadic": MONADIC_TOOLS}
    if dialect not in tables:
        raise CellwrightError(
            f"There is no dialect {dialect!r}", hint=f"Choose one of: {', '.join(DIALECTS)}"
        )
    if dialect == "srcbook":
        return own
    # A call that outlasts its client's timeout hands back an execution's id: these two take it.
    lasting = [
        definition
        for definition in EXECUTION_TOOLS
        if definition.name in {"execution_wait", "execution_cancel"}
    ]
    return (*tables[dialect], *lasting)


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
