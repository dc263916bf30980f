"""Each dialect through a workflow as its own system's users would go."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult, TextContent

from cellwright import Engine
from cellwright.engine.providers import HostInfo
from cellwright.hosts.protocol import GpuUse, Resources
from cellwright.mcp import McpServer
from tests.kernel.mcp.conftest import PACE, ask, connected, images_of, read, refused, running

pytestmark = pytest.mark.anyio

H200 = GpuUse("/dev/nvidia2", "NVIDIA H200", 2 << 20, 143_771 << 20)

JLAB = {
    "start_new_notebook", "start_notebook", "restore_notebook", "execute_code", "run_cell", "edit_cell", "add_markdown", "edit_markdown",
    "delete_cell", "interrupt_kernel", "shutdown_session", "execute_scratch", "ping", "check_resources",
}  # fmt: skip
JUPYTER = {
    "use_notebook", "unuse_notebook", "restart_notebook", "list_notebooks", "list_kernels", "list_files",
    "read_notebook", "read_cell", "insert_cell", "overwrite_cell_source", "edit_cell_source", "delete_cell",
    "move_cell", "clear_cell_output", "execute_cell", "insert_execute_code_cell", "execute_code",
}  # fmt: skip
MONADIC = {
    "create_jupyter_notebook", "create_and_populate_jupyter_notebook", "add_jupyter_cells", "delete_jupyter_cell",
    "update_jupyter_cell", "get_jupyter_cells_with_results", "list_jupyter_notebooks",
    "execute_and_fix_jupyter_cells",
}  # fmt: skip
LASTING = {"execution_wait", "execution_cancel"}


@asynccontextmanager
async def speaking(engine: Engine, dialect: str) -> AsyncIterator[Client]:
    async with running(McpServer(engine, dialect=dialect, pace=PACE)) as face, connected(face) as client:
        yield client


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def test_a_workflow_of_jlab_mcp(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with speaking(engine, "jlab") as client:
        assert await names(client) == JLAB | LASTING
        assert (await ask(client, "ping"))["status"] == "ok"
        started = await ask(client, "start_new_notebook", experiment_name="training run")
        session = started["session_id"]
        assert started["notebook_path"].endswith("_training_run.ipynb")
        assert "hello" in await read(client, "execute_code", session_id=session, code="x = 2\nprint('hello')")
        assert (
            await read(client, "add_markdown", session_id=session, markdown="# Notes")
            == "Added markdown cell at index 1"
        )
        plot = "import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()"
        drawn = await client.call_tool("execute_code", {"session_id": session, "code": plot})
        assert len(images_of(drawn)) == 1
        assert "\n30" in await read(client, "edit_cell", session_id=session, cell_index=0, code="x = 30\nx")
        assert "\n30" in await read(client, "run_cell", session_id=session, cell_index=0)
        assert "index 1" in await read(
            client, "edit_markdown", session_id=session, cell_index=1, markdown="# More"
        )
        assert "2 are left" in await read(client, "delete_cell", session_id=session, cell_index=-1)
        assert "NameError" in await read(client, "execute_scratch", code="x")
        assert session in await read(client, "interrupt_kernel", session_id=session)
        status = json.loads((await client.read_resource("jlab-mcp://server/status")).contents[0].text)  # type: ignore[union-attr]
        assert session in status["sessions"]
        assert (await ask(client, "check_resources"))["memory"]["total_mb"] > 0
        assert "shutdown successfully" in await read(client, "shutdown_session", session_id=session)
        again = await ask(client, "start_notebook", notebook_path=started["notebook_path"])
        assert again["session_id"] == session
        assert "NameError" in await read(client, "execute_code", session_id=session, code="x")
        assert "There is no cell 9" in await refused(client, "run_cell", session_id=session, cell_index=9)
        restored = await read(client, "restore_notebook", notebook_path=started["notebook_path"])
        assert json.loads(restored.partition("\n")[0])["session_id"] == session
        assert "30" in await read(client, "execute_code", session_id=session, code="x")
        await _tells_what_the_host_is(engine, client, monkeypatch, started)


async def _tells_what_the_host_is(
    engine: Engine, client: Client, monkeypatch: pytest.MonkeyPatch, started: dict[str, Any]
) -> None:
    """The job, the machine and its resources, be the host this machine's or an allocation's."""
    (host,) = [one for one in await engine.hosts.list() if one.name == "local"]
    assert host.resources is not None
    assert (started["job_id"], started["hostname"]) == ("local", host.resources.node)
    allocation = replace(
        host,
        name="slurm:gpu-1",
        job_id=4711,
        resources=Resources("node7", 8, 1.5, 2**33, 2**30, gpus=(H200, GpuUse("/dev/nvidia3"))),
    )
    monkeypatch.setattr("cellwright.mcp.dialects.jlab._host_of", found(allocation))
    there = await ask(client, "start_notebook", notebook_path=started["notebook_path"])
    assert (there["job_id"], there["hostname"]) == ("4711", "node7")
    resources = await ask(client, "check_resources")
    assert (resources["job_id"], resources["cpu"]["count"]) == ("4711", 8)
    assert (resources["memory"]["total_mb"], resources["memory"]["percent_used"]) == (8192, 12.5)
    status = json.loads((await client.read_resource("jlab-mcp://server/status")).contents[0].text)  # type: ignore[union-attr]
    assert resources["gpu"] == [
        {"index": "0", "name": "NVIDIA H200", "memory.used": "2", "memory.total": "143771"},
        {"index": "1", "name": "/dev/nvidia3"},
    ]
    told = {"job_id": "4711", "hostname": "node7"}
    has = {name: value for name, value in resources.items() if name not in told}
    assert there["resources"] == has
    assert status["server"] == {**told, "resources": has, "healthy": True}


def found(host: HostInfo) -> Callable[..., Awaitable[HostInfo]]:
    """Tells this host, whatever session is asked about."""

    async def host_of(*_: object) -> HostInfo:
        return host

    return host_of


async def test_a_workflow_of_jupyter_mcp_server(engine: Engine) -> None:
    async with speaking(engine, "jupyter") as client:
        assert await names(client) == JUPYTER | LASTING
        assert "use_notebook first" in await refused(client, "execute_cell", cell_index=0)
        path = "analysis/first.ipynb"
        used = await read(client, "use_notebook", notebook_name="first", notebook_path=path, mode="create")
        assert "Successfully activated notebook 'first'" in used
        inserted = await read(
            client, "insert_cell", cell_index=-1, cell_type="markdown", cell_source="# Title"
        )
        assert "at index 0 (markdown)" in inserted
        ran = await read(
            client, "insert_execute_code_cell", cell_index=1, cell_source="x = 1\nprint('x is', x)"
        )
        assert "x is 1" in ran
        changed = await read(client, "edit_cell_source", cell_index=1, old_string="x = 1", new_string="x = 5")
        assert "-x = 1\n+x = 5" in changed
        assert "x is 5" in await read(client, "execute_cell", cell_index=1, timeout=200)
        assert "x is 5" in await read(client, "read_cell", cell_index=1)
        assert "+y = 2" in await read(client, "overwrite_cell_source", cell_index=1, cell_source="y = 2")
        assert "x was 5" in await read(client, "execute_code", code="print('x was', x)")
        assert "Moved cell 0 to 1" in await read(client, "move_cell", source_index=0, target_index=1)
        await read(client, "clear_cell_output", cell_index=0)
        assert "x is 5" not in await read(client, "read_cell", cell_index=0)
        assert "has 2 cells" in await read(client, "read_notebook", notebook_name="first")
        assert "y = 2" in await read(
            client, "read_notebook", notebook_name="first", response_format="detailed"
        )
        assert "# Title" in await read(client, "delete_cell", cell_indices=[1])
        assert "first.ipynb\tfile" in await read(client, "list_files", path="analysis")
        assert "first\t" in await read(client, "list_notebooks")
        assert "idle" in await read(client, "list_kernels")
        assert "restarted" in await read(client, "restart_notebook", notebook_name="first")
        assert "NameError" in await read(client, "execute_code", code="x")
        missing = await read(client, "execute_code", code="import seaborn")
        assert ("No module named 'seaborn'" in missing, "package_install" in missing) == (True, False)
        assert "unused" in await read(client, "unuse_notebook", notebook_name="first")
        assert "mode='connect'" in await refused(
            client, "use_notebook", notebook_name="first", notebook_path=path, mode="create"
        )
        assert "is outside the directories" in await refused(client, "list_files", path="../..")


async def test_the_activated_notebook_is_each_clients_own(engine: Engine) -> None:
    async with (
        running(McpServer(engine, dialect="jupyter", pace=PACE)) as face,
        connected(face) as first,
        connected(face) as second,
    ):
        for client, name in ((first, "a"), (second, "b")):
            await read(
                client, "use_notebook", notebook_name=name, notebook_path=f"own/{name}.ipynb", mode="create"
            )
        await read(first, "insert_execute_code_cell", cell_index=-1, cell_source="holder = 'first'")
        assert "NameError" in await read(second, "execute_code", code="holder")


async def test_a_workflow_of_monadic_chat(engine: Engine) -> None:
    async with speaking(engine, "monadic") as client:
        assert await names(client) == MONADIC | LASTING
        full = await read(client, "create_jupyter_notebook", filename="math_notebook")
        assert re.fullmatch(r"math_notebook_\d{8}_\d{6}\.ipynb", full)
        cells = [
            {"cell_type": "markdown", "source": "# Derivatives"},
            {"cell_type": "code", "source": "d = 2\nd * 2"},
        ]
        added = await read(client, "add_jupyter_cells", filename=full.removesuffix(".ipynb"), cells=cells)
        assert "2 cells added" in added
        assert "\n4" in added
        wrong = [{"cell_type": "code", "source": "integral(d)"}]
        # Without its timestamp, as models forget it; and as JSON in a string, as models send it.
        assert "NameError" in await read(
            client, "add_jupyter_cells", filename="math_notebook", cells=json.dumps(wrong)
        )
        found = await ask(client, "execute_and_fix_jupyter_cells", filename=full)
        assert (found["status"], found["cell_index"], found["error_type"]) == ("error_found", 2, "NameError")
        mended = "def integral(x): return x\nintegral(d)"
        await read(client, "update_jupyter_cell", filename=full, index=2, content=mended)
        assert (await ask(client, "execute_and_fix_jupyter_cells", filename=full))["status"] == "success"
        results = (await ask(client, "get_jupyter_cells_with_results", filename=full))["cells"]
        assert [cell["type"] for cell in results] == ["markdown", "code", "code"]
        assert results[2]["outputs"] == ["2"]
        assert "2 are left" in await read(client, "delete_jupyter_cell", filename=full, index=0)
        listed = (await ask(client, "list_jupyter_notebooks"))["notebooks"]
        assert full in {entry["filename"] for entry in listed}
        both = await read(
            client,
            "create_and_populate_jupyter_notebook",
            filename="second",
            cells=[{"source": "print('made')"}],
            new=True,
        )
        assert both.startswith("second_2")
        assert "made" in both


async def test_monadic_chats_conversation_keeps_its_notebook_and_its_state(engine: Engine) -> None:
    async with speaking(engine, "monadic") as client:
        full = await read(client, "create_jupyter_notebook", filename="integrals")
        await read(client, "add_jupyter_cells", filename=full, cells=[{"source": "kept = 41"}])
        # The original mistake of its agents: a second notebook for the next cell.
        again = await client.call_tool("create_jupyter_notebook", {"filename": "integrals"})
        assert [block.text for block in again.content][1:] == [full]  # type: ignore[union-attr]
        assert "new=true" in again.content[0].text  # type: ignore[union-attr]
        populated = {"filename": "more", "cells": [{"source": "1"}]}
        refused_cells = await client.call_tool("create_and_populate_jupyter_notebook", populated)
        assert "No cells were added" in refused_cells.content[0].text  # type: ignore[union-attr]
        # All of a batch, or none of it.
        many = [{"source": str(number)} for number in range(101)]
        assert "max_cells" in await refused(client, "add_jupyter_cells", filename=full, cells=many)
        assert "max_cells" in await refused(
            client, "create_and_populate_jupyter_notebook", filename="many", cells=many, new=True
        )
        long = [{"source": "1"}, {"source": "#" * (engine.settings.max_source_bytes + 1)}]
        assert "max_source_bytes" in await refused(client, "add_jupyter_cells", filename=full, cells=long)
        assert "max_source_bytes" in await refused(
            client, "create_and_populate_jupyter_notebook", filename="many", cells=long, new=True
        )
        session = next(one for one in engine.sessions() if one.path.name == full)
        assert [cell.source for cell in session.cells] == ["kept = 41"]
        assert not [one for one in engine.sessions() if one.name.startswith("many_")]
        # A kernel that is lost, and a session that is deleted.
        await (await session.execute_code("import os; os._exit(7)")).wait()
        more = {"filename": full, "cells": [{"source": "kept + 1"}]}
        assert "\n42" in _texts(await client.call_tool("add_jupyter_cells", more))
        await session.save()
        await engine.delete(session.id)
        found = _texts(await client.call_tool("add_jupyter_cells", {**more, "filename": "integrals"}))
        assert "opened again from its file" in found
        assert "\n42" in found
        # Somebody's session that was only opened is not run; one that fails on its way back says where.
        session = next(one for one in engine.sessions() if one.path.name == full)
        await session.edit_cell(session.cells[1].id, "kept + missing")
        await engine.delete(session.id)
        opened = await engine.open(session.path)
        one = {"filename": full, "cells": [{"source": "'alone'"}]}
        assert "ran again" not in _texts(await client.call_tool("add_jupyter_cells", one))
        assert [cell.execution_count for cell in opened.cells][-1] == 1
        await engine.delete(opened.id)
        assert "ran again first; cell 1 failed" in _texts(await client.call_tool("add_jupyter_cells", one))


def _texts(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
