"""What people remark on cells: written and removed here, read by people and agents."""

from __future__ import annotations

import time

from starlette.responses import Response

from cellwright.notebook.edits import Comment, with_comment, without_comment
from cellwright.web.requests import PageRequest, action

__all__ = ["ROUTES"]


async def _add(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    if text := form.get("text", "").strip():
        cell = session.cell(request.http.path_params["cell_id"])
        await session.apply([with_comment(cell, Comment(request.person.name, time.time(), text))])
    return request.done()


async def _remove(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    cell = session.cell(request.http.path_params["cell_id"])
    await session.apply([without_comment(cell, form.get("key", ""))])
    return request.done()


ROUTES = [
    action("/sessions/{session_id}/cells/{cell_id}/comments", _add),
    action("/sessions/{session_id}/cells/{cell_id}/comments/remove", _remove),
]
