"""The tools of jlab-mcp."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import psutil
from pydantic import Field

from cellwright.engine import Engine, Execution, Session
from cellwright.engine.hosts import place_name
from cellwright.engine.placement import LOCAL
from cellwright.engine.providers import HostInfo
from cellwright.hosts.protocol import Resources
from cellwright.mcp._arguments import Arguments, Content, SessionId
from cellwright.mcp._replies import execution_reply
from cellwright.mcp._waits import run_and_wait
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.dialects._indices import LONG_S, cell_at
from cellwright.mcp.dialects.dialect import Dialect
from cellwright.mcp.tools.cells import (
    AddAndRun,
    ExecuteCell,
    UpdateCell,
    cell_add_and_run,
    cell_execute,
    cell_update,
)
from cellwright.mcp.tools.notebooks import CreateNotebook, OpenNotebook, notebook_create, notebook_open

__all__ = ["JLAB", "JLAB_STATUS_URI", "status"]

JLAB_STATUS_URI = "jlab-mcp://server/status"
_GPU_QUERY = "index,name,memory.used,memory.total,utilization.gpu,temperature.gpu"
_GPU_TIMEOUT_S = 10


class StartNew(Arguments):
    experiment_name: str = Field(min_length=1, max_length=2_000)


async def start_new_notebook(call: Call, args: StartNew) -> Reply:
    """Start a kernel and create a notebook for an experiment."""
    created = await notebook_create(call, CreateNotebook(name=args.experiment_name))
    session = call.engine.session((created.data or {})["session_id"])
    await session.delete_cell("problem")  # this system's cells count from an empty notebook
    return data_reply(await _started(call.engine, session), call)


class StartExisting(Arguments):
    notebook_path: str = Field(min_length=1, max_length=4_000)


async def start_notebook(call: Call, args: StartExisting) -> Reply:
    """Open an existing notebook, with its kernel if that is still alive. Nothing is run."""
    opened = await notebook_open(call, OpenNotebook(path=args.notebook_path))
    session = call.engine.session((opened.data or {})["session_id"])
    await session.resume()
    return data_reply(await _started(call.engine, session), call)


async def restore_notebook(call: Call, args: StartExisting) -> Reply:
    """Open an existing notebook in a new kernel and run all of its cells in order."""
    opened = await notebook_open(call, OpenNotebook(path=args.notebook_path))
    session = call.session((opened.data or {})["session_id"])
    await call.shared.planner.pause(session.id)
    await session.restart()
    executed = await cell_execute(call, ExecuteCell(session_id=session.id, cell_id="all", timeout_s=LONG_S))
    started = json.dumps(await _started(call.engine, session), ensure_ascii=False)
    return Reply(f"{started}\n{executed.text}", executed.images)


async def _started(engine: Engine, session: Session) -> dict[str, Any]:
    where = _whereabouts(await _host_of(engine, session))
    return {"session_id": session.id, "notebook_path": str(session.path), **where}


async def _host_of(engine: Engine, session: Session | None) -> HostInfo | None:
    """The host of a session's kernel; without a session the one that the newest kernel is on, else this machine."""
    if session is None:
        session = max(engine.sessions("active"), key=lambda one: one.last_active, default=None)
    name = place_name(session.record) if session is not None else LOCAL
    return next((one for one in await engine.hosts.list() if one.name == name), None)


def _job(host: HostInfo | None) -> dict[str, str]:
    """The job and the machine that a host is, as this system names them."""
    job_id = str(host.job_id) if host is not None and host.job_id is not None else LOCAL
    node = host.resources.node if host is not None and host.resources is not None else socket.gethostname()
    return {"job_id": job_id, "hostname": node}


def _whereabouts(host: HostInfo | None) -> dict[str, Any]:
    """The job and the machine, and what an allocation has and uses."""
    if host is None or host.job_id is None or host.resources is None:
        return _job(host)
    return {**_job(host), "resources": _resources(host.resources)}


class ExecuteCode(Arguments):
    session_id: SessionId = None
    code: Content


async def execute_code(call: Call, args: ExecuteCode) -> Reply:
    """Run code and add it to the notebook as a cell."""
    return await cell_add_and_run(
        call, AddAndRun(session_id=args.session_id, code=args.code, timeout_s=LONG_S)
    )


class OfCell(Arguments):
    session_id: SessionId = None
    cell_index: int = Field(description="From 0; below 0 from the end")


