"""The tools of Monadic Chat's notebook apps: notebooks by timestamped file name, cells by place, cells in batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import anyio
from pydantic import BeforeValidator, Field

from cellwright.engine import Execution, Session
from cellwright.errors import LimitReached, UnknownSession
from cellwright.mcp._arguments import Arguments, Content
from cellwright.mcp._replies import hint_text, rendered
from cellwright.mcp._waits import done_with_progress, run_and_wait
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply, untimed
from cellwright.mcp.dialects._indices import LONG_S, cell_at
from cellwright.mcp.dialects.dialect import Dialect
from cellwright.mcp.outputs import parts_of
from cellwright.mcp.tools.notebooks import AGENTS_MODE
from cellwright.notebook import Cell, CellAdded, Document, slug
from cellwright.notebook.document import add_cell
from cellwright.notebook.files import create_exclusively

__all__ = ["MONADIC"]

_MAX_TEXT = 4_000
FileName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1_000,
        description="As create_jupyter_notebook returned it, with its timestamp",
    ),
]


class NewCell(Arguments):
    cell_type: Literal["code", "markdown"] = "code"
    source: Content


def _read_cells(value: Any) -> Any:
    """Cells as models send them: a list, or the JSON of one; with the older keys type and content, too."""
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, list):
        return value
    names = {"type": "cell_type", "content": "source"}
    return [
        {names.get(key, key): held for key, held in cell.items()} if isinstance(cell, dict) else cell
        for cell in value
    ]


Cells = Annotated[list[NewCell], BeforeValidator(_read_cells), Field(min_length=1, max_length=1_000)]


class CreateFile(Arguments):
    filename: str = Field(min_length=1, max_length=1_000)
    new: bool = Field(
        default=False, description="The user asked for another notebook beside the one there is"
    )


async def create_jupyter_notebook(call: Call, args: CreateFile) -> Reply:
    """Create a notebook. Replies with the file name to use from now on, with its timestamp; in a conversation that
    has a notebook with that one's, unless new."""
    session = (None if args.new else _current(call)) or await _create(call, args.filename)
    return Reply(session.path.name)


class CreateAndPopulate(CreateFile):
    cells: Cells
    run: bool = True
    escaped: bool = False


async def create_and_populate_jupyter_notebook(call: Call, args: CreateAndPopulate) -> Reply:
    """Create a notebook with cells and run them, in one call; in a conversation that has one only if new."""
    if not args.new and (current := _current(call)) is not None:
        call.notes.append("No cells were added: add_jupyter_cells adds them to this notebook")
        return Reply(current.path.name)
    _changes(Document.new(), args.cells, call, run=args.run)  # refused before anything is made
    session = await _create(call, args.filename)
    return await _add(call, session, args.cells, run=args.run, before=session.path.name)


def _current(call: Call) -> Session | None:
    """The notebook that the client works in, with a note: models forget it, and make a second one for the next cell."""
    there = {session.id: session for session in call.engine.sessions()}
    latest = next((one for one in reversed(call.client.sessions) if one in there), None)
    if latest is None:
        return None
    call.notes.append(
        f"This conversation's notebook is {there[latest].path.name}. Go on in it. Only where the user asked for another "
        "notebook, repeat the call with new=true"
    )
    return there[latest]


async def _create(call: Call, filename: str) -> Session:
    stem = slug(untimed(PurePath(filename).name.removesuffix(".ipynb")))
    language = call.shared.default_language
    content = Document.new(language=language).to_bytes()
    path = await anyio.to_thread.run_sync(_new_file, call.notebooks, stem, content)
    session = await call.engine.open(path, mode=AGENTS_MODE, chosen=call.chosen)
    call.works_with(session)
    await session.resume()
    return session


def _new_file(directory: Path, stem: str, content: bytes) -> Path:
    """A file named as this system does; of two in one second the later has the next second's name."""
    directory.mkdir(parents=True, exist_ok=True)
    moment = datetime.now().astimezone()
    while True:
        path = directory / f"{stem}_{moment:%Y%m%d_%H%M%S}.ipynb"
        if create_exclusively(path, content):
            return path
        moment += timedelta(seconds=1)


async def _session(call: Call, filename: str, *, reads: bool = False) -> tuple[Session, bool]:
    """The session of a file name, and whether this call opened it again from its file, since it was deleted.

    Raises:
        UnknownSession: there is neither.
    """
    try:
        return call.session(filename, reads=reads), False
    except UnknownSession:
        path = await anyio.to_thread.run_sync(_file_named, call.notebooks, filename)
        if path is None:
            raise
    there = {one.id for one in call.engine.sessions()}
    session = await call.engine.open(call.path(str(path)), mode=AGENTS_MODE, chosen=call.chosen)
    call.works_with(session)
    reopened = session.id not in there
    if reopened:
        call.notes.append(f"{path.name} was opened again from its file")
    return session, reopened


