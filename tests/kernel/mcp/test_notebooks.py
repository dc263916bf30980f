from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from mcp import Client
from mcp.types import TextContent

from cellwright import Engine
from tests.kernel.mcp.conftest import ask, new_session, read, refused

pytestmark = pytest.mark.anyio


async def test_creating_gives_a_session_with_a_notebook_that_carries_a_time(
    client: Client, engine: Engine
) -> None:
    created = await ask(client, "notebook_create", name="Sales of 2026", description="By region")
    assert created["path"].endswith("_sales_of_2026.ipynb")
    assert not {"state", "generation", "cells", "notebook", "language"} & set(created), (
        "they are what they are for every new one"
    )
    assert engine.session(created["session_id"]).cells[0].source == "# Sales of 2026\n\nBy region"


async def test_lists_tell_active_from_suspended_and_ones_own_from_others(
    client: Client, engine: Engine
) -> None:
    other = await engine.create("somebody else's")
    mine = await new_session(client)
    await ask(client, "session_suspend", session_id=mine)
    active = {entry["session_id"]: entry for entry in (await ask(client, "notebook_list"))["sessions"]}
    suspended = (await ask(client, "notebook_list", filter="suspended"))["sessions"]
    assert other.id in active
    assert mine not in active
    assert not active[other.id]["yours"]
    assert [entry["yours"] for entry in suspended if entry["session_id"] == mine] == [True]


async def test_deleting_keeps_the_file_unless_asked_otherwise(client: Client) -> None:
    session = await new_session(client)
    kept = Path((await ask(client, "notebook_delete", session_id=session))["kept"])
    assert kept.exists()
    assert f"There is no session '{session}'" in await refused(
        client, "cell_add", session_id=session, content="1"
    )
    created = await ask(client, "notebook_create", name="to be removed")
    await ask(client, "notebook_delete", session_id=created["session_id"], remove_file=True)
    assert not Path(created["path"]).exists()


async def test_opening_a_file_attaches_to_it_and_runs_nothing(client: Client, engine: Engine) -> None:
    path = engine.settings.root / "given.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print('x')")]), path)
    opened = await ask(client, "notebook_open", path="given.ipynb")
    assert (opened["state"], opened["generation"], opened["cells"]) == ("suspended", 0, 1)
    assert await ask(client, "notebook_open", path=str(path)) == opened
    assert "[not run] v1: print('x')" in await read(client, "notebook_read", session_id=opened["session_id"])


async def test_updating_and_deleting_cells_keeps_versions(client: Client) -> None:
    session = await new_session(client)
    cell = (await ask(client, "cell_add", session_id=session, content="x = 1"))["cell_id"]
    updated = await ask(client, "cell_update", session_id=session, cell_id=cell, content="x = 2", version=1)
    assert updated["version"] == 2
    stale = await refused(client, "cell_update", session_id=session, cell_id=cell, content="x = 3", version=1)
    assert "is at version 2" in stale
    assert "-x = 2" in stale
    deleted = await ask(client, "cell_delete", session_id=session, cell_id=cell)
    assert deleted == {"session_id": session, "deleted": cell, "cells": 1}


async def test_a_notebook_is_read_as_outline_section_and_search(client: Client) -> None:
    session = await new_session(client, "reading")
    await ask(client, "cell_add", session_id=session, content="## Load", type="markdown")
    heading = (await ask(client, "cell_add", session_id=session, content="## Model", type="markdown"))[
        "cell_id"
    ]
    await read(
        client, "cell_add_and_run", session_id=session, content="alpha = 0.5\nprint('alpha is', alpha)"
    )
    await ask(client, "cell_add", session_id=session, content="## End", type="markdown")
    outline = await read(client, "notebook_read", session_id=session)
    assert [line.split(" ", 1)[0] for line in outline.splitlines()[1:]] == ["0", "1", "2", "3", "4"]
    assert "[ok] v1: alpha = 0.5 (+1 lines) -> stdout 13 B" in outline
    section = await read(client, "notebook_read", session_id=session, cell_id=heading)
    assert "## Model" in section
    assert "alpha is 0.5" in section
    assert "## End" not in section
    bare = await read(client, "notebook_read", session_id=session, cell_id=heading, include_outputs=False)
    assert "alpha is 0.5" not in bare
    hits = await read(client, "notebook_read", session_id=session, query="ALPHA IS")
    assert "line 2: print('alpha is', alpha)" in hits
    assert "stdout line 1: alpha is 0.5" in hits
    assert "Nothing in 5 cells" in await read(client, "notebook_read", session_id=session, query="omega")


async def test_an_outline_keeps_to_its_budget(client: Client) -> None:
    session = await new_session(client, "many cells")
    cells = [{"type": "code", "content": f"value_{number} = {number}"} for number in range(90)]
    imported = await ask(client, "notebook_import", content=json.dumps({"cells": cells}))
    session = imported["session_id"]
    text = await read(client, "notebook_read", session_id=session, max_tokens=200)
    assert len(text) < 200 * 4 + 200
    assert "value_0 " in text
    assert "value_89 " in text
    assert "cells left out" in text


