"""Newline-delimited JSON-RPC over two byte streams, as stdio and the daemon's socket carry it.

Only frames and unframes: what a message means is the SDK's business. A line that is no message is answered as
JSON-RPC asks; one that never ends closes the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError

from cellwright.unixstreams import lines

__all__ = ["Incoming", "Outgoing", "message_streams"]

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
