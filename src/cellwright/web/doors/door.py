"""The door of the page: nobody passes unsigned, nothing is done that another site asked for, and every answer says what a
browser may load.

The names and addresses that may be used (Host, Origin) are checked before, for machines and people alike.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.web.doors.cookies import sign, unsign
from cellwright.web.people import Person
from cellwright.web.templates import render

__all__ = ["Door"]

COOKIE = "cellwright"
_DAYS = 30
_OPEN = ("/enter", "/assets/", "/verified/")
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
class Door:
    """Signs people in and lets them pass."""

    token: str = field(repr=False)
    key: bytes = field(repr=False)

    @property
    def routes(self) -> Sequence[Route]:
        return [Route("/enter", self._enter, methods=["GET", "POST"])]

    def csrf(self, request: Request) -> str:
        """What the page must send along with every deed: another site cannot know it."""
        return _csrf(request.cookies.get(COOKIE, ""), self.key)

    def guard(self, app: ASGIApp) -> ASGIApp:
        async def passing(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            request = Request(scope)
            refused = self._refusal(request)
            await (refused or app)(scope, receive, _with_policy(send))

        return passing

    def _refusal(self, request: Request) -> Response | None:
        if request.url.path.startswith(_OPEN):
            return None
        person = self._person(request)
        if person is None:
            return RedirectResponse("/enter", 303) if request.method == "GET" else _said("Sign in first", 401)
        request.state.person = person
        if request.method != "GET" and not self._is_own(request):
            return _said("This was not sent by the page itself: load it again", 403)
        return None

    def _person(self, request: Request) -> Person | None:
        about = unsign(request.cookies.get(COOKIE, ""), self.key, time.time())
        return Person(about["name"], about["role"]) if about is not None else None

    def _is_own(self, request: Request) -> bool:
        given = request.headers.get("x-cellwright-page", "")
        return hmac.compare_digest(given.encode(), self.csrf(request).encode())

    async def _enter(self, request: Request) -> Response:
        if request.method == "GET":
            return Response(render("enter.html", wrong=False), media_type="text/html")
        given = str((await request.form()).get("token", ""))
        if not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            return Response(render("enter.html", wrong=True), 401, media_type="text/html")
        return self._signed_in(Person("owner", "own"))

    def _signed_in(self, person: Person) -> Response:
        until = time.time() + _DAYS * 86_400
        answer = RedirectResponse("/", 303)
        signed = sign({"name": person.name, "role": person.role, "until": until}, self.key)
        answer.set_cookie(COOKIE, signed, max_age=_DAYS * 86_400, httponly=True, samesite="strict")
        return answer


def _csrf(cookie: str, key: bytes) -> str:
    return hmac.new(key, b"page " + cookie.encode(errors="replace"), hashlib.sha256).hexdigest()


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
