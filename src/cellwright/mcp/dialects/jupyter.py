"""The tools of jupyter-mcp-server. "The activated notebook" is each client's own; two clients do not share one."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import anyio
from pydantic import Field

from cellwright.engine import Session
from cellwright.engine.cell_states import cell_states
from cellwright.errors import NotebookError, UnknownSession
from cellwright.mcp._arguments import Arguments, Content
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply
from cellwright.mcp.dialects._indices import cell_at, place_for
from cellwright.mcp.dialects.dialect import Dialect
from cellwright.mcp.tools.cells import (
    AddAndRun,
    ExecuteCell,
    RunScratch,
    cell_add_and_run,
    cell_execute,
    scratch_run,
)
from cellwright.mcp.tools.notebooks import AGENTS_MODE
from cellwright.mcp.tools.read import outline, section
from cellwright.notebook import Cell, Document, OutputsSet
from cellwright.notebook.files import create_exclusively

__all__ = ["JUPYTER"]

_DEFAULT_TIMEOUT_S = 90
_TOKENS = 5_000
_MOST_FILES = 10_000

Name = Field(min_length=1, max_length=1_000, description="The name given to use_notebook")
Index = Field(description="From 0")
Timeout = Field(default=0, ge=0, le=86_400, description="Seconds; 0 = 90")


class UseNotebook(Arguments):
    notebook_name: str = Name
    notebook_path: str = Field(min_length=1, max_length=4_000, description="Relative to the root directory")
    mode: Literal["connect", "create"] = "connect"
    kernel_id: str | None = Field(default=None, max_length=300)


async def use_notebook(call: Call, args: UseNotebook) -> Reply:
    """Activate a notebook for the calls that follow: 'connect' to an existing one or 'create' it."""
    path = call.path(args.notebook_path)
    if args.mode == "create":
        await anyio.to_thread.run_sync(_create, path)
    session = await call.engine.open(path, mode=AGENTS_MODE, chosen=call.chosen)
    if session.held_by is None:  # a person's session is looked at, no more
        await session.resume()
    call.works_with(session)
    call.client.aliases[args.notebook_name] = session.id
    return Reply(
        f"Successfully activated notebook '{args.notebook_name}' ({args.notebook_path}).\n{_outline(session)}"
    )


def _create(path: Path) -> None:
    if path.suffix != ".ipynb":
        raise NotebookError(f"{path.name!r} is not a notebook's name", hint="Give a path that ends in .ipynb")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not create_exclusively(path, Document.new().to_bytes()):
        raise NotebookError(f"{path} is already there", hint="Use mode='connect'")


class OfNotebook(Arguments):
    notebook_name: str = Name


async def unuse_notebook(call: Call, args: OfNotebook) -> Reply:
    """Let a notebook's kernel go."""
    session = _named(call, args.notebook_name)
    await call.shared.planner.pause(session.id)
    await session.suspend()
    await session.save()
    call.client.aliases.pop(args.notebook_name, None)
    call.client.forget(session.id)
    return Reply(f"Notebook '{args.notebook_name}' unused successfully.")


async def restart_notebook(call: Call, args: OfNotebook) -> Reply:
    """Replace a notebook's kernel by an empty one."""
    session = _named(call, args.notebook_name)
    await call.shared.planner.pause(session.id)
    await session.restart()
    return Reply(f"Notebook '{args.notebook_name}' kernel restarted: generation {session.generation}.")


class Nothing(Arguments):
    pass


async def list_notebooks(call: Call, _: Nothing) -> Reply:
    """Notebooks of use_notebook."""
    active = next(reversed(call.client.sessions), None)
    rows = ["Name\tPath\tKernel_ID\tKernel_Status\tActivate"]
    for name, session_id in call.client.aliases.items():
        session = call.engine.session(session_id)
        rows.append(
            f"{name}\t{session.path}\t{session_id}\t{_kernel_state(session)}\t{'✓' if session_id == active else ''}"
        )
    return Reply("\n".join(rows))


async def list_kernels(call: Call, _: Nothing) -> Reply:
    """Running kernels."""
    rows = ["ID\tName\tDisplay_Name\tLanguage\tState"]
    rows += [
        f"{session.id}\t{session.language}\t{session.name}\t{session.language}\t{_kernel_state(session)}"
        for session in call.engine.sessions("active")
    ]
    return Reply("\n".join(rows))


def _kernel_state(session: Session) -> str:
    if session.state == "suspended":
        return "dead"
    return "busy" if session.runs.live else "idle"


class ListFiles(Arguments):
    path: str = Field(default="", max_length=4_000)
    max_depth: int = Field(default=1, ge=0, le=3)
    start_index: int = Field(default=0, ge=0)
    limit: int = Field(default=25, ge=0)
    pattern: str = Field(default="", max_length=1_000)


async def list_files(call: Call, args: ListFiles) -> Reply:
    """Files under the root directory."""
    root = call.root
    start = call.path(args.path)
    found = await anyio.to_thread.run_sync(_files, root, start, args.max_depth, args.pattern)
    end = args.start_index + args.limit if args.limit else None
    shown = found[args.start_index : end]
    head = f"Showing {args.start_index}-{args.start_index + len(shown)} of {len(found)} files"
    return Reply("\n".join([head, "Path\tType\tSize\tLast_Modified", *shown]))