@pytest.mark.parametrize("form", ["json", "markdown", "ipynb", "myst", "percent"])
async def test_a_notebook_survives_being_exported_and_imported(
    client: Client, engine: Engine, form: str
) -> None:
    session = await new_session(client, "round trip")
    await ask(
        client, "cell_add", session_id=session, content="Some *text*\n\n```\nnot code\n```", type="markdown"
    )
    await read(client, "cell_add_and_run", session_id=session, content="print('hi')\n\n'''\n```\n'''")
    result = await client.call_tool("notebook_export", {"session_id": session, "format": form})
    *notes, exported = [block.text for block in result.content if isinstance(block, TextContent)]
    lost = f"The output of 1 cell is left out: {form} holds none"
    assert notes == ([f"note: {lost}"] if form in {"myst", "percent"} else [])
    whole = await client.read_resource(f"notebook://session/{session}/export/{form}")
    told = (whole.contents[0].meta or {}).get("cellwright/notices")
    assert told == ([lost] if form in {"myst", "percent"} else None)
    assert "print('hi')" in exported
    imported = await ask(client, "notebook_import", content=exported, format=form)
    before, after = engine.session(session).cells, engine.session(imported["session_id"]).cells
    assert [(cell.kind, cell.source) for cell in after] == [(cell.kind, cell.source) for cell in before]
    again = await read(client, "scratch_run", session_id=imported["session_id"], code="'it runs'")
    assert "it runs" in again


async def test_an_export_without_outputs_has_none(client: Client) -> None:
    session = await new_session(client)
    await read(client, "cell_add_and_run", session_id=session, content="print('left ' + 'over')")
    for form in ("json", "markdown", "ipynb"):
        arguments = {"session_id": session, "format": form}
        assert "left over" in await read(client, "notebook_export", **arguments)
        assert "left over" not in await read(client, "notebook_export", **arguments, include_outputs=False)


@pytest.mark.parametrize(("form", "magic"), [("html", b"<!DOCTYPE html>"), ("pdf", b"%PDF-")])
async def test_a_notebook_is_written_as_a_page_for_people(
    client: Client, engine: Engine, form: str, magic: bytes
) -> None:
    session = await new_session(client)
    await read(client, "cell_add_and_run", session_id=session, content="print('a' + 'b')")
    path = f"page.{form}"
    said = await read(client, "notebook_export", session_id=session, format=form, path=path)
    assert "written to" in said
    assert (engine.settings.root / path).read_bytes().startswith(magic)


async def test_a_big_export_goes_to_a_file_or_a_resource(client: Client, engine: Engine) -> None:
    session = await new_session(client)
    await read(client, "cell_add_and_run", session_id=session, content="print('x' * 100_000)")
    text = await read(client, "notebook_export", session_id=session, format="ipynb")
    assert "more than max_tokens allows" in text
    uri = next(word.strip(",") for word in text.split() if word.startswith("notebook://"))
    assert nbformat.reads((await client.read_resource(uri)).contents[0].text, as_version=4)  # type: ignore[union-attr]
    written = await read(client, "notebook_export", session_id=session, format="ipynb", path="out/big.ipynb")
    assert "written to" in written
    assert nbformat.read(engine.settings.root / "out" / "big.ipynb", as_version=4)
    assert "already there" in await refused(
        client, "notebook_export", session_id=session, format="ipynb", path="out/big.ipynb"
    )


async def test_an_export_follows_no_link_that_code_put_there(
    client: Client, engine: Engine, tmp_path: Path
) -> None:
    session = await new_session(client)
    (engine.settings.root / "planted.json").symlink_to(tmp_path / "not there yet.json")
    await refused(client, "notebook_export", session_id=session, format="json", path="planted.json")
    assert list(tmp_path.iterdir()) == []


async def test_kernels_are_inspected_completed_restarted_and_resumed(client: Client) -> None:
    session = await new_session(client)
    code = "import math as m\nrows = [1, 2]\ndef double(x): return 2 * x"
    await read(client, "cell_add_and_run", session_id=session, content=code)
    found = await ask(client, "kernel_inspect", session_id=session)
    assert found["imports"] == ["math as m"]
    assert found["functions"] == ["double(x)"]
    assert found["variables"] == ["rows: list [2] = [1, 2]"]
    assert (await ask(client, "kernel_inspect", session_id=session, query="row"))["functions"] == []
    completed = await ask(client, "kernel_complete", session_id=session, code="dou", cursor=3)
    assert "double" in completed["matches"]
    restarted = await ask(client, "kernel_restart", session_id=session)
    assert restarted["generation"] == 2
    assert "generation 1 is now 2" in await read(client, "scratch_run", session_id=session, code="1")
    suspended = await ask(client, "session_suspend", session_id=session)
    assert suspended["state"] == "suspended"
    assert "session_resume" in await refused(client, "kernel_inspect", session_id=session)
    assert (await ask(client, "session_resume", session_id=session))["generation"] == 3


async def test_executions_are_listed_newest_first(client: Client) -> None:
    session = await new_session(client)
    await read(client, "scratch_run", session_id=session, code="'first'")
    await read(client, "scratch_run", session_id=session, code="1 / 0")
    listed = await ask(client, "execution_list", session_id=session, limit=1)
    assert listed["total"] == 2
    (newest,) = listed["executions"]
    assert (newest["status"], newest["source"]) == ("error", "1 / 0")
    assert newest["error"] == "ZeroDivisionError: division by zero"


async def test_interrupting_stops_what_runs_and_drops_what_waits(client: Client) -> None:
    session = await new_session(client)
    running = await read(client, "scratch_run", session_id=session, code="while True: pass", wait=0)
    waiting = await read(client, "scratch_run", session_id=session, code="'never'", wait=0)
    assert " | no output yet\n" in running
    stopped = await ask(client, "kernel_interrupt", session_id=session)
    assert list(stopped["stopped"].values()) == ["interrupted", "interrupted"]
    assert "Still " in waiting