async def run_cell(call: Call, args: OfCell) -> Reply:
    """Run an existing cell again."""
    session = call.session(args.session_id)
    cell = cell_at(session, args.cell_index)
    return await cell_execute(call, ExecuteCell(session_id=session.id, cell_id=cell.id, timeout_s=LONG_S))


class EditCell(OfCell):
    code: Content


async def edit_cell(call: Call, args: EditCell) -> Reply:
    """Replace a code cell and run it."""
    session = call.session(args.session_id)
    cell = cell_at(session, args.cell_index)
    await cell_update(call, UpdateCell(session_id=session.id, cell_id=cell.id, code=args.code))
    return await cell_execute(call, ExecuteCell(session_id=session.id, cell_id=cell.id, timeout_s=LONG_S))


class AddMarkdown(Arguments):
    session_id: SessionId = None
    markdown: Content


async def add_markdown(call: Call, args: AddMarkdown) -> Reply:
    """Add a Markdown cell at the end."""
    session = call.session(args.session_id)
    cell = await session.add_cell(args.markdown, "markdown")
    return Reply(f"Added markdown cell at index {session.document.index(cell.id)}")


class EditMarkdown(OfCell):
    markdown: Content


async def edit_markdown(call: Call, args: EditMarkdown) -> Reply:
    """Replace a Markdown cell."""
    session = call.session(args.session_id)
    cell = cell_at(session, args.cell_index)
    await session.edit_cell(cell.id, args.markdown)
    return Reply(f"Edited markdown cell at index {session.document.index(cell.id)}")


async def delete_cell(call: Call, args: OfCell) -> Reply:
    """Delete a cell."""
    session = call.session(args.session_id)
    cell = cell_at(session, args.cell_index)
    await session.delete_cell(cell.id)
    return Reply(f"Deleted cell {args.cell_index}; {len(session.document)} are left")


class OfSession(Arguments):
    session_id: SessionId = None


async def interrupt_kernel(call: Call, args: OfSession) -> Reply:
    """Stop what runs; the kernel keeps its state."""
    session = call.session(args.session_id)
    await call.shared.planner.pause(session.id)
    await session.interrupt()
    return Reply(f"Kernel interrupted for session {session.id}")


async def shutdown_session(call: Call, args: OfSession) -> Reply:
    """Stop the kernel; the notebook is saved. Only when the user asks for it."""
    session = call.session(args.session_id)
    await call.shared.planner.pause(session.id)
    await session.suspend()
    await session.save()
    return Reply(f"Session {session.id} shutdown successfully. Notebook saved at {session.path}")


class Scratch(Arguments):
    code: Content


