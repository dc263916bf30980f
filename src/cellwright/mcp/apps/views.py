"""What the views of apps show, as data: tools that only they call, through the client that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from pydantic import Field

from cellwright.engine import Session
from cellwright.engine.shown_tables import shown_table
from cellwright.engine.timeline import moments_of, places_of, relatives_of
from cellwright.errors import KernelGone
from cellwright.formats.certificates import proof_of
from cellwright.mcp._arguments import Arguments, CellId, SessionId
from cellwright.mcp.apps._cells import cells_shown
from cellwright.mcp.apps.shell import View
from cellwright.mcp.calls import READS, Call, Definition, Reply, data_reply
from cellwright.mcp.tools.plans import plan_data
from cellwright.notebook import Cell
from cellwright.verification import certificate_state

__all__ = ["APP_TOOLS"]

_MOST_CELLS = 1_000
_MAX_TEXT = 1_000
_ROWS = 50


class ShowView(Arguments):
    view: View
    session_id: SessionId = None
    cells: list[CellId] | None = Field(default=None, max_length=_MOST_CELLS, description="Default: what runs")


async def app_view(call: Call, args: ShowView) -> Reply:
    """What an app shows of a session."""
    session = call.session(args.session_id, reads=True)
    about = {"session_id": session.id, "name": session.title, "generation": session.generation}
    match args.view:
        case "cell":
            shown = _cells(session, args.cells)
        case "checkpoints":
            shown = await _checkpoints(call, session)
        case "plan":
            shown = _plan(call, session)
        case "verified":
            shown = _verified(call, session)
        case "chart":
            shown = {}
    return data_reply({**about, **shown}, call)


def _cells(session: Session, named: Sequence[str] | None) -> dict[str, Any]:
    """The cells that are named, else what runs, else the last one that can."""
    running = [one.cell_id for one in session.runs.live if one.cell_id is not None]
    last = [cell.id for cell in session.cells if cell.runs][-1:]
    ids = set(named if named is not None else running[:1] or last)
    shown = [cell for cell in session.cells if cell.id in ids]
    return {
        "cells": cells_shown(session, shown),
        "goes_on": bool(ids.intersection(running)),
    }


async def _checkpoints(call: Call, session: Session) -> dict[str, Any]:
    made = await session.state_history() if session.checkpoints else []
    family = [
        {
            "session_id": one.session.id,
            "name": one.session.name,
            "relation": one.relation,
            "state": one.session.state,
            "can_be_adopted": one.can_be_adopted,
        }
        for one in relatives_of(session, call.engine.sessions())
    ]
    moments = moments_of(session.checkpoints, made, places_of(session.cells))
    return {"moments": [asdict(one) for one in moments], "family": family}


def _plan(call: Call, session: Session) -> dict[str, Any]:
    found = plan_data(call, session)
    return {**found, "goes_on": found["phase"] == "running"}


def _verified(call: Call, session: Session) -> dict[str, Any]:
    """The notebook with its certificate, and how far a run from the top is that goes on."""
    proof, verification = proof_of(session.document), call.shared.verifier.of(session.id)
    runs = verification is not None and not verification.done
    return {
        "standing": certificate_state(session.document),
        "proof": asdict(proof) if proof is not None else None,
        "cells": cells_shown(session, session.cells),
        "done": len(verification.checked) if verification is not None and runs else None,
        "total": len(verification.cells) if verification is not None and runs else None,
        "goes_on": runs,
    }


class ShowRows(Arguments):
    session_id: SessionId = None
    cell_id: CellId
    output: int = Field(ge=0, le=100_000)
    start: int = Field(default=0, ge=0)
    sort: str | None = Field(default=None, max_length=_MAX_TEXT, description="+column or -column")
    filters: dict[str, str] = Field(default={}, max_length=20)


async def app_rows(call: Call, args: ShowRows) -> Reply:
    """Rows of a table that a cell showed, of the live kernel."""
    session = call.session(args.session_id, reads=True)
    cell: Cell = session.cell(args.cell_id)
    table = shown_table(session, cell, args.output)
    if table is None:
        raise KernelGone("The kernel no longer has this table", hint="Run the cell again")
    head = await session.grids.head(table)
    rows = await session.grids.rows(
        table,
        start=args.start,
        count=_ROWS,
        sort=(args.sort[1:], args.sort[0] == "-") if args.sort else None,
        filters=tuple((name, value[:_MAX_TEXT]) for name, value in args.filters.items()),
    )
    found = {"columns": head.columns, "width": head.width, "name": head.name, "count": _ROWS}
    return data_reply(msgspec.to_builtins({**found, **msgspec.structs.asdict(rows)}), call)


APP_TOOLS = (Definition(app_view, ShowView, READS), Definition(app_rows, ShowRows, READS))
