"""A notebook's page, and the stream that keeps it true."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.web.live import LiveResponse
from cellwright.web.notebook.cell_views import cell_views
from cellwright.web.notebook.live import follow
from cellwright.web.notebook.panels import PANELS, panel_routes
from cellwright.web.requests import PageRequest, page

__all__ = ["ROUTES"]


async def _notebook(request: PageRequest) -> Response:
    session = request.session()
    seq = request.engine.last_event
    return request.html(
        "notebook.html",
        title=session.name,
        session=session,
        cells=cell_views(session),
        panels=PANELS,
        seq=seq,
    )


async def _live(request: PageRequest) -> Response:
    return LiveResponse(request.http, follow(request.engine, request.session()))


ROUTES = [
    page("/sessions/{session_id}", _notebook),
    page("/sessions/{session_id}/live", _live),
    *panel_routes(),
]
