"""Writes ``greetings.json`` anew: ``python -m cellwright.daemon.greeting_recorder``, after a tool, a prompt or the server's first words changed."""

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

import cellwright
from cellwright.assembly import open_engine
from cellwright.daemon._recorded_answers import DISCOVER, FILE, LISTS, OTHER, VERSION_KEY
from cellwright.mcp import McpServer, every_dialect
from cellwright.mcp.calls import ServerTool, TimeLimits
from cellwright.mcp.toolsets import ALL, CORE, TOOLSETS, chosen_sets
from cellwright.settings import Settings

__all__ = ["record"]

_CLIENT = {"name": "recording", "version": "1"}
_CHUNK = 1024 * 1024
_LINE_DEPTH = 4
# Each limit of a tool's time alone, so that what a default is a multiple of shows.
_LIMITS = {
    "cell_timeout_s": TimeLimits(cell_s=1, script_s=0),
    "run_timeout_s": TimeLimits(cell_s=0, script_s=1),
}


def main() -> None:
    Path(FILE).write_text(_text(anyio.run(record)) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")


def _text(value: Any, depth: int = 0) -> str:
    """The record with a tool, or an answer, on a line: two people may change two tools. Keys stay in their order."""
    if not isinstance(value, dict) or not value or depth == _LINE_DEPTH:
        return json.dumps(value, ensure_ascii=False)
    members = [
        f"{' ' * (depth + 1)}{json.dumps(key)}: {_text(below, depth + 1)}" for key, below in value.items()
    ]
    return "{\n" + ",\n".join(members) + "\n" + " " * depth + "}"


async def record() -> dict[str, Any]:
    """What the real server answers to every question that clients ask before their first call."""
    with tempfile.TemporaryDirectory() as root:
        async with open_engine(Settings(root=Path(root), standby_kernels=0), ephemeral=True) as engine:
            servers = {
                dialect or "": {
                    name: McpServer(engine, dialect=dialect, toolset=name) for name in (CORE, *TOOLSETS)
                }
                for dialect in (None, *every_dialect())
            }
            whole = McpServer(engine)
            recorded: dict[str, Any] = {
                "initialize": {
                    version: _untold(await _ask(whole, "initialize", _hello(version)))
                    for version in (*HANDSHAKE_PROTOCOL_VERSIONS, OTHER)
                },
                DISCOVER: {
                    version: _untold(await _ask(whole, DISCOVER, _modern(version)))
                    for version in MODERN_PROTOCOL_VERSIONS
                },
                "envelopes": {
                    version: _without(await _ask(whole, "prompts/list", _modern(version)), "prompts")
                    for version in MODERN_PROTOCOL_VERSIONS
                },
            }
            for method in ("prompts/list", "resources/templates/list"):
                recorded[method] = {
                    dialect: await _listed(by_set["notebooks"], method) for dialect, by_set in servers.items()
                }
            recorded["tools"] = {dialect: await _tools(by_set) for dialect, by_set in servers.items()}
            recorded["instructions"] = {
                dialect: {name: one.server.instructions or "" for name, one in by_set.items()}
                for dialect, by_set in servers.items()
            }
    versions = {"package": cellwright.__version__, "sdk": importlib.metadata.version("mcp")}
    return {**versions, "sets": list(chosen_sets(ALL)), "limits": list(_LIMITS), **recorded}


async def _tools(by_set: dict[str, McpServer]) -> dict[str, Any]:
    """The tools of one dialect, and which of them each set has."""
    definitions: dict[str, Any] = {}
    sets: dict[str, list[str]] = {}
    for name, mcp_server in by_set.items():
        listed = await _listed(mcp_server, "tools/list")
        before = "core:" if name == CORE else ""
        sets[name] = [before + tool["name"] for tool in listed]
        limits = {tool.name: _limits(tool) for tool in mcp_server.tools}
        definitions |= {
            before + tool["name"]: {"tool": tool, "limits": limits[tool["name"]]} for tool in listed
        }
    return {"sets": sets, "definitions": definitions}


def _limits(tool: ServerTool) -> dict[str, tuple[str, float]]:
    """The setting that each of a tool's published defaults is a multiple of, and the factor."""
    found = {}
    for setting, limits in _LIMITS.items():
        for name, factor in tool.definition.operators_defaults(limits).items():
            if factor:
                found[name] = setting, factor
    return found


def _hello(version: str) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": _CLIENT}


def _modern(version: str) -> dict[str, Any]:
    meta = {
        VERSION_KEY: version,
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"_meta": meta}


async def _listed(mcp_server: McpServer, method: str) -> Any:
    """A list without what the newest protocol puts around it."""
    return (await _ask(mcp_server, method, _modern(MODERN_PROTOCOL_VERSIONS[-1])))[LISTS[method]]


def _untold(result: dict[str, Any]) -> dict[str, Any]:
    """A greeting without the instructions, which are another for each toolset."""
    return _without(result, "instructions")


def _without(result: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != name}


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
