"""Two sessions side by side: cells, outputs, variables and files, for whoever chooses between branches."""

from __future__ import annotations

from functools import partial

import anyio
from starlette.responses import Response

from cellwright.engine import Session, SessionView
from cellwright.web.beside.branches import relatives_of
from cellwright.web.beside.sidebyside import paired
from cellwright.web.visits import Visit, page

__all__ = ["ROUTES"]


async def _compare(visit: Visit) -> Response:
    left = visit.session()
    family = relatives_of(left, visit.engine.sessions())
    others = [one for one in family if one.session is not left]
    named = visit.request.query_params.get("with") or (others[0].session.id if others else left.id)
    right = visit.engine.session(named)
    pairs = await anyio.to_thread.run_sync(partial(paired, left.cells, right.cells))
    # Each tells what it has that the other has not.
    mine, theirs = await _against(visit, right, left), await _against(visit, left, right)
    return visit.html(
        "compare.html",
        title=f"{left.name} and {right.name}",
        session=left,
        other=right,
        one=next((one for one in family if one.session is right), None),
        others=others,
        pairs=pairs,
        names=sorted({*mine.variables, *theirs.variables}),
        mine=mine,
        theirs=theirs,
    )


async def _against(visit: Visit, first: Session, second: Session) -> SessionView:
    return (await visit.engine.compare([first.id, second.id]))[1]


ROUTES = (page("/sessions/{session_id}/compare", _compare),)
