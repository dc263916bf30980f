"""Tools for executions that outlast a call, and for the kernel that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from cellwright.engine import Execution, Session
from cellwright.engine.lineage import steps, to_replay
from cellwright.mcp._arguments import Arguments, ExecutionId, MaxTokens, ResponseFormat, SessionId, WaitS
from cellwright.mcp._elicitation import read_round, take_answer
from cellwright.mcp._replies import execution_reply
from cellwright.mcp._shapes import Executions, Ran, SessionState
from cellwright.mcp._waits import wait_for
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply
from cellwright.notebook.cells import iso_time
from cellwright.text_budget import cut_tail

__all__ = ["EXECUTION_TOOLS", "ROUND"]


class WaitForExecution(Arguments):
    execution_id: ExecutionId
    wait_s: WaitS = None
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None


async def execution_wait(call: Call, args: WaitForExecution) -> Reply:
    """Wait for one running execution until it is done, and read its output so far."""
    execution = call.engine.execution(args.execution_id)
    session = call.session(execution.session_id, reads=True)
    await wait_for(call, [execution], wait_s=args.wait_s)
    return await _reply(call, session, execution, args.response_format, args.max_tokens)


class GoOn(Arguments):
    round: str
    wait_s: WaitS = None
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None


async def _go_on(call: Call, args: GoOn) -> Reply:
    """Take what the client's person answered, and go on waiting for what the call before this one began."""
    before = read_round(args.round)
    executions = [call.engine.execution(execution_id) for execution_id in before.executions]
    session = call.session(executions[0].session_id)
    await take_answer(session, before.question, call.caller.answers)
    await wait_for(call, executions, wait_s=args.wait_s)
    return await execution_reply(
        call, session, executions, response_format=args.response_format, max_tokens=args.max_tokens
    )


ROUND = Definition(_go_on, GoOn, CHANGES)
"""What goes on after a question, whichever tool asked it; clients do not see it."""


class CancelExecution(Arguments):
    execution_id: ExecutionId


async def execution_cancel(call: Call, args: CancelExecution) -> Reply:
    """Cancel one execution by its id."""
    execution = call.engine.execution(args.execution_id)
    session = call.session(execution.session_id)
    await call.engine.cancel(execution.id)
    await execution.wait(call.shared.pace.stopping_s)
    return await _reply(call, session, execution, "text", None)


async def _reply(
    call: Call, session: Session, execution: Execution, form: ResponseFormat, max_tokens: int | None
) -> Reply:
    return await execution_reply(call, session, [execution], response_format=form, max_tokens=max_tokens)


class ListExecutions(Arguments):
    session_id: SessionId = None
    limit: int = Field(default=20, ge=1, le=1_000)


async def execution_list(call: Call, args: ListExecutions) -> Reply:
    """History of a session's executions, newest first."""
    session = call.session(args.session_id, reads=True)
    history = await call.engine.history(session.id, outputs=False)
    newest = [_brief(execution) for execution in reversed(history[-args.limit :])]
    lost = _lost(session, history)
    return data_reply({"session_id": session.id, **lost, "total": len(history), "executions": newest}, call)


def _lost(session: Session, history: Sequence[Execution]) -> dict[str, Any]:
    """Of a session without a kernel: that it has none, and how many steps of its lost state a replay would run."""
    if session.state != "suspended":
        return {}
    again = steps((execution.record for execution in history), to_replay(session.record))
    return {"state": session.state, "replayable": len(again)}


def _brief(execution: Execution) -> dict[str, Any]:
    record = execution.record
    about: dict[str, Any] = {
        "execution_id": record.id,
        "cell_id": record.cell_id,
        "status": record.state,
        "generation": record.generation,
        "attempt": record.attempt,
        "replays": record.replays,
        "started_at": iso_time(record.started_at) if record.started_at is not None else None,
        "ended_at": iso_time(record.ended_at) if record.ended_at is not None else None,
        "duration_ms": round(record.seconds * 1_000) if record.seconds is not None else None,
        "source": cut_tail(record.source, 60),
        "checkpoint": record.checkpoint,
        "undone": record.undone or None,
    }
    if record.error:
        about["error"] = cut_tail(f"{record.error.get('ename')}: {record.error.get('evalue')}", 120)
    if record.reason:
        about["reason"] = record.reason
    return {key: value for key, value in about.items() if value is not None}


class OfSession(Arguments):
    session_id: SessionId = None


async def kernel_interrupt(call: Call, args: OfSession) -> Reply:
    """Stop all that a session runs, such as a cell that takes too long. The kernel keeps its state."""
    session = call.session(args.session_id)
    stopped = session.runs.live
    await call.shared.planner.pause(session.id)
    await session.interrupt()
    for execution in stopped:
        await execution.wait(call.shared.pace.stopping_s)
    ended = {execution.id: execution.state for execution in stopped}
    return data_reply({**_state(session), "stopped": ended}, call)


async def kernel_restart(call: Call, args: OfSession) -> Reply:
    """Restart the kernel, empty: variables are lost, cells and outputs stay."""
    session = call.session(args.session_id)
    await call.shared.planner.pause(session.id)
    await session.restart()
    return data_reply(_state(session), call)


async def session_suspend(call: Call, args: OfSession) -> Reply:
    """Suspend a session: its kernel and memory go, the rest stays."""
    session = call.session(args.session_id)
    await call.shared.planner.pause(session.id)
    running = session.runs.live
    await session.suspend()
    ended = {"stopped": {execution.id: execution.state for execution in running}} if running else {}
    return data_reply({**_state(session), **ended}, call)


async def session_resume(call: Call, args: OfSession) -> Reply:
    """Resume a suspended session with an empty kernel."""
    session = call.session(args.session_id)
    await session.resume()
    return data_reply(_state(session), call)


def _state(session: Session) -> dict[str, Any]:
    return {"session_id": session.id, "state": session.state, "generation": session.generation}


EXECUTION_TOOLS = (
    Definition(execution_wait, WaitForExecution, READS, gives=Ran),
    Definition(execution_cancel, CancelExecution, DESTROYS),
    Definition(execution_list, ListExecutions, READS, gives=Executions),
    Definition(kernel_interrupt, OfSession, DESTROYS, gives=SessionState),
    Definition(kernel_restart, OfSession, DESTROYS, gives=SessionState),
    Definition(session_suspend, OfSession, DESTROYS, gives=SessionState),
    Definition(session_resume, OfSession, CHANGES, gives=SessionState),
)
