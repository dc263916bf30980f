"""The question whether a program that wants to sign in over HTTP is let in, and what it may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from cellwright.oauth.options import UnknownConnectRequest
from cellwright.oauth.scopes import SCOPES, Scope, upto
from cellwright.web.requests import PageRequest, action, page

if TYPE_CHECKING:
    from cellwright.oauth.own_issuer import OwnIssuer

_MEANS: dict[Scope, str] = {
    "read": "see notebooks and their results",
    "run": "see and edit notebooks, and run code",
    "admin": "do all that, delete notebooks, and start and stop hosts",
}


async def _form(request: PageRequest) -> Response:
    """Ask the user."""
    asked = _asks(request).asked(_id(request))
    scopes = {scope: _MEANS[scope] for scope in upto(asked.scope)}
    return request.html("connect.html", title=f"Connect {asked.client.name}?", asked=asked, scopes=scopes)


async def _allow(request: PageRequest) -> Response:
    """The user says yes; the browser goes on to the program with a code."""
    scope = (await request.form()).get("scope", "")
    if scope not in SCOPES:
        raise UnknownConnectRequest
    return request.done("It is connected", go=_asks(request).approve(_id(request), scope))


async def _refuse(request: PageRequest) -> Response:
    return request.done("It was refused", go=_asks(request).refuse(_id(request)))


def _asks(request: PageRequest) -> OwnIssuer:
    if request.site.asks is None:
        raise UnknownConnectRequest
    return request.site.asks


def _id(request: PageRequest) -> str:
    return str(request.http.path_params["request_id"])


ROUTES = [
    page("/connect/{request_id}", _form, needs="own"),
    action("/connect/{request_id}/allow", _allow, needs="own"),
    action("/connect/{request_id}/refuse", _refuse, needs="own"),
]
