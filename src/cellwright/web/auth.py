"""Who may see the page: nobody passes unsigned, nothing is done that another site asked for, and every answer says what a
browser may load.

The names and addresses that may be used (Host, Origin) are checked before, for machines and people alike.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.audit import AuditLog, acting
from cellwright.people import OWNER, Members, Person
from cellwright.settings.paths import write_private
from cellwright.web.templates import render

__all__ = [
    "Attempts",
    "Codes",
    "Identities",
    "SignIn",
    "obtain_key",
    "own_path",
    "sign",
    "sign_in_path",
    "unsign",
]

_OPEN = ("/assets/", "/verified/")

_ENTRANCE = "/enter"

_LENGTH_DIGITS = 4

_STALE_LINK = "This link was used already, or is older than two minutes. `cellwright ui` makes another."

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)

_ALWAYS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(slots=True)
class SignIn:
    """Signs people in and lets them pass."""

    identities: Identities
    codes: Codes = field(repr=False)
    attempts: Attempts = field(repr=False)
    audit: AuditLog = field(repr=False)

    @property
    def routes(self) -> Sequence[Route]:
        return [
            Route(_ENTRANCE, self._entrance, methods=["GET"]),
            Route(_ENTRANCE, self._enter, methods=["POST"]),
            Route("/leave", self._leave, methods=["POST"]),
            Route("/here", _here, methods=["GET"]),
        ]

    def csrf(self, request: Request) -> str:
        """What the page must send along with every action: another site cannot know it."""
        cookie = request.cookies.get(_cookie_name(request), "")
        signed = b"page " + cookie.encode(errors="replace")
        return hmac.new(self.identities.key, signed, hashlib.sha256).hexdigest()

    def guard(self, app: ASGIApp) -> ASGIApp:
        async def passing(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await send({"type": "websocket.close"})
                return
            request, telling = Request(scope), _with_policy(send)
            refused = self._refusal(request)
            if refused is not None:
                await refused(scope, receive, telling)
                return
            try:
                await app(scope, receive, self._while_welcome(request, telling))
            except* _NoLongerWelcome:
                await telling({"type": "http.response.body", "body": b"", "more_body": False})

        return passing

    # Who passes --------------------------------------------------------------------------------------------------

    def _refusal(self, request: Request) -> Response | None:
        path, changes = request.url.path, request.method not in ("GET", "HEAD")
        if changes and request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _said("This was sent by a page of another site", 403)
        if path == _ENTRANCE or path.startswith(_OPEN):
            return None
        person = self._person(request)
        if person is None:
            return _said("Sign in first", 401) if changes else _to_the_entrance(request)
        request.state.person = person
        if changes and not self._is_own(request):
            return _said("This was not sent by the page itself: load it again", 403)
        return None

    def _person(self, request: Request) -> Person | None:
        return self.identities.with_cookie(request.cookies.get(_cookie_name(request), ""))

    def _is_own(self, request: Request) -> bool:
        given = request.headers.get("x-cellwright-page", "")
        return hmac.compare_digest(given.encode(), self.csrf(request).encode())

    def _while_welcome(self, request: Request, send: Send) -> Send:
        """An answer that goes on and on ends when somebody is shown out, or may do something else than before."""
        person = getattr(request.state, "person", None)

        async def sending(message: Message) -> None:
            if message.get("more_body") and person is not None and self._person(request) != person:
                raise _NoLongerWelcome
            await send(message)

        return sending

    # Coming and going --------------------------------------------------------------------------------------------

    async def _entrance(self, request: Request) -> Response:
        ahead = own_path(request.query_params.get("next", "/"))
        code = request.query_params.get("code")
        # Asking what a link would lead to does not use it up.
        if request.method == "HEAD" or "sec-purpose" in request.headers:
            code = None
        if code and self.codes.redeem(code):
            return self._signed_in(request, self.identities.owner, _onward(ahead), by="link")
        if code:
            self.audit.note_stranger(
                "sign_in", refused="a link that is old or was used", address=_address(request)
            )
        if self._person(request) is not None:
            return RedirectResponse(ahead, 303)
        return _form(ahead, _STALE_LINK if code else None, 410 if code else 200)

    async def _enter(self, request: Request) -> Response:
        # Somebody who is not signed in has nothing long to say.
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > _LENGTH_DIGITS:
            return _said("This is no token", 413)
        given = await request.form()
        token, ahead = str(given.get("token", "")).strip(), own_path(str(given.get("next", "/")))
        address = _address(request)
        # From here to the count nothing is waited for: many tokens at once are looked at one by one.
        if wait_s := math.ceil(self.attempts.wait_s(address)):
            seconds = "1 second" if wait_s == 1 else f"{wait_s} seconds"
            answer = _form(ahead, f"Too many wrong tokens. Try again in {seconds}.", 429)
            answer.headers["retry-after"] = str(wait_s)
            return answer
        person = self.identities.with_token(token)
        if person is None:
            self.attempts.wrong(address)
            self.audit.note_stranger("sign_in", refused="a wrong token on the page", address=address)
            return _form(ahead, "This token is not the right one.", 401)
        return self._signed_in(request, person, RedirectResponse(ahead, 303), by="token")

    async def _leave(self, request: Request) -> Response:
        answer = JSONResponse({"say": "", "parts": {}, "go": _ENTRANCE})
        answer.delete_cookie(_cookie_name(request), httponly=True, samesite="strict")
        return answer

    def _signed_in(self, request: Request, person: Person, answer: Response, *, by: str) -> Response:
        with acting(f"page:{person.name}"):
            self.audit.note("sign_in", role=person.role, with_a=by, address=_address(request))
        answer.set_cookie(
            _cookie_name(request),
            self.identities.cookie(person),
            max_age=LASTS_S,
            httponly=True,
            samesite="strict",
            # A proxy on this machine says so where it speaks https for us; nobody else is believed.
            secure=request.url.scheme == "https",
        )
        return answer


class _NoLongerWelcome(Exception):  # ends an answer, and is no error
    """Somebody was shown out while they were being answered."""


async def _here(_request: Request) -> Response:
    """Says that somebody is signed in, to a page that lost its connection."""
    return Response(status_code=204)


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _cookie_name(request: Request) -> str:
    """With the port: browsers send a machine's cookies to all of its ports."""
    return f"cellwright-{request.url.port}" if request.url.port else "cellwright"


