"""The first line on the daemon's socket: who comes and what for. All that follows depends on it.

``mcp`` is followed by MCP, one JSON-RPC message a line. Every other request is answered with one line of JSON. A
connection that begins with anything else is taken for an MCP client that came without a pump.
"""

from __future__ import annotations

import json

import cellwright

__all__ = ["LONGEST_HANDSHAKE", "encode_handshake", "parse_handshake"]

LONGEST_HANDSHAKE = 256 * 1024
_KEY = "cellwright"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def encode_handshake(want: str, **details: Any) -> bytes:
    return json.dumps({_KEY: cellwright.__version__, "want": want, **details}).encode() + b"\n"


def parse_handshake(line: bytes) -> dict[str, Any] | None:
    """What a first line wants, or none if it is no hello."""
    try:
        handshake = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(handshake, dict) and _KEY in handshake and isinstance(handshake.get("want"), str):
        return handshake
    return None
