"""Who may speak to a TCP listener: the right name, the right page, the right token, checked in this order.

Machines bring the listener's token with every request, or an access token where its settings name an issuer (``oauth``).
People sign in: the page checks that itself (``web.auth``), behind the same names.

The name (Host) and the page (Origin) keep a web site that the user happens to visit from reaching a listener on
loopback, also by DNS rebinding; the token keeps everybody else out. A page that may ask machines' addresses may also
read the answers (CORS), with a token and without cookies. Knows nothing of what is behind it.
"""

from __future__ import annotations

import hmac
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.errors import CellwrightError
from cellwright.oauth.scopes import USUAL, allows

if TYPE_CHECKING:
    from cellwright.audit import AuditLog
    from cellwright.oauth.token_gate import TokenGate

__all__ = ["MACHINES", "Gate", "Guard", "Refusal", "misdirection", "untrusted"]

MACHINES = ("/mcp", "/events")

# The same for everybody and in no way secret. A frame without an origin loads its script from here, and Firefox then says
# "Origin: null".
_PUBLIC = "/assets/"

_WRONG_TOKEN = 401
_NOBODY_KNOWS = 503
_READABLE = ("Mcp-Session-Id", "WWW-Authenticate")
"""What a web page's program must know of an answer: its session, and where it can sign in."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """What is let in, and the one token."""

    token: str
    hosts: frozenset[str]
    origins: frozenset[str]


class Guard:
    """An ASGI application in front of another, or of two: one for machines, and one for people, who sign in there."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: tuple[str, ...] = (),
        origins: tuple[str, ...] = (),
        people: ASGIApp | None = None,
        audit: AuditLog | None = None,
        tokens: TokenGate | None = None,
    ) -> None:
        """Only what ``app`` serves at ``MACHINES`` is behind the token where there is something for ``people``.

        ``tokens`` lets machines in that bring an access token, and tells them where to get one.
        """
        if not token:
            raise ValueError("a listener needs a token")
        self._app = app
        self._people = people
        self._audit = audit
        self._tokens = tokens
        self._gate = Gate(
            token,
            frozenset(host.lower() for host in hosts),
            frozenset(origin.lower().rstrip("/") for origin in origins),
        )
        self._machines = CORSMiddleware(
            self._for_machines,
            allow_origins=self._gate.origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            expose_headers=_READABLE,
            allow_private_network=True,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        server, headers, path = scope.get("server") or ("", 0), Headers(scope=scope), scope["path"]
        is_page = self._people is not None and not path.startswith(MACHINES)
        is_public = is_page and scope.get("method") == "GET" and path.startswith(_PUBLIC)
        app = self._people if is_page and path not in self._sign_in_paths else self._machines
        assert app is not None
        found = misdirection(headers, server, self._gate, is_public=is_public)
        with suppress(ClientDisconnect):  # who hangs up while sending a body wants no answer
            await (app(scope, receive, send) if found is None else _refuse(scope, send, found))

    @property
    def _sign_in_paths(self) -> frozenset[str]:
        return self._tokens.paths if self._tokens is not None else frozenset()

    async def _for_machines(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What machines ask: where they can sign in, and with a token everything else."""
        if self._tokens is not None and scope["path"] in self._tokens.paths:
            await self._tokens.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        found = untrusted(headers, self._gate)
        if found is not None and self._tokens is not None:
            found = await _signed_in(self._tokens, headers, scope)
        if found is not None and found.status == _WRONG_TOKEN and self._audit is not None:
            client = scope.get("client") or ("", 0)
            self._audit.note_stranger("sign_in", refused="no token, or a wrong one", address=client[0])
        if found is not None:
            await _refuse(scope, send, found)
            return
        scope.setdefault("state", {})["machine"] = True  # whom the listener knows
        await self._app(scope, receive, send)


def untrusted(headers: Headers, gate: Gate) -> Refusal | None:
    """Why a request's token is not the listener's, or none if it is."""
    given = _bearer(headers)
    if given is None or not hmac.compare_digest(given.encode(), gate.token.encode()):
        challenge = ((b"www-authenticate", b'Bearer realm="cellwright"'),)
        return Refusal(_WRONG_TOKEN, "A bearer token is needed: Authorization: Bearer …", challenge)
    return None


async def _signed_in(tokens: TokenGate, headers: Headers, scope: Scope) -> Refusal | None:
    """Why an access token does not let a request in; the request's state says who came where it does."""
    given = _bearer(headers)
    if given is None:
        return _challenged(tokens, _WRONG_TOKEN, "Sign in, or bring a bearer token: Authorization: Bearer …")
    try:
        signed_in = await tokens.admit(given)
    except CellwrightError as error:
        return Refusal(_NOBODY_KNOWS, error.message)
    if signed_in is None:
        about = "The token is wrong, has expired, or is for another server"
        return _challenged(tokens, _WRONG_TOKEN, about, "invalid_token")
    if not allows(signed_in.token.scopes, "read"):
        return _challenged(tokens, 403, "The token has none of the scopes", "insufficient_scope")
    scope.setdefault("state", {})["signed_in"] = signed_in
    return None


def _challenged(
    tokens: TokenGate,
    status: int,
    about: str,
    problem: Literal["invalid_token", "insufficient_scope"] | None = None,
) -> Refusal:
    challenge = tokens.resource.challenge(USUAL, problem, about if problem else "")
    return Refusal(status, about, ((b"www-authenticate", challenge.encode()),))


def _bearer(headers: Headers) -> str | None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def misdirection(
    headers: Headers, server: tuple[str, int | None], gate: Gate, *, is_public: bool = False
) -> Refusal | None:
    """Why a request is not for this server, or comes from a page that may not ask it."""
    hosts = headers.getlist("host")
    name = _host_name(hosts[0]) if len(hosts) == 1 else None
    if name is None or not _is_own(name, server[0], gate):
        return Refusal(421, "This server is not addressed by that Host; see the setting allowed_hosts")
    origin = headers.get("origin")
    if is_public and origin == "null":
        return None
    if origin is not None and not _may_come_from(origin.lower(), hosts[0].lower(), gate):
        return Refusal(403, "This Origin may not use the server; see the setting allowed_origins")
    return None


def _host_name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # reading it checks it
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and parts.username is None else None


def _is_own(name: str, address: str, gate: Gate) -> bool:
    """An address cannot be rebound, so the one that the request came in on is always right; names must be known."""
    if name in gate.hosts or name == address.lower():
        return True
    return name in _LOOPBACK and address in _LOOPBACK


def _may_come_from(origin: str, host: str, gate: Gate) -> bool:
    return origin in gate.origins or origin in (f"http://{host}", f"https://{host}")


async def _refuse(scope: Scope, send: Send, found: Refusal) -> None:
    body = json.dumps({"error": found.message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        *found.headers,
    ]
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
    start: Message = {"type": f"{kind}.start", "status": found.status, "headers": headers}
    await send(start)
    await send({"type": f"{kind}.body", "body": body})
