"""What a client that signed in over HTTP may call: a tool that its token's scopes do not reach is answered 403.

What was judged is what is passed on, written anew: a body that two readers understand differently is read once. Who
brings the listener's own token may call everything, and is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.oauth.scopes import SCOPES, allows
from cellwright.oauth.scopes import Scope as TokenScope

if TYPE_CHECKING:
    from cellwright.oauth.token_gate import SignedIn

__all__ = ["ScopedCalls", "ScopesOfTools", "needed_scope"]


class ScopesOfTools(Protocol):
    """What a server knows of its tools."""

    def called(self, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The tool that a call comes to, where it is passed on."""

    def scope_of(self, tool: str) -> TokenScope:
        """The scope that it needs."""


class ScopedCalls:
    """An ASGI application in front of the one that speaks MCP."""

    def __init__(self, app: ASGIApp, tools: ScopesOfTools, most_bytes: int) -> None:
        self._app = app
        self._tools = tools
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        signed_in: SignedIn | None = scope.get("state", {}).get("signed_in")
        if signed_in is not None:
            # The SDK lets a session be used by whom it was begun by.
            scope["user"] = signed_in.user
        if signed_in is None or scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _whole_body(Request(scope, receive), self._most_bytes)
        if body is None:
            await _error_response("The message is too long", 413)(scope, receive, send)
            return
        try:
            message = json.loads(body.decode())
        except (ValueError, RecursionError):
            await _error_response("This is not a JSON-RPC message", 400)(scope, receive, send)
            return
        needed, what = needed_scope(message, self._tools)
        if not allows(signed_in.token.scopes, needed):
            await _insufficient(signed_in, needed, what)(scope, receive, send)
            return
        read = json.dumps(message).encode()
        headers = MutableHeaders(scope=scope)
        headers["content-length"] = str(len(read))
        await self._app(scope, _replayed(read, receive), send)


def needed_scope(message: Any, tools: ScopesOfTools) -> tuple[TokenScope, str]:
    """The scope that a message needs, and for what: of a batch the widest. Pure."""
    messages = message if isinstance(message, list) else [message]
    found: tuple[TokenScope, str] = "read", "this"
    for one in messages:
        needed = _of_one(one, tools)
        if SCOPES.index(needed[0]) > SCOPES.index(found[0]):
            found = needed
    return found


def _of_one(message: Any, tools: ScopesOfTools) -> tuple[TokenScope, str]:
    if not isinstance(message, Mapping) or message.get("method") != "tools/call":
        return "read", "this"
    params = message.get("params")
    name = params.get("name") if isinstance(params, Mapping) else None
    if not isinstance(params, Mapping) or not isinstance(name, str):
        return "read", "this"
    arguments = params.get("arguments")
    tool, _ = tools.called(name, arguments if isinstance(arguments, dict) else {})
    return tools.scope_of(tool), tool


def _insufficient(signed_in: SignedIn, needed: TokenScope, what: str) -> Response:
    about = f"{what} needs the scope {needed}"
    challenge = signed_in.resource.challenge(needed, "insufficient_scope", about)
    body = {"error": "insufficient_scope", "error_description": about, "scope": needed}
    return JSONResponse(body, 403, headers={"www-authenticate": challenge, "cache-control": "no-store"})


def _error_response(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)


async def _whole_body(request: Request, most_bytes: int) -> bytes | None:
    """None where it is longer."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def receiving() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
