"""Another MCP server, inside a broker: one at an address (streamable HTTP), or a program that is started here (stdio).

A connection that only reads has the tools that the server annotates as read-only. The server is asked for tools, and
offered nothing in return: no sampling, no roots, no questions to people.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, Implementation, TextContent, Tool

from cellwright.connections._http import signed
from cellwright.connections._services import Given, Refused, Reply, described, json_reply
from cellwright.rlimits import unlimited_children
from cellwright_kernel import spawn

__all__ = ["ToolServer"]

_MOST_TOOLS = 500
_MOST_PAGES = 50
_LONGEST_TYPE = 60
_LONGEST_FAILURE = 2_000


class ToolServer:
    """A session with a server; opened with the first request, and again after it broke."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._opened = ExitStack()
        self._session: tuple[BlockingPortal, Client] | None = None
        self._tools: dict[str, Tool] = {}

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        does = {"call": self._call, "schema": self._schema, "show": self._show, "tools": self._definitions}
        return described(request, "mcp", does)

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        word = str(request.get("search", "")).casefold()
        every = (_told(tool) for tool in self._listed())
        found = [one for one in every if word in f"{one['name']} {one['about']}".casefold()]
        return json_reply({"operations": found[:_MOST_TOOLS], "more": max(0, len(found) - _MOST_TOOLS)})

    def _definitions(self, _: Mapping[str, Any]) -> Reply:
        """The tools as a model is told of them."""
        tools = [
            {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
            for tool in self._listed()
        ]
        return json_reply({"tools": tools[:_MOST_TOOLS]})

    def _call(self, request: Mapping[str, Any]) -> Reply:
        """A tool's structured content for code; else its text, or its blocks where there is more than text."""
        result = self._called(request)
        blocks = [block.model_dump(mode="json", exclude_none=True) for block in result.content]
        if (value := result.structured_content) is None:
            value = _text(result) if all(block["type"] == "text" for block in blocks) else blocks
        return self._bounded({"result": value})

    def _show(self, request: Mapping[str, Any]) -> Reply:
        """A tool's text and pictures, for a model."""
        result = self._called(request)
        pictures = [
            {"data": block.data, "mime_type": block.mime_type}
            for block in result.content
            if block.type == "image"
        ]
        return self._bounded({"text": _text(result), "pictures": pictures})

    def _bounded(self, value: dict[str, Any]) -> Reply:
        reply = json_reply(value)
        if len(reply.payload) > self._given.max_bytes:
            raise Refused(
                f"The answer has {len(reply.payload):,} bytes, and {self._given.max_bytes:,} are taken (max_bytes)",
                "Ask for less, or for a page of it",
            )
        return reply

    def _called(self, request: Mapping[str, Any]) -> CallToolResult:
        name = str(request.get("operation"))
        if name not in self._tools:
            self._listed()
        if (tool := self._tools.get(name)) is None:
            raise Refused(
                f"{self._given.name} has no operation {name!r}", "Search its operations with connection_list"
            )
        if not self._may(tool):
            raise Refused(
                f"{name} is not annotated as read-only, and connection {self._given.name!r} is",
                "The operator can set read_only = false for it",
            )
        result: CallToolResult = self._asked("call_tool", name, dict(request.get("arguments") or {}))
        if result.is_error:
            raise Refused(f"{name}: {_text(result) or 'it failed, and does not say why'}")
        return result

    def _may(self, tool: Tool) -> bool:
        told = tool.annotations
        return not self._given.read_only or (told is not None and told.read_only_hint is True)

    def _listed(self) -> list[Tool]:
        """The tools that may be called, as the server tells them now."""
        found: dict[str, Tool] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = self._asked("list_tools", cursor=cursor)
            found |= {tool.name: tool for tool in page.tools}
            cursor = page.next_cursor
            if not cursor:
                break
        self._tools = found
        return [tool for tool in found.values() if self._may(tool)]

    # The session with it -----------------------------------------------------------------------------------------

    def _asked(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            portal, client = self._session or self._open()
            return portal.call(lambda: getattr(client, method)(*arguments, **options))
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: transports raise what they like, in groups, with addresses in it
            if not _is_an_answer(error):
                self._close()
            raise Refused(
                f"The MCP server {self._given.name!r} {'refused' if _is_an_answer(error) else 'cannot be reached'}: "
                f"{_why(error)[:_LONGEST_FAILURE]}",
                "Check its arguments" if _is_an_answer(error) else "Check its command or address",
            ) from None

    def _open(self) -> tuple[BlockingPortal, Client]:
        with unlimited_children():
            portal = self._opened.enter_context(start_blocking_portal())
            client = self._opened.enter_context(portal.wrap_async_context_manager(_client(self._given)))
        self._session = portal, client
        return self._session

    def _close(self) -> None:
        self._session, opened, self._opened = None, self._opened, ExitStack()
        with suppress(Exception):  # as above, and it is over anyway
            opened.close()


@asynccontextmanager
async def _client(given: Given) -> AsyncIterator[Client]:
    about = Implementation(name="cellwright", version=version("cellwright"))
    if given.command:
        async with Client(stdio_client(_program(given)), client_info=about) as client:
            yield client
        return
    headers, query = signed(given, {}, given.query)
    address = f"{given.url}?{urlencode(query)}" if query else given.url
    async with (
        httpx2.AsyncClient(headers=headers, timeout=given.timeout_s, trust_env=False) as http,
        Client(streamable_http_client(address, http_client=http), client_info=about) as client,
    ):
        yield client


def _program(given: Given) -> StdioServerParameters:
    """The server's program, which ends with this process; the credential is one of its variables."""
    directory = given.directory or str(Path.home())
    if shutil.which(given.command[0], path=None) is None and not Path(directory, given.command[0]).is_file():
        raise Refused(f"There is no program {given.command[0]!r} for {given.name!r}", "Check its command")
    kind, _, name = given.auth.partition(":")
    return StdioServerParameters(
        command=sys.executable,
        args=[spawn.__file__, str(os.getpid()), *given.command],
        env={name: given.password} if kind == "env" and given.password else {},
        cwd=directory,
    )


# What the SDK says for a server that is gone, and for one that has forgotten us.
_LOST = frozenset({"Connection closed", "Session terminated"})


def _is_an_answer(error: Exception) -> bool:
    """Whether the server said it, and will answer the next request."""
    return isinstance(error, MCPError) and error.message not in _LOST


def _why(error: BaseException) -> str:
    """What happened, without an address, which may carry a token."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Refused | MCPError):
        return error.message
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


# What a tool takes, in a word for each argument ------------------------------------------------------------------


def _told(tool: Tool) -> dict[str, Any]:
    schema = tool.input_schema
    needed = schema.get("required") or ()
    known = schema.get("properties") or {}
    arguments = [[name, name in needed, _type(one)] for name, one in known.items() if isinstance(one, dict)]
    return {"name": tool.name, "about": " ".join((tool.description or "").split()), "arguments": arguments}


def _type(schema: Any) -> str:
    """An argument's type, as short as it can be said."""
    return "|".join(dict.fromkeys(_types(schema)))[:_LONGEST_TYPE]


def _types(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):  # `true` is a schema, too: of anything
        return
    if values := schema.get("enum"):
        yield from (json.dumps(one, ensure_ascii=False) for one in values)
        return
    for other in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())):
        yield from _types(other)
    kind = schema.get("type")
    if kind == "array":
        yield f"{_type(schema.get('items') or {})}[]"
    elif isinstance(kind, str):
        yield kind
    elif isinstance(kind, list):
        yield from map(str, kind)
