"""What clients ask beside running code: answered at once, from here or by a kernel that has nothing to do.

Comms, which widgets need, are refused: no kernel keeps their other end through all that a session outlives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError
from cellwright.lab.kernelspecs import kernel_info
from cellwright.lab.messages import Request, Said

__all__ = ["answer"]

# What a kernel is asked, and what is said where it cannot answer now.
_RELAYED: Mapping[str, Mapping[str, Any]] = {
    "complete_request": {"status": "ok", "matches": [], "metadata": {}},
    "inspect_request": {"status": "ok", "found": False, "data": {}, "metadata": {}},
    "is_complete_request": {"status": "unknown"},
}
_MOST_HISTORY = 1000


async def answer(engine: Engine, session: Session, request: Request) -> Said | None:
    """The answer to anything but an execution; None where the protocol has none."""
    kind = request.header.msg_type
    match kind:
        case "comm_open":
            closed = {"comm_id": request.content.get("comm_id", ""), "data": {}}
            return Said("iopub", "comm_close", closed, request.header)
        case "comm_msg" | "comm_close" | "input_reply":
            return None
        case _:
            content = await _content(engine, session, request)
            return Said(request.reply_channel, request.reply_kind, content, request.header)


async def _content(engine: Engine, session: Session, request: Request) -> Mapping[str, Any]:
    match kind := request.header.msg_type:
        case "kernel_info_request":
            return kernel_info(session)
        case "comm_info_request":
            return {"status": "ok", "comms": {}}
        case "history_request":
            return {"status": "ok", "history": await _history(engine, session, request.content)}
        case "interrupt_request":
            await session.interrupt()
            return {"status": "ok"}
        case _ if kind in _RELAYED:
            return await _relayed(session, request)
        case _:
            return {
                "status": "error",
                "ename": "NotSupported",
                "evalue": f"Cellwright does not answer {kind}",
                "traceback": [],
            }


async def _relayed(session: Session, request: Request) -> Mapping[str, Any]:
    code, cursor = request.content.get("code", ""), request.content.get("cursor_pos", 0)
    try:
        return await session.relay(request.header.msg_type, request.content)
    except (CellwrightError, TimeoutError):
        # Busy with a cell, most of all: then nobody waits for a completion.
        return {
            **_RELAYED[request.header.msg_type],
            "cursor_start": cursor,
            "cursor_end": cursor if code else 0,
        }


async def _history(
    engine: Engine, session: Session, content: Mapping[str, Any]
) -> list[tuple[int, int, str]]:
    """The newest codes that ran, each with its number."""
    wanted = content.get("n")
    count = min(wanted, _MOST_HISTORY) if isinstance(wanted, int) and wanted > 0 else _MOST_HISTORY
    ran = await engine.history(session.id, outputs=False)
    return [(run.generation, run.record.number, run.record.source) for run in ran[-count:]]
