"""The verified view of a session, the one file that it can be taken away as, and the links that it is shared by."""

from __future__ import annotations

import logging
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError, UnknownSession
from cellwright.formats.certificates import proof_of
from cellwright.verification import certificate_state
from cellwright.web.downloads import attachment
from cellwright.web.templates import render
from cellwright.web.verified.shares import Shares, SharesUnreadable
from cellwright.web.visits import Visit, deed, page

__all__ = ["ROUTES"]

_log = logging.getLogger(__name__)
_DAYS = 30
# The file brings a policy of its own, for whoever opens it from a disk; here it may also run nothing at all.
_SHUT_IN = {"content-security-policy": "sandbox; frame-ancestors 'self'"}


async def _verified(visit: Visit) -> Response:
    session = visit.session()
    shares = Shares(visit.engine.settings.storage).of(session.id, now=time.time())
    running = visit.site.verifier.of(session.id)
    return visit.html(
        "verified.html",
        title=f"{session.name}, verified",
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


async def _verify(visit: Visit) -> Response:
    """Run it from the top; the answer comes when that is done, as whoever pressed the button waits for it."""
    session = visit.session()
    running = visit.site.verifier.of(session.id)
    if running is None or running.done:
        running = await visit.site.verifier.start(session)
    await running.wait()
    here = f"/sessions/{session.id}/verified"
    return visit.done("It holds" if running.verified else running.reason or "It does not hold", go=here)


async def _file(visit: Visit) -> Response:
    return await _page_of(visit.engine, visit.session(), visit.request)


async def _page_of(engine: Engine, session: Session, request: Request) -> Response:
    made = await engine.pages.render(session.document.copy(), name=session.name, format="html")
    headers = dict(_SHUT_IN)
    if request.query_params.get("download") == "yes":
        headers |= attachment(f"{session.name}.html")
    return Response(made.content, media_type="text/html; charset=utf-8", headers=headers)


# Sharing -------------------------------------------------------------------------------------------------------------


async def _share(visit: Visit) -> Response:
    session = visit.session()
    token = Shares(visit.engine.settings.storage).give(
        session.id, by=visit.person.name, days=_DAYS, now=time.time()
    )
    visit.engine.audit.note("share", session=session.id, days=_DAYS)
    link = f"{visit.request.base_url}verified/{token}"
    given = render("verified_link.html", link=link, days=_DAYS)
    return visit.done("Whoever has this link sees the notebook", parts={"shared-link": given})


async def _take_back(visit: Visit) -> Response:
    session = visit.session()
    Shares(visit.engine.settings.storage).take_back(
        session.id, visit.request.path_params["share_id"], now=time.time()
    )
    visit.engine.audit.note("share", session=session.id, taken_back=visit.request.path_params["share_id"])
    return visit.done("The link leads nowhere now", go=f"/sessions/{session.id}/verified")


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
    deed("/sessions/{session_id}/verified/now", _verify),
    deed("/sessions/{session_id}/verified/share", _share, needs="own"),
    deed("/sessions/{session_id}/verified/shares/{share_id}/end", _take_back, needs="own"),
    Route("/verified/{token}", _shared, methods=["GET"]),
    Route("/verified/{token}/notebook.html", _shared_file, methods=["GET"]),
]
