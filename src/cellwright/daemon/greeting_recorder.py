"""Writes ``greetings.json`` anew: ``python -m cellwright.daemon.greeting_recorder``, after the server's first words changed."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from cellwright.assembly import open_engine
from cellwright.daemon._early_responder import DISCOVER, FILE, OTHER, VERSION_KEY
from cellwright.mcp import DIALECTS, McpServer
from cellwright.settings import Settings

__all__ = ["record"]

_CLIENT = {"name": "recording", "version": "1"}
_CHUNK = 1024 * 1024


def main() -> None:
    text = json.dumps(anyio.run(record), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    Path(FILE).write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")


async def record() -> dict[str, Any]:
    """What the real server answers to every first question that clients ask."""
    dialects: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as root:
        async with open_engine(Settings(root=Path(root), standby_kernels=0), ephemeral=True) as engine:
            for dialect in (None, *DIALECTS):
                dialects[dialect or ""] = await _record_server(McpServer(engine, dialect=dialect))
    return {"sdk": importlib.metadata.version("mcp"), "dialects": dialects}


async def _record_server(mcp_server: McpServer) -> dict[str, Any]:
    initialize = {}
    for version in (*HANDSHAKE_PROTOCOL_VERSIONS, OTHER):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": _CLIENT}
        initialize[version] = await _ask(mcp_server, "initialize", params)
    discover = {}
    for version in MODERN_PROTOCOL_VERSIONS:
        meta = {
            VERSION_KEY: version,
            "io.modelcontextprotocol/clientInfo": _CLIENT,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        discover[version] = await _ask(mcp_server, DISCOVER, {"_meta": meta})
    return {"initialize": initialize, DISCOVER: discover}


async def _ask(mcp_server: McpServer, method: str, params: dict[str, Any]) -> Any:
    theirs, ours = socket.socketpair()
    async with (
        await anyio.abc.SocketStream.from_socket(theirs) as server,
        await anyio.abc.SocketStream.from_socket(ours) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(mcp_server.serve, server, server)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await client.send(json.dumps(message).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += await client.receive(_CHUNK)
        tasks.cancel_scope.cancel()
    return json.loads(answer)["result"]


if __name__ == "__main__":
    main()
