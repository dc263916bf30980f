"""A notebook's page, and the stream that keeps it true."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.web.live import LiveResponse
from cellwright.web.notebook.cell_views import cell_views
from cellwright.web.notebook.live import follow
from cellwright.web.notebook.panels import PANELS, panel_routes
from cellwright.web.requests import Visit, page

__all__ = ["ROUTES"]


async def _notebook(visit: Visit) -> Response:
    session = visit.session()
    seq = visit.engine.last_event
    return visit.html(
        "notebook.html",
        title=session.name,
        session=session,
        cells=cell_views(session),
        panels=PANELS,
        seq=seq,
    )


async def _live(visit: Visit) -> Response:
    return LiveResponse(visit.request, follow(visit.engine, visit.session()))


ROUTES = [
    page("/sessions/{session_id}", _notebook),
    page("/sessions/{session_id}/live", _live),
    *panel_routes(),
]