async def execute_scratch(call: Call, args: Scratch) -> Reply:
    """Run code on a temporary kernel that is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="cellwright-scratch-"))
    session = await call.engine.create("scratch", directory=directory, mode="private")
    try:

        async def submit() -> Sequence[Execution]:
            return [await session.execute_code(args.code, timeout_s=call.shared.pace.wait_s)]

        executions = await run_and_wait(call, session.id, submit, wait_s=None)
        return await execution_reply(call, session, executions, response_format="text", max_tokens=None)
    finally:
        with anyio.CancelScope(shield=True):
            await call.engine.delete(session.id, remove_file=True)
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))
        call.client.forget(session.id)


class Nothing(Arguments):
    pass


async def ping(call: Call, _: Nothing) -> Reply:
    """Check that the server answers."""
    kernels = [
        {"id": session.id, "name": session.language, "state": "busy" if session.runs.live else "idle"}
        for session in call.engine.sessions("active")
    ]
    return data_reply(
        {
            "status": "ok",
            "healthy": True,
            "hostname": _job(await _host_of(call.engine, None))["hostname"],
            "active_sessions": len(kernels),
            "kernels": kernels,
        },
        call,
    )


async def check_resources(call: Call, _: Nothing) -> Reply:
    """CPU, memory and GPU use of the machine or allocation that kernels run on."""
    host = await _host_of(call.engine, None)
    if host is not None and host.job_id is not None and host.resources is not None:
        return data_reply({**_job(host), **_resources(host.resources)}, call)
    memory = psutil.virtual_memory()
    load = psutil.getloadavg()
    megabyte = 1024 * 1024
    found = {
        "cpu": {"count": psutil.cpu_count(), "load_1m": load[0], "load_5m": load[1], "load_15m": load[2]},
        "memory": {
            "total_mb": memory.total // megabyte,
            "used_mb": (memory.total - memory.available) // megabyte,
            "available_mb": memory.available // megabyte,
            "percent_used": memory.percent,
        },
        "gpu": await _gpus(),
    }
    return data_reply(found, call)


def _resources(has: Resources) -> dict[str, Any]:
    """The same of an allocation, as its host tells it."""
    megabyte = 1024 * 1024
    return {
        "cpu": {"count": has.cpus, "load_1m": has.load},
        "memory": {
            "total_mb": has.memory_bytes // megabyte,
            "used_mb": has.memory_used // megabyte,
            "available_mb": (has.memory_bytes - has.memory_used) // megabyte,
            "percent_used": round(100 * has.memory_used / max(has.memory_bytes, 1), 1),
        },
        "gpu": _gpus_of(has),
    }


def _gpus_of(has: Resources) -> Any:
    """The GPUs of an allocation, numbered as code in it sees them."""
    if not has.gpus:
        return {"error": "The allocation has no GPU"}
    megabyte = 1024 * 1024
    return [
        {"index": str(index), "name": gpu.name or gpu.device}
        | (
            {
                "memory.used": str(gpu.memory_used // megabyte),
                "memory.total": str(gpu.memory_bytes // megabyte),
            }
            if gpu.memory_used is not None and gpu.memory_bytes is not None
            else {}
        )
        for index, gpu in enumerate(has.gpus)
    ]


async def _gpus() -> Any:
    program = shutil.which("nvidia-smi")
    if program is None:
        return {"error": "nvidia-smi not found (no GPU)"}
    with anyio.move_on_after(_GPU_TIMEOUT_S):
        command = [program, f"--query-gpu={_GPU_QUERY}", "--format=csv,noheader,nounits"]
        done = await anyio.run_process(command, check=False)
        keys = _GPU_QUERY.split(",")
        rows = [line.split(",") for line in done.stdout.decode(errors="replace").splitlines()]
        return [dict(zip(keys, (value.strip() for value in row), strict=False)) for row in rows]
    return {"error": f"nvidia-smi did not answer within {_GPU_TIMEOUT_S} s"}


async def status(engine: Engine) -> dict[str, Any]:
    """What the resource ``jlab-mcp://server/status`` tells."""
    sessions = engine.sessions("active")
    listed = {
        session.id: {"kernel_id": session.id, "notebook_path": str(session.path)} for session in sessions
    }
    server = {**_whereabouts(await _host_of(engine, None)), "healthy": True}
    return {"server": server, "active_sessions": len(sessions), "sessions": listed}


_SESSION = ("session_id",)
_TOOLS = (
    Definition(start_new_notebook, StartNew, CHANGES),
    Definition(start_notebook, StartExisting, CHANGES),
    Definition(restore_notebook, StartExisting, CHANGES),
    Definition(execute_code, ExecuteCode, CHANGES, asks_for=_SESSION),
    Definition(run_cell, OfCell, CHANGES, asks_for=_SESSION),
    Definition(edit_cell, EditCell, CHANGES, asks_for=_SESSION),
    Definition(add_markdown, AddMarkdown, CHANGES, asks_for=_SESSION),
    Definition(edit_markdown, EditMarkdown, CHANGES, asks_for=_SESSION),
    Definition(delete_cell, OfCell, DESTROYS, asks_for=_SESSION),
    Definition(interrupt_kernel, OfSession, DESTROYS, asks_for=_SESSION),
    Definition(shutdown_session, OfSession, DESTROYS, asks_for=_SESSION),
    Definition(execute_scratch, Scratch, CHANGES),
    Definition(ping, Nothing, READS),
    Definition(check_resources, Nothing, READS),
)

JLAB = Dialect(
    _TOOLS,
    (
        "Notebooks with live kernels. start_new_notebook, or start_notebook for a file that is there, gives a session_id; "
        "restore_notebook opens a file and runs all of it; "
        "execute_code adds a cell and runs it; state lasts between calls. Cells are counted from 0. run_cell and edit_cell "
        "run one again, execute_scratch runs code in a kernel of its own. A long cell returns an execution id: "
        "execution_wait goes on waiting, execution_cancel stops it. shutdown_session only when the user asks for it."
    ),
    {
        "notebook_create": "start_new_notebook",
        "notebook_open": "start_notebook",
        "notebook_replay": "restore_notebook",
        "session_resume": "start_notebook",
        "session_suspend": "shutdown_session",
        "cell_add": "execute_code",
        "cell_add_and_run": "execute_code",
        "cell_execute": "run_cell",
        "cell_update": "edit_cell",
        "cell_delete": "delete_cell",
        "scratch_run": "execute_scratch",
        "kernel_interrupt": "interrupt_kernel",
    },
)
