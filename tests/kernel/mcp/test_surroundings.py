"""What an agent is told about the box that its code runs in, and what it may change there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from cellwright import Engine
from cellwright.engine import Event
from cellwright.mcp import McpServer
from cellwright.sandbox.tiers import SOFT_CPUS, UNSAFE_BANNER
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, ask, connected, new_session, read, refused, running, text_of
from tests.kernel.sandbox.test_packages import make_wheel
from tests.matrix import first_of
from tests.waiting import UNHURRIED, fail_after

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def boxed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("surroundings")
    (root / "project").mkdir()
    (root / "project" / "pyproject.toml").touch()
    options = {"network": "allow", "network_allow": ["127.0.0.3"], "approved_packages": ["small-tool"]}
    async with open_at(root / "project", storage=root / "state", **options) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
async def client(boxed: Engine) -> AsyncIterator[Client]:
    async with running(McpServer(boxed, pace=PACE)) as face, connected(face) as client:
        yield client


async def resource(client: Client, session: str, view: str) -> dict[str, object]:
    found = await client.read_resource(f"notebook://session/{session}/{view}")
    return dict(json.loads(found.contents[0].text))  # type: ignore[union-attr]  # text, as it says


async def test_creating_tells_where_the_code_works_and_how_well_it_is_confined(
    client: Client, boxed: Engine
) -> None:
    created = await ask(client, "notebook_create", name="told")
    assert created["mode"] == "overlay"
    assert created["cwd"] == str(boxed.settings.root / "notebooks")
    assert created["tier"] in {"A", "B", "C"}
    assert Path(created["interpreter"]).exists()
    assert created["network"] == "allow"
    state = await resource(client, created["session_id"], "state")
    for name in ("mode", "cwd", "tier", "interpreter", "network"):
        assert state[name] == created[name], name
    (listed,) = [
        one
        for one in (await ask(client, "notebook_list"))["sessions"]
        if one["session_id"] == created["session_id"]
    ]
    assert listed["tier"] == created["tier"]


async def test_creating_tells_what_this_session_loses_beyond_its_tier(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path, max_session_cpus=1.5) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        created = await ask(client, "notebook_create", name="shares")
        kept_exactly = created["tier"] == "A"
        assert (SOFT_CPUS in created.get("losses", [])) != kept_exactly
    end_host(tmp_path / "state")


async def test_without_a_project_an_agents_session_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        created = await ask(client, "notebook_create", name="alone")
        assert created["mode"] == "private"
        assert created["cwd"].startswith(str(tmp_path / "state"))
        assert "banner" not in created
    end_host(tmp_path / "state")


async def test_every_reply_of_an_unconfined_engine_begins_with_the_banner(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path, unsafe_no_sandbox=True, approved_packages=["small-tool"]) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        created = await ask(client, "notebook_create", name="open")
        session = created["session_id"]
        assert created["banner"] == UNSAFE_BANNER
        added = await ask(client, "cell_add", session_id=session, content="x = 1")
        execution = await ask(client, "scratch_run", session_id=session, code="1", response_format="json")
        called = {"notebook_create", "cell_add", "notebook_delete"}
        for tool, arguments in _good_calls(created["path"], added["cell_id"], execution["execution_id"]):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, (tool, text_of(result))
            _begins_with_the_banner(tool, result)
            called.add(tool)
        for tool, arguments in (
            ("scratch_run", {"cod": "1"}),
            ("notebook_read", {"session_id": "s-none"}),
            ("cell_visualize", {"session_id": session, "cell_id": "problem"}),
            ("session_branch", {"session_id": session, "checkpoint": "nowhere"}),
            ("branch_compare", {"session_id": session}),
            ("branch_adopt", {"session_id": session}),
            ("web_fetch", {"url": "https://closed.example"}),
            ("ask", {"question": "Who is there?"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            _begins_with_the_banner(tool, result)
            called.add(tool)
        assert called == {tool.name for tool in (await client.list_tools()).tools}, "no tool is left out"
        assert (await resource(client, session, "state"))["banner"] == UNSAFE_BANNER
        deleted = await client.call_tool("notebook_delete", {"session_id": session})
        _begins_with_the_banner("notebook_delete", deleted)
    end_host(tmp_path / "state")


@pytest.mark.parametrize("dialect", first_of(["jlab", "jupyter", "monadic"], 1))
async def test_another_dialect_leaves_the_banner_on(tmp_path: Path, dialect: str) -> None:
    async with (
        open_at(tmp_path, unsafe_no_sandbox=True) as engine,
        running(McpServer(engine, dialect=dialect, pace=PACE)) as face,
        connected(face) as client,
    ):
        for tool in (await client.list_tools()).tools:
            _begins_with_the_banner(tool.name, await client.call_tool(tool.name, {}))
    end_host(tmp_path / "state")


def _good_calls(path: str, cell: str, execution: str) -> list[tuple[str, dict[str, Any]]]:
    """A call of every tool that succeeds, in an order in which it does."""
    as_json = {"response_format": "json"}
    return [
        ("cell_update", {"cell_id": cell, "content": "x = 2"}),
        ("cell_execute", {"cell_id": cell}),
        ("cell_execute", {"cell_id": cell, **as_json}),
        ("cell_add_and_run", {"content": "x"}),
        ("scratch_run", {"code": "x"}),
        ("scratch_run", {"code": "x", **as_json}),
        ("execution_list", {}),
        ("execution_wait", {"execution_id": execution}),
        ("execution_cancel", {"execution_id": execution}),
        ("notebook_read", {}),
        ("notebook_list", {}),
        ("notebook_open", {"path": path}),
        ("session_context", {}),
        ("kernel_inspect", {}),
        ("kernel_complete", {"code": "pri"}),
        ("session_files", {}),
        ("notebook_export", {}),
        ("kernel_interrupt", {}),
        ("checkpoint_create", {"name": "here"}),
        ("checkpoint_list", {}),
        ("session_rollback", {"checkpoint": "here"}),
        ("checkpoint_drop", {"checkpoint": "here"}),
        ("kernel_restart", {}),
        ("notebook_replay", {}),
        ("host_list", {}),
        ("host_start", {"host": "local"}),
        ("host_stop", {"host": "local"}),
        ("session_suspend", {}),
        ("session_resume", {}),
        ("package_install", {"packages": ["json"]}),
        (
            "plan_create",
            {
                "problem": "Two",
                "todos": [{"description": "a"}, {"description": "b"}],
                "session_id": "current",
            },
        ),
        ("plan_status", {}),
        ("plan_run", {}),
        ("plan_fix", {"code": "1"}),
        ("plan_skip", {}),
        ("plan_verify", {}),
        ("python_execute", {"code": "print(1)"}),
        ("python_execute", {"code": "print(1)", **as_json}),
        ("node_execute", {"code": "console.log(1)"}),
        ("file_system", {"action": "write", "path": "a.csv", "content": "a,b\n1,2\n"}),
        ("file_system", {"action": "read", "path": "a.csv"}),
        ("calculator", {"expression": "1 + 1"}),
        ("visualize", {"file": "a.csv"}),
        ("cell_delete", {"cell_id": cell}),
        ("notebook_import", {"content": "# Words\n", "format": "markdown"}),
    ]


def _begins_with_the_banner(tool: str, result: CallToolResult) -> None:
    assert text_of(result).startswith(f"{UNSAFE_BANNER}\n"), tool


async def test_a_tool_installs_what_is_approved_and_refuses_the_rest(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path, "small-tool", "1.0")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_OFFLINE", "1")
    session = await new_session(client)
    told = await refused(client, "package_install", session_id=session, packages=["smalltool2"])
    assert "small-tool" in told
    done = await ask(client, "package_install", session_id=session, packages=["small-tool", "json"])
    assert (done["installed"], done["already_there"]) == (["small-tool==1.0"], ["json"])
    text = await read(client, "scratch_run", session_id=session, code="import small_tool; small_tool.version")
    assert "'1.0'" in text
    assert (await resource(client, session, "state"))["packages"] == ["small-tool==1.0"]


async def test_requests_to_the_network_can_be_read(client: Client, boxed: Engine) -> None:
    session = await new_session(client)
    code = "import urllib.request\nurllib.request.urlopen('http://127.0.0.9/')"
    with boxed.subscribe(session) as events, fail_after():
        assert "network_allow" in await read(client, "scratch_run", session_id=session, code=code)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.network.request":
                break
    found = await resource(client, session, "network")
    (request,) = found["requests"]  # type: ignore[misc]  # a list
    assert (request["host"], request["port"], request["verdict"]) == ("127.0.0.9", 80, "refused")
    assert request["execution"]


async def test_a_reply_tells_what_code_left_and_an_overlay_is_applied_by_a_tool(
    client: Client, boxed: Engine
) -> None:
    session = await new_session(client)
    code = "open('left.txt', 'w').write('hello')"
    text = await read(client, "scratch_run", session_id=session, code=code)
    assert "files: notebooks/left.txt 5 B (in " in text
    told = await ask(client, "scratch_run", session_id=session, code=code, response_format="json")
    (file,) = told["files"]
    assert (file["path"], file["type"], file["size"]) == ("notebooks/left.txt", "file", 5)
    assert Path(told["files_in"], file["path"]).read_text() == "hello"
    listed = await ask(client, "session_files", session_id=session)
    assert [one["path"] for one in listed["files"]] == ["notebooks/left.txt"]
    assert "+hello" in (await ask(client, "session_files", session_id=session, action="diff"))["diff"]
    await ask(client, "session_files", session_id=session, action="apply")
    assert (boxed.settings.root / "notebooks" / "left.txt").read_text() == "hello"


async def test_an_apply_over_what_a_person_changed_is_refused_with_the_way_on(
    client: Client, boxed: Engine
) -> None:
    original = boxed.settings.root / "notebooks" / "shared.txt"
    original.parent.mkdir(exist_ok=True)
    original.write_text("before")
    session = await new_session(client)
    code = "open('shared.txt', 'w').write('ours'); import os; os.symlink('/etc/passwd', 'planted')"
    await read(client, "scratch_run", session_id=session, code=code)
    original.write_text("a person's")
    told = await refused(client, "session_files", session_id=session, action="apply")
    assert "notebooks/shared.txt" in told
    assert "force=true" in told
    listed = {one["path"]: one for one in (await ask(client, "session_files", session_id=session))["files"]}
    assert listed["notebooks/shared.txt"]["conflict"] is True
    assert Path(listed["notebooks/shared.txt"]["real"]).read_text() == "ours"
    assert listed["notebooks/planted"]["type"] == "link"
    done = await ask(client, "session_files", session_id=session, action="apply", force=True)
    assert [one["path"] for one in done["applied"]] == ["notebooks/shared.txt"]
    assert "link" in done["skipped"]["notebooks/planted"]
    assert original.read_text() == "ours"


async def test_limits_are_asked_for_in_few_words_and_told_wherever_the_session_is(client: Client) -> None:
    limits = {"memory": "256MB", "processes": 40, "cell_s": 20, "network": "off"}
    created = await ask(client, "notebook_create", name="narrow", limits=limits)
    session = created["session_id"]
    assert created["limits"] == limits
    assert "network" not in created
    assert (await resource(client, session, "state"))["limits"] == limits
    assert "limits: memory 256MB, processes 40" in await read(client, "notebook_read", session_id=session)
    code = "import resource; print('at most', resource.getrlimit(resource.RLIMIT_NPROC)[0])"
    assert "at most 40" in await read(client, "scratch_run", session_id=session, code=code)
    other = await ask(client, "notebook_create", name="everybody")
    assert "limits" not in other


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"memory": "1GB"}, "max_session_memory allows 512MB"),
        (
            {"cell_s": UNHURRIED["cell_timeout_s"] + 1},
            f"cell_timeout_s allows {UNHURRIED['cell_timeout_s']:g} s",
        ),
        ({"write_paths": ["/etc"]}, "write_paths has nothing"),
        ({"network": "open"}, "network"),
        ({"speed": 1}, "speed"),
    ],
)
async def test_more_than_the_operator_allows_is_refused_by_name(
    client: Client, limits: dict[str, object], told: str
) -> None:
    assert told in await refused(client, "notebook_create", name="wide", limits=limits)


async def test_a_cell_that_names_no_time_gets_the_operators(tmp_path: Path) -> None:
    async with (
        open_at(tmp_path, cell_timeout_s=0.3) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        session = await new_session(client)
        with fail_after():
            text = await read(client, "scratch_run", session_id=session, code="import time; time.sleep(1000)")
        assert "over its limit of 0.3 s; raise `cell_timeout_s`" in text
    end_host(tmp_path / "state")


MARKS = [".git", "pyproject.toml", ".venv", None]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("asked", [None, "overlay", "private", "direct"])
async def test_where_a_session_works_follows_from_its_project_and_what_was_asked_for(
    moded: Engine, mark: str | None, asked: str | None
) -> None:
    top = moded.settings.root / f"project-{mark}"
    folder = top / "deep" / "er"
    folder.mkdir(parents=True, exist_ok=True)
    if mark == "pyproject.toml":
        (top / mark).touch()
    elif mark is not None:
        (top / mark).mkdir(exist_ok=True)
    # Where the client was started is seen as a project, whether it is marked as one or not.
    expected = asked or "overlay"
    async with running(McpServer(moded, pace=PACE)) as face, connected(face, directory=folder) as client:
        created = await ask(client, "notebook_create", name="where", **({"mode": asked} if asked else {}))
        session = created["session_id"]
        (seen,) = (await ask(client, "scratch_run", session_id=session, code=WHERE, response_format="json"))[
            "stdout"
        ].splitlines()
        await ask(client, "notebook_delete", session_id=session)
    assert created["mode"] == expected
    assert {"cwd", "interpreter", "tier", "mode"} <= set(created)
    own = expected == "private"
    assert created["cwd"].startswith(str(moded.settings.storage if own else folder))
    written = Path(created["cwd"], "mark").exists()
    assert json.loads(seen) == {"cwd": created["cwd"], "project": bool(mark) and not own}
    assert written == (expected == "direct")


WHERE = (
    "import json, os, pathlib\npathlib.Path('mark').touch()\n"
    "above = pathlib.Path.cwd().parents[1] if pathlib.Path.cwd().name != 'files' else pathlib.Path('/none')\n"
    "marked = [m for m in ('.git', 'pyproject.toml', '.venv') for p in (above, above.parent) if (p / m).exists()]\n"
    "print(json.dumps({'cwd': os.getcwd(), 'project': bool(marked)}))"
)


@pytest.fixture(scope="module")
async def moded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("modes")
    async with open_at(root / "work", storage=root / "state", roots=[root / "work"]) as engine:
        yield engine
    end_host(root / "state")


async def test_a_configured_project_needs_no_mark(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "notebooks").mkdir(parents=True)
    (work / "data.txt").write_text("seen")
    async with (
        open_at(work, storage=tmp_path / "state", project=work) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        created = await ask(client, "notebook_create", name="configured")
        assert created["mode"] == "overlay"
        text = await read(
            client, "scratch_run", session_id=created["session_id"], code="open('../data.txt').read()"
        )
        assert "seen" in text
    end_host(tmp_path / "state")


async def test_every_way_of_making_a_session_over_mcp_follows_the_same_rule(client: Client) -> None:
    imported = await ask(client, "notebook_import", content="# Imported\n", format="markdown")
    assert imported["mode"] == "overlay"
    opened = await ask(client, "notebook_open", path=imported["path"])
    assert opened["mode"] == "overlay"