def _file_named(directory: Path, filename: str) -> Path | None:
    """The one notebook file that is meant, by its whole name or without its time."""
    name = PurePath(filename).name.removesuffix(".ipynb")
    if (whole := directory / f"{name}.ipynb").is_file():
        return whole
    timed = [path for path in directory.glob("*.ipynb") if untimed(path.stem) == slug(name)]
    return timed[0] if len(timed) == 1 else None


async def _bring_back(call: Call, session: Session, *, reopened: bool) -> None:
    """Make the state again that the cells before would have left, where no kernel holds it.

    Those of a session that somebody else opened and did not run stay as they are.
    """
    if session.has_lost_state:
        replay = await done_with_progress(call, session.replay)
        broken = [one.step.cell_id for one in replay.redone if not one.goes_on]
        note = f"The kernel was lost: {len(replay.redone)} cells ran again first"
    elif reopened and not session.record.generation and any(cell.runs for cell in session.cells):

        async def run_all() -> list[Execution]:
            return [await one.wait() for one in await session.execute_all(timeout_s=LONG_S)]

        broken = [one.cell_id for one in await done_with_progress(call, run_all) if not one.ok]
        note = "Its kernel is new: the cells before ran again first"
    else:
        return
    failed = next((cell_id for cell_id in broken if cell_id in session.document), None)
    if failed is not None:
        note += f"; cell {session.document.index(failed)} failed"
    call.notes.append(note)
    call.client.generations[session.id] = session.generation


class AddCells(Arguments):
    filename: FileName
    cells: Cells
    run: bool = True
    escaped: bool = False


async def add_jupyter_cells(call: Call, args: AddCells) -> Reply:
    """Add cells {cell_type, source} at the end and run them."""
    session, reopened = await _session(call, args.filename)
    return await _add(call, session, args.cells, run=args.run, reopened=reopened)


def _changes(document: Document, cells: Sequence[NewCell], call: Call, *, run: bool) -> list[CellAdded]:
    """The changes that add all of these cells.

    Raises:
        TooManyCells: they do not all fit; then none is added.
        LimitReached: one of them is to ``run`` and is too long for that; then none is added either.
    """
    settings = call.engine.settings
    grown, changes = document.copy(), []
    for number, cell in enumerate(cells):
        size = len(cell.source.encode(errors="surrogatepass"))
        if run and cell.cell_type == "code" and size > settings.max_source_bytes:
            raise LimitReached(
                f"The source of cell {number} of these has {size:,} bytes, and max_source_bytes allows "
                f"{settings.max_source_bytes:,}: none of them was added",
                setting="max_source_bytes",
                hint="Write the data to a file and read that, or split the code into several cells",
            )
        change = add_cell(grown, cell.cell_type, cell.source, max_cells=settings.max_cells)
        grown.apply(change)
        changes.append(change)
    return changes


async def _add(
    call: Call,
    session: Session,
    cells: list[NewCell],
    *,
    run: bool,
    before: str = "",
    reopened: bool = False,
) -> Reply:
    await session.refresh()
    changes = _changes(session.document, cells, call, run=run)
    if run:
        await _bring_back(call, session, reopened=reopened)
        changes = _changes(session.document, cells, call, run=run)  # others may have written meanwhile
    await session.apply(changes)
    added = [session.cell(change.cell_id) for change in changes]
    summary = (
        f"{len(added)} cells added to {session.path.name} at index {session.document.index(added[0].id)}"
    )
    code = [cell for cell in added if cell.runs]
    if not run or not code:
        return Reply("\n".join(filter(None, [before, summary])))

    async def submit() -> Sequence[Execution]:
        return [await session.execute(cell.id, timeout_s=LONG_S) for cell in code]

    executions = await run_and_wait(call, session.id, submit, wait_s=None)
    text, images = await rendered(call, executions)
    hint = await hint_text(call, session, executions)
    return Reply("\n".join(filter(None, [before, summary, text, *hint])), images)


class OfCell(Arguments):
    filename: FileName
    index: int = Field(description="From 0")


async def delete_jupyter_cell(call: Call, args: OfCell) -> Reply:
    """Delete a cell."""
    session, _ = await _session(call, args.filename)
    cell = cell_at(session, args.index)
    await session.delete_cell(cell.id)
    return Reply(f"Cell {args.index} deleted from {session.path.name}; {len(session.document)} are left")


class UpdateCell(OfCell):
    content: Content
    cell_type: Literal["code", "markdown"] | None = None


async def update_jupyter_cell(call: Call, args: UpdateCell) -> Reply:
    """Replace a cell's content."""
    session, _ = await _session(call, args.filename)
    cell = cell_at(session, args.index)
    if args.cell_type is None or args.cell_type == cell.kind:
        await session.edit_cell(cell.id, args.content)
    else:
        place = session.document.index(cell.id)
        await session.add_cell(args.content, args.cell_type, position=place)
        await session.delete_cell(cell.id)
    return Reply(f"Cell {args.index} updated in {session.path.name}")