def _to_the_entrance(request: Request) -> Response:
    """A link on another site comes without the cookie, since that is for this site only: the page asks once more itself."""
    asked = asked_path(request)
    if request.headers.get("sec-fetch-site") == "cross-site" and own_path(asked) == asked:
        return _onward(asked)
    return RedirectResponse(sign_in_path(asked), 303)


def _onward(ahead: str) -> Response:
    return HTMLResponse(render("onward.html", ahead=ahead))


def _form(ahead: str, problem: str | None, status: int) -> Response:
    return HTMLResponse(render("enter.html", ahead=ahead, problem=problem), status)


def _said(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)


def _with_policy(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            for name, value in _ALWAYS.items():
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        await send(message)

    return sending


# Where somebody goes on to who has signed in: to a place of this page, whatever a link says. Pure.

# What begins with two slashes, or with what browsers take for them, leads to another site. So do line ends within.
_OWN = re.compile(r"/(?:[\w.~!$&'()*+,;=:@%?-][\w.~!$&'()*+,;=:@%?/-]*)?", re.ASCII)


def own_path(text: str) -> str:
    """A path of this page, or its first page where it is none."""
    return text if _OWN.fullmatch(text) else "/"


def asked_path(request: Request) -> str:
    """The path of a request, with its query."""
    path, query = (request.scope.get(part, b"").decode("latin-1") for part in ("raw_path", "query_string"))
    return f"{path}?{query}" if query else path


def sign_in_path(ahead: str) -> str:
    """Where one signs in who wanted to go somewhere."""
    ahead = own_path(ahead)
    return f"/enter?{urlencode({'next': ahead})}" if ahead != "/" else "/enter"


# Who somebody is: by the token that they bring, and by the cookie that they were given for it.

LASTS_S = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Identities:
    """Everybody who may come in at one listener."""

    token: str = field(repr=False)
    """The listener's own, which is its owner's."""
    key: bytes = field(repr=False)
    members: Members

    def with_token(self, token: str) -> Person | None:
        """Whose token that is."""
        is_owner = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        member = self.members.with_token(token)
        if is_owner:
            return self.owner
        return Person(member.name, member.role) if member is not None else None

    def with_cookie(self, cookie: str) -> Person | None:
        """Whose cookie that is, as they are now."""
        about = unsign(cookie, self.key, time.time()) or {}
        name = about.get("name")
        if not isinstance(name, str) or about.get("stamp") != self._stamp(name):
            return None
        if name == OWNER:
            return self.owner
        member = self.members.named(name)
        return Person(name, member.role) if member is not None else None

    def cookie(self, person: Person) -> str:
        """What somebody brings from now on in place of the token."""
        until = time.time() + LASTS_S
        return sign({"name": person.name, "stamp": self._stamp(person.name), "until": until}, self.key)

    @property
    def owner(self) -> Person:
        return Person(OWNER, "own")

    def _stamp(self, name: str) -> str | None:
        """What a cookie says besides a name: it is another for whoever comes after a removal, or brings a new token."""
        if name == OWNER:
            return hmac.new(self.key, b"owner " + self.token.encode(), "sha256").hexdigest()[:16]
        member = self.members.named(name)
        return member.stamp if member is not None else None


# Texts that only this storage directory's daemon can have written: who is signed in, until when. Pure but
# for the key.

_KEY_BYTES = 32


def obtain_key(path: Path) -> bytes:
    """The key in a file that only its user can read, made where there is none that is whole."""
    if path.is_file() and len(key := path.read_bytes()) == _KEY_BYTES:
        return key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(_KEY_BYTES)
    write_private(str(path), key)
    return key


def sign(about: dict[str, Any], key: bytes) -> str:
    """Data with a signature, as a cookie can hold it."""
    body = base64.urlsafe_b64encode(json.dumps(about, separators=(",", ":")).encode()).decode().rstrip("=")
    return f"{body}.{_signature(body, key)}"


def unsign(text: str, key: bytes, now: float) -> dict[str, Any] | None:
    """The data, where the signature is right and ``until`` has not passed."""
    body, _, signature = text.partition(".")
    if not hmac.compare_digest(_signature(body, key).encode(), signature.encode(errors="replace")):
        return None
    about: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return about if about.get("until", 0) > now else None


def _signature(body: str, key: bytes) -> str:
    return hmac.new(key, body.encode(errors="replace"), hashlib.sha256).hexdigest()


# How long somebody who gave wrong tokens has to wait: longer with each, and forgotten bit by bit.

_MOST_ADDRESSES = 1_000

_MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many wrong tokens a minute cost nothing."""

    free: int

    @property
    def forgets_in_s(self) -> float:
        """How long until one of them is forgotten."""
        return 60 / self.free


HERE = Allowance(5)

EVERYWHERE = Allowance(60)


@dataclass(frozen=True, slots=True)
class Tally:
    """Wrong tokens that are not forgotten, as of the last one."""

    count: float = 0.0
    at: float = 0.0

    def with_another(self, now: float, allowance: Allowance) -> Tally:
        left = max(0.0, self.count - (now - self.at) / allowance.forgets_in_s)
        return Tally(left + 1, now)

    def wait_s(self, now: float, allowance: Allowance) -> float:
        """How long until the next token is looked at."""
        beyond = round(self.count) - allowance.free
        return max(0.0, self.at + 2.0 ** min(beyond, _MOST_DOUBLINGS) - now) if beyond >= 0 else 0.0


class Attempts:
    """The wrong tokens that one daemon was given."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._everywhere = Tally()
        self._by_address: dict[str, Tally] = {}

    def wait_s(self, address: str) -> float:
        """How long somebody has to wait."""
        now = self._clock()
        here = self._by_address.get(address, Tally())
        return max(here.wait_s(now, HERE), self._everywhere.wait_s(now, EVERYWHERE))

    def wrong(self, address: str) -> None:
        """A wrong token came from there."""
        now = self._clock()
        self._everywhere = self._everywhere.with_another(now, EVERYWHERE)
        # Taken out and put in again, so that the oldest is the first.
        self._by_address[address] = self._by_address.pop(address, Tally()).with_another(now, HERE)
        if len(self._by_address) > _MOST_ADDRESSES:
            del self._by_address[next(iter(self._by_address))]


# One-time codes, by which a link signs its reader in: each for two minutes, once, and in memory only.

_VALID_S = 120.0


class Codes:
    """The codes of one daemon that are still good."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def issue(self) -> str:
        """A new code."""
        now = self._clock()
        self._until = {digest: until for digest, until in self._until.items() if until > now}
        code = secrets.token_urlsafe(32)
        self._until[_digest(code)] = now + _VALID_S
        return code

    def redeem(self, code: str) -> bool:
        """Whether a code was good; it no longer is."""
        return self._until.pop(_digest(code), 0.0) > self._clock()


def _digest(code: str) -> bytes:
    """Looked up instead of the code: how long that takes tells nothing about any code."""
    return hashlib.sha256(code.encode(errors="replace")).digest()
