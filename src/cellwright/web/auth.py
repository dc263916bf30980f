"""Who may see the page: nobody passes unsigned, nothing is done that another site asked for, and every answer says what a
browser may load.

The names and addresses that may be used (Host, Origin) are checked before, for machines and people alike.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from itsdangerous import Signer
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.audit import AuditLog, acting
from cellwright.people import Person
from cellwright.web._templates import render
from cellwright.web.identities import LASTS_S, Attempts, Codes, Identities

__all__ = ["SignIn", "own_path", "sign_in_path"]
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
        signer = Signer(self.identities.key, salt="page", digest_method=hashlib.sha256)
        return signer.get_signature(cookie.encode(errors="replace")).decode()

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
