"""Tools that write and run cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from cellwright.engine import Execution, OnError, Session
from cellwright.errors import NotebookError
from cellwright.mcp._advice import advice
from cellwright.mcp._arguments import (
    Arguments,
    CellId,
    Code,
    Content,
    MaxTokens,
    ResponseFormat,
    SessionId,
    TimeLimits,
    TimeoutS,
    WaitS,
)
from cellwright.mcp._replies import execution_reply
from cellwright.mcp._shapes import CellDeleted, CellWritten, Ran
from cellwright.mcp._waits import run_and_wait
from cellwright.mcp.calls import CHANGES, DESTROYS, Call, Definition, Reply, data_reply
from cellwright.notebook.cells import is_plain_path
from cellwright.notebook.languages import canonical_language, cell_metadata, language_of_file

__all__ = ["CELL_TOOLS"]

CellLanguage: TypeAlias = Annotated[
    str | None,
    Field(default=None, max_length=100, description="sql: over frames by name"),
]


class AddCell(Arguments):
    session_id: SessionId = None
    code: Code
    type: Literal["code", "markdown"] = "code"
    position: int | None = Field(default=None, description="From 0; default: end")
    language: CellLanguage = None
    filename: str | None = Field(
        default=None, min_length=1, max_length=200, description="So that others import it"
    )


async def cell_add(call: Call, args: AddCell) -> Reply:
    """Write a cell without running it: Markdown such as a heading, or code."""
    session = call.session(args.session_id)
    call.client.wrote(args.code)
    metadata = _about_cell(session, args.language, args.filename)
    cell = await session.add_cell(args.code, args.type, position=args.position, metadata=metadata)
    place = session.document.index(cell.id)
    return data_reply(
        {"session_id": session.id, "cell_id": cell.id, "position": place, "version": cell.version}, call
    )


def _about_cell(session: Session, language: str | None, filename: str | None = None) -> dict[str, Any]:
    """A new cell's metadata.

    Raises:
        NotebookError: the file would lie outside the working directory.
    """
    if language is None and filename is None:
        return {}
    if filename is not None and not is_plain_path(filename):
        raise NotebookError(
            f"filename {filename!r} is no name of a file in the working directory",
            hint="Give a relative name such as 'math.ts'",
        )
    found = canonical_language(language) if language else language_of_file(filename or "")
    return cell_metadata(language=found if found != session.language else None, filename=filename)


class RunArguments(Arguments):
    timeout_s: TimeoutS = None
    """None, where the caller names none, is the setting ``cell_timeout_s``."""
    wait_s: WaitS = None
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None

    @classmethod
    def operators_defaults(cls, limits: TimeLimits) -> Mapping[str, Any]:
        return {"timeout_s": limits.cell_s}


OnErrorArgument: TypeAlias = Annotated[
    OnError, Field(default="keep", description="rollback: a failing cell leaves no trace in state and files")
]


class ExecuteCell(RunArguments):
    session_id: SessionId = None
    cell_id: CellId = Field(description="Cell id or 'all'")
    on_error: OnErrorArgument = "keep"


async def cell_execute(call: Call, args: ExecuteCell) -> Reply:
    """Run an existing cell again, or all cells in order until one fails; replies as cell_add_and_run."""
    session = call.session(args.session_id)
    timeout_s, on_error = args.timeout_s, args.on_error

    async def submit() -> Sequence[Execution]:
        if args.cell_id == "all":
            return await session.execute_all(timeout_s=timeout_s, on_error=on_error)
        return [await session.execute(args.cell_id, timeout_s=timeout_s, on_error=on_error)]

    executions = await run_and_wait(call, session.id, submit, wait_s=args.wait_s)
    if not executions:
        nothing = {
            "session_id": session.id,
            "status": "ok",
            "cells": [],
            "hint": "No code cells: cell_add adds one",
        }
        reply = data_reply(nothing, call)
        return reply if args.response_format == "json" else Reply(reply.text)
    return await _run_reply(call, session, executions, args, cell_id=args.cell_id)


class AddAndRun(RunArguments):
    session_id: SessionId = None
    code: Code
    position: int | None = Field(default=None, description="From 0; default: end")
    on_error: OnError = "keep"
    language: CellLanguage = None


async def cell_add_and_run(call: Call, args: AddAndRun) -> Reply:
    """Run code (Python, SQL, ...) in a new cell of the notebook: load data, compute, plot. Returns output and images; past 55 s
    it returns the execution id while the cell runs on."""
    session = call.session(args.session_id)
    call.client.wrote(args.code)
    metadata = _about_cell(session, args.language)
    cell = await session.add_cell(args.code, position=args.position, metadata=metadata)

    async def submit() -> Sequence[Execution]:
        return [await session.execute(cell.id, timeout_s=args.timeout_s, on_error=args.on_error)]

    executions = await run_and_wait(call, session.id, submit, wait_s=args.wait_s)
    return await _run_reply(call, session, executions, args)


class RunScratch(RunArguments):
    session_id: SessionId = None
    code: Content
    language: CellLanguage = None


async def scratch_run(call: Call, args: RunScratch) -> Reply:
    """Run code without leaving a cell, in the session's kernel; replies as cell_add_and_run."""
    session = call.session(args.session_id)
    call.client.wrote(args.code)

    async def submit() -> Sequence[Execution]:
        return [await session.execute_code(args.code, language=args.language, timeout_s=args.timeout_s)]

    executions = await run_and_wait(call, session.id, submit, wait_s=args.wait_s)
    return await _run_reply(call, session, executions, args)


