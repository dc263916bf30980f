"""What the server answers to a client's first question, known before the server is there.

``greetings.json`` holds what the real server said, for one release of the SDK; a test compares the two, and
``python -m cellwright.daemon.greeting_recorder`` writes it anew. Where the file does not fit, the client waits a second.
"""

from __future__ import annotations

import json
import os
import sys

__all__ = ["DISCOVER", "FILE", "OTHER", "VERSION_KEY", "Greetings"]

FILE = os.path.join(os.path.dirname(__file__), "greetings.json")
DISCOVER = "server/discover"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
OTHER = "other"
"""Stands for every protocol version that the server does not know."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Greetings:
    """Answers by dialect, method and protocol version."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}
        try:
            with open(FILE, encoding="utf-8") as file:
                recorded = json.load(file)
        except (OSError, ValueError):
            return
        if _is_installed(recorded["sdk"]):
            self._answers = recorded["dialects"]

    def answer(self, line: bytes, dialect: object) -> dict[str, Any] | None:
        """The reply to a first message, if it is one that has a known reply."""
        try:
            message = json.loads(line)
            method, ident, params = message["method"], message["id"], message["params"]
            version = params["_meta"][VERSION_KEY] if method == DISCOVER else params["protocolVersion"]
            well_formed = method == DISCOVER or (
                isinstance(params["clientInfo"]["name"], str) and isinstance(params["capabilities"], dict)
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not well_formed or not isinstance(version, str) or not isinstance(ident, str | int):
            return None
        if not isinstance(method, str) or not isinstance(dialect, str | None):
            return None
        known = self._answers.get(dialect or "", {}).get(method, {})
        result = known.get(version, known.get(OTHER))
        return {"jsonrpc": "2.0", "id": ident, "result": result} if result is not None else None


def _is_installed(sdk: str) -> bool:
    """Whether the SDK is of that release: looked up by name, as importing it is what takes so long."""
    return any(os.path.isdir(os.path.join(place, f"mcp-{sdk}.dist-info")) for place in sys.path)
