"""Tools for what the operator named: which connections there are and what they have, and one request to one of them."""

from __future__ import annotations

import json
from typing import Any

import anyio
from mcp.types import ToolAnnotations
from pydantic import Field

from cellwright.connections.digests import answer_digest, schema_digest, use_of
from cellwright.connections.known import Connection, find
from cellwright.errors import CellwrightError, ConnectionFailed
from cellwright.mcp._arguments import Arguments, MaxTokens
from cellwright.mcp.calls import READS, Call, Definition, Reply

__all__ = ["CONNECTION_TOOLS"]

# What an operation does to the world is for the connection to say, which is read-only unless the operator said otherwise.
_OUTSIDE = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_LIST_TOKENS = 1_500
_CALL_TOKENS = 2_000
_LEAST_TOKENS = 100
_DATABASES = frozenset({"postgresql", "mysql", "sqlite", "duckdb"})


class ListConnections(Arguments):
    connection: str | None = Field(default=None, max_length=40)
    search: str = Field(default="", max_length=200, description="Word in a name, or an object store's folder")
    max_tokens: MaxTokens = None


async def connection_list(call: Call, args: ListConnections) -> Reply:
    """Databases, object stores, APIs, MCP servers by name: tables with columns, objects, operations, how code uses them."""
    known = call.engine.connections.known
    chosen = [find(known, args.connection)] if args.connection is not None else list(known.values())
    if not chosen:
        return Reply("No connections: the operator names them under [connections] in cellwright.toml")
    tokens = max((args.max_tokens or _LIST_TOKENS) // len(chosen), _LEAST_TOKENS)
    descriptions: dict[str, str] = {}

    async def look(connection: Connection) -> None:
        descriptions[connection.name] = await _looked_at(call, connection, args.search, tokens)

    async with anyio.create_task_group() as tasks:
        for connection in chosen:
            tasks.start_soon(look, connection)
    return Reply("\n\n".join(descriptions[connection.name] for connection in chosen))


async def _looked_at(call: Call, connection: Connection, search: str, tokens: int) -> str:
    head = f"{connection.name} ({connection.kind}, {connection.rights}): {use_of(connection)}"
    try:
        answer = await call.engine.connections.ask(connection.name, {"do": "schema", "search": search})
        return f"{head}\n{schema_digest(answer.value(), tokens)}"
    except CellwrightError as error:
        return f"{head}\nunreachable: {error}"


class CallConnection(Arguments):
    connection: str = Field(min_length=1, max_length=40)
    operation: str = Field(
        min_length=1,
        max_length=300,
        description="query; of a store: list, read; of an API or MCP server: its own",
    )
    arguments: dict[str, Any] = Field(default_factory=dict, description="sql; of a store: path")
    max_tokens: MaxTokens = None


async def connection_call(call: Call, args: CallConnection) -> Reply:
    """One request to a connection, without a notebook. For more data than you want to read: code in a cell."""
    connection = find(call.engine.connections.known, args.connection)
    answer = await call.engine.connections.ask(connection.name, _request(connection, args))
    value = (
        answer.value() if answer.kind != "bytes" else {"result": answer.payload.decode("utf-8", "replace")}
    )
    return Reply(answer_digest(value, args.max_tokens or _CALL_TOKENS, _as_text), data=value)


def _request(connection: Connection, args: CallConnection) -> dict[str, Any]:
    if connection.kind in {"http", "mcp"}:
        return {"do": "call", "operation": args.operation, "arguments": args.arguments}
    if connection.kind in _DATABASES and not isinstance(args.arguments.get("sql"), str):
        raise ConnectionFailed(
            f"{connection.name} is a database, and takes operation='query'",
            hint='Give arguments={"sql": "SELECT …"}',
        )
    if connection.kind == "s3" and args.operation == "write":
        return {
            "do": "write",
            "path": args.arguments.get("path", ""),
            "data": str(args.arguments.get("data", "")).encode(),
        }
    return {**args.arguments, "do": args.operation}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


CONNECTION_TOOLS = (
    Definition(connection_list, ListConnections, READS),
    Definition(connection_call, CallConnection, _OUTSIDE),
)