class OfFile(Arguments):
    filename: FileName


async def get_jupyter_cells_with_results(call: Call, args: OfFile) -> Reply:
    """All cells with their results and errors."""
    session, _ = await _session(call, args.filename, reads=True)
    await session.refresh()
    return data_reply(
        {"filename": session.path.name, "cells": _with_results(session, call.shared.names.say_error)}, call
    )


def _with_results(session: Session, say_error: Callable[[str], str]) -> list[dict[str, Any]]:
    return [{"index": index, **_result(cell, say_error)} for index, cell in enumerate(session.cells)]


def _result(cell: Cell, say_error: Callable[[str], str]) -> dict[str, Any]:
    about: dict[str, Any] = {"type": cell.kind, "source": cell.source}
    parts = parts_of(cell.outputs)
    error = next((output for output in cell.outputs if output.get("output_type") == "error"), None)
    if error is not None:
        traceback = say_error(next(part.text for part in parts if part.kind == "error"))
        message = say_error(str(error.get("evalue", "")))
        about |= {"has_error": True, "error_type": error.get("ename"), "error_message": message}
        return {**about, "traceback": traceback[-_MAX_TEXT:]}
    if parts:
        about |= {
            "has_error": False,
            "outputs": [part.text[:_MAX_TEXT] or f"[{part.mime}]" for part in parts],
        }
    return about


class Nothing(Arguments):
    pass


async def list_jupyter_notebooks(call: Call, _: Nothing) -> Reply:
    """All notebooks by their full file names."""
    listed = [
        {"filename": session.path.name, "cells": len(session.document), "state": session.state}
        for session in call.engine.sessions()
    ]
    return data_reply({"notebooks": listed}, call)


class ExecuteAndFix(Arguments):
    filename: FileName
    max_retries: int = Field(default=3, ge=1, le=100)


async def execute_and_fix_jupyter_cells(call: Call, args: ExecuteAndFix) -> Reply:
    """Run all cells; the first that fails is returned with its error, to be fixed with update_jupyter_cell."""
    session, _ = await _session(call, args.filename)

    async def submit() -> Sequence[Execution]:
        return await session.execute_all(timeout_s=LONG_S)

    executions = await run_and_wait(call, session.id, submit, wait_s=None)
    running = next((execution for execution in executions if not execution.done), None)
    failed = next((execution for execution in executions if execution.done and not execution.ok), None)
    if failed is not None and failed.cell_id is not None:
        return data_reply(_failed(call, session, failed, failed.cell_id, args.max_retries), call)
    if running is not None:
        return data_reply({"status": "running", "execution_id": running.id, "next": "execution_wait"}, call)
    return data_reply({"status": "success", "message": "All cells executed successfully."}, call)


def _failed(
    call: Call, session: Session, failed: Execution, cell_id: str, max_retries: int
) -> dict[str, Any]:
    cell = session.cell(cell_id)
    over = failed.record.attempt >= max_retries
    return {
        "status": "max_retries_reached" if over else "error_found",
        "cell_index": session.document.index(cell.id),
        **_result(cell, call.shared.names.say_error),
        "retry_count": failed.record.attempt,
        "max_retries": max_retries,
    }


_TOOLS = (
    Definition(create_jupyter_notebook, CreateFile, CHANGES),
    Definition(create_and_populate_jupyter_notebook, CreateAndPopulate, CHANGES),
    Definition(add_jupyter_cells, AddCells, CHANGES),
    Definition(delete_jupyter_cell, OfCell, DESTROYS),
    Definition(update_jupyter_cell, UpdateCell, CHANGES),
    Definition(get_jupyter_cells_with_results, OfFile, READS),
    Definition(list_jupyter_notebooks, Nothing, READS),
    Definition(execute_and_fix_jupyter_cells, ExecuteAndFix, CHANGES),
)

MONADIC = Dialect(
    _TOOLS,
    (
        "Jupyter notebooks with live kernels. create_jupyter_notebook returns a file name with its timestamp; remember "
        "it, and give it to every later call: when the user asks for more cells, add_jupyter_cells to that same notebook, "
        "and create another only when the user asks for a new one. Variables, functions and imports last between cells. "
        "Where a cell fails, get_jupyter_cells_with_results shows it; delete_jupyter_cell or update_jupyter_cell fix it, "
        "three times at most. A long cell returns an execution id: execution_wait goes on waiting, execution_cancel stops it."
    ),
    {
        "notebook_create": "create_jupyter_notebook",
        "notebook_list": "list_jupyter_notebooks",
        "notebook_read": "get_jupyter_cells_with_results",
        "notebook_replay": "execute_and_fix_jupyter_cells",
        "cell_add": "add_jupyter_cells",
        "cell_add_and_run": "add_jupyter_cells",
        "cell_execute": "execute_and_fix_jupyter_cells",
        "cell_update": "update_jupyter_cell",
        "cell_delete": "delete_jupyter_cell",
    },
)
