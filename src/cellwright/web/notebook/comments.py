"""What people remark on cells: written and removed here, read by people and agents."""

from __future__ import annotations

import time

from starlette.responses import Response

from cellwright.notebook.edits import Comment, with_comment, without_comment
from cellwright.web.requests import Visit, deed

__all__ = ["ROUTES"]


async def _add(visit: Visit) -> Response:
    session, form = visit.session(), await visit.form()
    if text := form.get("text", "").strip():
        cell = session.cell(visit.request.path_params["cell_id"])
        await session.apply([with_comment(cell, Comment(visit.person.name, time.time(), text))])
    return visit.done()


async def _remove(visit: Visit) -> Response:
    session, form = visit.session(), await visit.form()
    cell = session.cell(visit.request.path_params["cell_id"])
    await session.apply([without_comment(cell, form.get("key", ""))])
    return visit.done()


ROUTES = [
    deed("/sessions/{session_id}/cells/{cell_id}/comments", _add),
    deed("/sessions/{session_id}/cells/{cell_id}/comments/remove", _remove),
]