async def _run_reply(
    call: Call,
    session: Session,
    executions: Sequence[Execution],
    args: RunArguments,
    *,
    cell_id: str | None = None,
) -> Reply:
    for run in executions:
        if run.state in ("error", "timeout"):
            hints = advice(run.record.source, run.state, run.error or {}, timeout_s=args.timeout_s)
            call.notes.extend(filter(None, map(call.shared.names.say, hints)))
    return await execution_reply(
        call,
        session,
        executions,
        response_format=args.response_format,
        max_tokens=args.max_tokens,
        cell_id=cell_id,
    )


class UpdateCell(Arguments):
    session_id: SessionId = None
    cell_id: CellId
    code: Code
    version: int | None = Field(default=None, description="Refuse if the cell is no longer at this version")


async def cell_update(call: Call, args: UpdateCell) -> Reply:
    """Change the code of an existing cell. Outputs stay until it runs again."""
    session = call.session(args.session_id)
    call.client.wrote(args.code)
    cell = await session.edit_cell(args.cell_id, args.code, expected_version=args.version)
    return data_reply({"session_id": session.id, "cell_id": cell.id, "version": cell.version}, call)


class DeleteCell(Arguments):
    session_id: SessionId = None
    cell_id: CellId


async def cell_delete(call: Call, args: DeleteCell) -> Reply:
    """Delete a cell. What it defined stays in the kernel."""
    session = call.session(args.session_id)
    await session.delete_cell(args.cell_id)
    return data_reply(
        {"session_id": session.id, "deleted": args.cell_id, "cells": len(session.document)}, call
    )


CELL_TOOLS = (
    Definition(cell_add, AddCell, CHANGES, asks_for=("session_id",), gives=CellWritten),
    Definition(cell_execute, ExecuteCell, CHANGES, asks_for=("session_id",), gives=Ran),
    Definition(cell_add_and_run, AddAndRun, CHANGES, gives=Ran),
    Definition(scratch_run, RunScratch, CHANGES, gives=Ran),
    Definition(cell_update, UpdateCell, CHANGES, asks_for=("session_id",), gives=CellWritten),
    Definition(cell_delete, DeleteCell, DESTROYS, asks_for=("session_id",), gives=CellDeleted),
)
