"""The verified view of a session, the one file that it can be taken away as, and the links that it is shared by."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError, UnknownSession
from cellwright.formats.certificates import proof_of
from cellwright.settings.paths import write_private
from cellwright.verification import certificate_state
from cellwright.web._templates import render
from cellwright.web.requests import PageRequest, action, attachment, page

__all__ = ["ROUTES", "Shares", "SharesUnreadable", "SharesUnwritable"]
_log = logging.getLogger(__name__)

_DAYS = 30

# The file brings a policy of its own, for whoever opens it from a disk; here it may also run nothing at all.
_SHUT_IN = {"content-security-policy": "sandbox; frame-ancestors 'self'"}


async def _verified(request: PageRequest) -> Response:
    session = request.session()
    shares = Shares(request.engine.settings.storage).of(session.id, now=time.time())
    running = request.site.verifier.of(session.id)
    return request.html(
        "verified.html",
        title=f"{session.title}, verified",
        shares=shares,
        running=running is not None and not running.done,
        **_values(session, f"/sessions/{session.id}/verified"),
    )


def _values(session: Session, here: str) -> dict[str, Any]:
    document = session.document
    return {
        "session": session,
        "here": here,
        "proof": proof_of(document),
        "standing": certificate_state(document),
    }


async def _verify(request: PageRequest) -> Response:
    """Run it from the top; the answer comes when that is done, as whoever pressed the button waits for it."""
    session = request.session()
    running = request.site.verifier.of(session.id)
    if running is None or running.done:
        running = await request.site.verifier.start(session)
    await running.wait()
    here = f"/sessions/{session.id}/verified"
    return request.done("It holds" if running.verified else running.reason or "It does not hold", go=here)


async def _file(request: PageRequest) -> Response:
    return await _page_of(request.engine, request.session(), request.http)


async def _page_of(engine: Engine, session: Session, request: Request) -> Response:
    made = await engine.pages.render(session.document.copy(), name=session.name, format="html")
    headers = dict(_SHUT_IN)
    if request.query_params.get("download") == "yes":
        headers |= attachment(f"{session.name}.html")
    return Response(made.content, media_type="text/html; charset=utf-8", headers=headers)


# Sharing -------------------------------------------------------------------------------------------------------------


async def _share(request: PageRequest) -> Response:
    session = request.session()
    token = Shares(request.engine.settings.storage).give(
        session.id, by=request.person.name, days=_DAYS, now=time.time()
    )
    request.engine.audit.note("share", session=session.id, days=_DAYS)
    link = f"{request.http.base_url}verified/{token}"
    given = render("verified_link.html", link=link, days=_DAYS)
    return request.done("Whoever has this link sees the notebook", parts={"shared-link": given})


async def _take_back(request: PageRequest) -> Response:
    session = request.session()
    Shares(request.engine.settings.storage).take_back(
        session.id, request.http.path_params["share_id"], now=time.time()
    )
    request.engine.audit.note("share", session=session.id, taken_back=request.http.path_params["share_id"])
    return request.done("The link leads nowhere now", go=f"/sessions/{session.id}/verified")


async def _shared(request: Request) -> Response:
    """For people who are not signed in: this notebook, and nothing else."""
    session = _shared_session(request)
    if session is None:
        return HTMLResponse(render("verified_gone.html"), 404)
    token = request.path_params["token"]
    return HTMLResponse(render("verified_shared.html", **_values(session, f"/verified/{token}")))


async def _shared_file(request: Request) -> Response:
    session = _shared_session(request)
    if session is None:
        return HTMLResponse(render("verified_gone.html"), 404)
    try:
        return await _page_of(request.app.state.site.engine, session, request)
    except CellwrightError as error:
        return Response(f"{error}\n", 409, media_type="text/plain")


def _shared_session(request: Request) -> Session | None:
    engine: Engine = request.app.state.site.engine
    try:
        share = Shares(engine.settings.storage).find(request.path_params["token"], now=time.time())
        return engine.session(share.session_id) if share is not None else None
    except (SharesUnreadable, UnknownSession) as error:
        _log.warning("shared_link_refused %s", error)
        return None


ROUTES = [
    page("/sessions/{session_id}/verified", _verified),
    page("/sessions/{session_id}/verified/notebook.html", _file),
    action("/sessions/{session_id}/verified/now", _verify),
    action("/sessions/{session_id}/verified/share", _share, needs="own"),
    action("/sessions/{session_id}/verified/shares/{share_id}/end", _take_back, needs="own"),
    Route("/verified/{token}", _shared, methods=["GET"]),
    Route("/verified/{token}/notebook.html", _shared_file, methods=["GET"]),
]


# Links by which people who are not signed in see one notebook's verified view: given, looked up, taken back.

_DAY_S = 86_400


class SharesUnreadable(CellwrightError):
    """The file that has the links is damaged."""

    code = "shares_unreadable"


class SharesUnwritable(CellwrightError):
    """The file that has the links takes no other."""

    code = "shares_unwritable"


class Share(msgspec.Struct, frozen=True):
    """A link that was given."""

    id: str
    """The beginning of its hash."""
    session_id: str
    by: str
    until: float


_decode = msgspec.json.Decoder(dict[str, Share]).decode


class Shares:
    """The links of a storage directory, in one file that only its user can read."""

    def __init__(self, storage: Path) -> None:
        self._path = storage / "shares.json"

    def give(self, session_id: str, *, by: str, days: int, now: float) -> str:
        """A new link's secret, told this once."""
        token = secrets.token_urlsafe(24)
        kept = self._read(now)
        kept[_hash(token)] = Share(_hash(token)[:12], session_id, by, now + days * _DAY_S)
        self._write(kept)
        return token

    def find(self, token: str, *, now: float) -> Share | None:
        """What a link leads to, while it holds."""
        return self._read(now).get(_hash(token))

    def of(self, session_id: str, *, now: float) -> list[Share]:
        """The links to one session."""
        return [share for share in self._read(now).values() if share.session_id == session_id]

    def take_back(self, session_id: str, share_id: str, *, now: float) -> None:
        """End a link at once."""
        kept = self._read(now)
        self._write(
            {key: one for key, one in kept.items() if (one.session_id, one.id) != (session_id, share_id)}
        )

    def _read(self, now: float) -> dict[str, Share]:
        try:
            shares = _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise SharesUnreadable(
                f"{self._path} cannot be read: {error}", hint="Fix it, or remove it and share again"
            ) from error
        return {key: share for key, share in shares.items() if share.until > now}

    def _write(self, shares: dict[str, Share]) -> None:
        try:
            write_private(str(self._path), msgspec.json.encode(shares))
        except OSError as error:
            raise SharesUnwritable(
                f"{self._path} cannot be written: {error}",
                hint="No link was changed: make room for it, and try again",
            ) from error


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
