"""What the views of apps show, as data: a tool that only they call, through the client that shows them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cellwright.engine import Session
from cellwright.engine.timeline import moments_of, places_of, relatives_of
from cellwright.mcp._arguments import Arguments, SessionId
from cellwright.mcp.apps.shell import View
from cellwright.mcp.calls import READS, Call, Definition, Reply

__all__ = ["APP_TOOLS"]


class ShowView(Arguments):
    view: View
    session_id: SessionId = None


async def app_view(call: Call, args: ShowView) -> Reply:
    """What an app shows of a session."""
    session = call.session(args.session_id, reads=True)
    about = {"session_id": session.id, "name": session.title, "generation": session.generation}
    return Reply("", data={**about, **await _checkpoints(call, session)})


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


APP_TOOLS = (Definition(app_view, ShowView, READS),)