def _files(root: Path, start: Path, depth: int, pattern: str) -> list[str]:
    rows: list[str] = []
    waiting = [(start, 0)]
    while waiting and len(rows) < _MOST_FILES:
        directory, level = waiting.pop(0)
        for path in sorted(directory.iterdir()) if directory.is_dir() else []:
            is_directory = path.is_dir() and not path.is_symlink()
            if is_directory and level < depth:
                waiting.append((path, level + 1))
            if not pattern or path.match(pattern):
                about = path.lstat()
                when = datetime.fromtimestamp(about.st_mtime, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
                kind = "directory" if is_directory else "file"
                shown = path.relative_to(root) if path.is_relative_to(root) else path
                rows.append(f"{shown}\t{kind}\t{about.st_size}\t{when}")
    return rows


class ReadNotebook(Arguments):
    notebook_name: str = Name
    response_format: Literal["brief", "detailed"] = "brief"
    start_index: int = Field(default=0, ge=0)
    limit: int = Field(default=20, ge=0, description="0 = all")


async def read_notebook(call: Call, args: ReadNotebook) -> Reply:
    """Read a notebook: 'brief' has a line a cell, 'detailed' the sources."""
    session = _named(call, args.notebook_name)
    await session.refresh()
    cells = session.cells[args.start_index : args.start_index + args.limit if args.limit else None]
    states = cell_states(session, cells)
    head = f"Notebook {args.notebook_name} has {len(session.document)} cells."
    if args.response_format == "brief":
        return Reply(f"{head}\n{outline(cells, states, max_tokens=_TOKENS)}")
    share = max(_TOKENS // max(len(cells), 1), 50)
    texts = [section(session.id, (cell,), states, cell.id, outputs=False, max_tokens=share) for cell in cells]
    return Reply("\n".join([head, *texts]))


class OfCell(Arguments):
    cell_index: int = Index


class WithTimeout(Arguments):
    timeout: int = Timeout

    @property
    def timeout_s(self) -> int:
        return self.timeout or _DEFAULT_TIMEOUT_S


class ReadCell(OfCell):
    include_outputs: bool = True


async def read_cell(call: Call, args: ReadCell) -> Reply:
    """Read a cell of the activated notebook, with its outputs."""
    session = _active(call)
    cell = cell_at(session, args.cell_index)
    states = cell_states(session, (cell,))
    return Reply(
        section(session.id, (cell,), states, cell.id, outputs=args.include_outputs, max_tokens=_TOKENS)
    )


class InsertCell(Arguments):
    cell_index: int = Field(ge=-1, description="From 0; -1 = end")
    cell_type: Literal["code", "markdown"]
    cell_source: Content


async def insert_cell(call: Call, args: InsertCell) -> Reply:
    """Insert a cell into the activated notebook."""
    session = _active(call)
    cell = await session.add_cell(args.cell_source, args.cell_type, position=place_for(args.cell_index))
    index = session.document.index(cell.id)
    return Reply(f"Cell inserted successfully at index {index} ({args.cell_type})!\n{_outline(session)}")


class OverwriteCell(OfCell):
    cell_source: Content


async def overwrite_cell_source(call: Call, args: OverwriteCell) -> Reply:
    """Replace a cell's source; replies with the difference."""
    session = _active(call)
    return await _edited(session, cell_at(session, args.cell_index), args.cell_source)


class EditCellSource(OfCell):
    old_string: Content
    new_string: Content
    replace_all: bool = False


async def edit_cell_source(call: Call, args: EditCellSource) -> Reply:
    """Replace a text within a cell's source; replies with the difference."""
    session = _active(call)
    cell = cell_at(session, args.cell_index)
    count = cell.source.count(args.old_string) if args.old_string else 0
    if count == 0 or (count > 1 and not args.replace_all):
        found = "is not in" if count == 0 else f"is {count} times in"
        raise NotebookError(
            f"old_string {found} cell {args.cell_index}",
            hint="read_cell shows it; replace_all=true replaces every one",
        )
    return await _edited(session, cell, cell.source.replace(args.old_string, args.new_string))


async def _edited(session: Session, cell: Cell, source: str) -> Reply:
    await session.edit_cell(cell.id, source)
    difference = "\n".join(
        difflib.unified_diff(cell.source.splitlines(), source.splitlines(), lineterm="", n=1)
    )
    return Reply(f"Cell {session.document.index(cell.id)} updated successfully!\n{difference}".rstrip())


class DeleteCells(Arguments):
    cell_indices: list[int] = Field(min_length=1, max_length=1_000)
    include_source: bool = True


async def delete_cell(call: Call, args: DeleteCells) -> Reply:
    """Delete cells of the activated notebook."""
    session = _active(call)
    cells = [cell_at(session, index) for index in dict.fromkeys(args.cell_indices)]
    for cell in cells:
        await session.delete_cell(cell.id)
    deleted = [f"Cell {cell.id} ({cell.kind}) deleted successfully." for cell in cells]
    sources = [f"---\n{cell.source}" for cell in cells] if args.include_source else []
    return Reply("\n".join([*deleted, *sources]))


class MoveCell(Arguments):
    source_index: int = Index
    target_index: int = Index


async def move_cell(call: Call, args: MoveCell) -> Reply:
    """Move a cell within the activated notebook."""
    session = _active(call)
    await session.move_cell(cell_at(session, args.source_index).id, args.target_index)
    return Reply(f"Moved cell {args.source_index} to {args.target_index}.\n{_outline(session)}")


async def clear_cell_output(call: Call, args: OfCell) -> Reply:
    """Remove what a cell shows."""
    session = _active(call)
    cell = cell_at(session, args.cell_index)
    if cell.kind != "code":
        raise NotebookError(
            f"Cell {args.cell_index} is a {cell.kind} cell", hint="Only code cells have outputs"
        )
    await session.apply([OutputsSet(cell.id, [], None)])
    return Reply(f"Cleared the output of cell {args.cell_index}.")


class Execute(WithTimeout, OfCell):
    stream: bool = False
    progress_interval: int = 5


async def execute_cell(call: Call, args: Execute) -> Reply:
    """Run a cell of the activated notebook."""
    session = _active(call)
    cell = cell_at(session, args.cell_index)
    return await cell_execute(
        call, ExecuteCell(session_id=session.id, cell_id=cell.id, timeout_s=args.timeout_s)
    )


class InsertAndExecute(WithTimeout):
    cell_index: int = Field(ge=-1, description="From 0; -1 = end")
    cell_source: Content


async def insert_execute_code_cell(call: Call, args: InsertAndExecute) -> Reply:
    """Insert a code cell into the activated notebook and run it."""
    position = place_for(args.cell_index)
    arguments = AddAndRun(
        session_id=_active(call).id, code=args.cell_source, position=position, timeout_s=args.timeout_s
    )
    return await cell_add_and_run(call, arguments)


class ExecuteCode(WithTimeout):
    code: Content
    timeout: int = Field(default=30, ge=0, le=3_600, description="Seconds")
    kernel_id: str | None = Field(default=None, max_length=300)


async def execute_code(call: Call, args: ExecuteCode) -> Reply:
    """Run code in the activated notebook's kernel without saving it."""
    session = call.session(args.kernel_id) if args.kernel_id else _active(call)
    return await scratch_run(
        call, RunScratch(session_id=session.id, code=args.code, timeout_s=args.timeout_s)
    )


def _outline(session: Session) -> str:
    return outline(session.cells, cell_states(session, session.cells), max_tokens=500)


def _active(call: Call) -> Session:
    """The notebook that this client activated last."""
    latest = next(reversed(call.client.sessions), None)
    if latest is None:
        raise UnknownSession("No notebook is activated", hint="Call use_notebook first")
    return call.session(latest)


def _named(call: Call, name: str) -> Session:
    return call.session(call.client.aliases.get(name, name))


_TOOLS = (
    Definition(use_notebook, UseNotebook, CHANGES),
    Definition(unuse_notebook, OfNotebook, DESTROYS),
    Definition(restart_notebook, OfNotebook, DESTROYS),
    Definition(list_notebooks, Nothing, READS),
    Definition(list_kernels, Nothing, READS),
    Definition(list_files, ListFiles, READS),
    Definition(read_notebook, ReadNotebook, READS),
    Definition(read_cell, ReadCell, READS),
    Definition(insert_cell, InsertCell, CHANGES),
    Definition(overwrite_cell_source, OverwriteCell, CHANGES),
    Definition(edit_cell_source, EditCellSource, CHANGES),
    Definition(delete_cell, DeleteCells, DESTROYS),
    Definition(move_cell, MoveCell, CHANGES),
    Definition(clear_cell_output, OfCell, DESTROYS),
    Definition(execute_cell, Execute, CHANGES),
    Definition(insert_execute_code_cell, InsertAndExecute, CHANGES),
    Definition(execute_code, ExecuteCode, CHANGES),
)

JUPYTER = Dialect(
    _TOOLS,
    (
        "Notebooks with live kernels. use_notebook activates one, or creates it with mode='create'; the calls that follow "
        "work in it. insert_execute_code_cell adds a cell and runs it, execute_code runs code without a cell; state lasts "
        "between calls. Cells are counted from 0; read_notebook and read_cell show them. A long cell returns an execution "
        "id: execution_wait goes on waiting, execution_cancel stops it."
    ),
    {
        "notebook_create": "use_notebook",
        "notebook_open": "use_notebook",
        "session_resume": "use_notebook",
        "notebook_list": "list_notebooks",
        "notebook_read": "read_notebook",
        "session_suspend": "unuse_notebook",
        "kernel_restart": "restart_notebook",
        "cell_add": "insert_cell",
        "cell_add_and_run": "insert_execute_code_cell",
        "cell_execute": "execute_cell",
        "cell_update": "overwrite_cell_source",
        "cell_delete": "delete_cell",
        "scratch_run": "execute_code",
        "session_files": "list_files",
    },
)
