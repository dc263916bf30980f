from __future__ import annotations

import json

import pytest
from mcp import Client

from cellwright.mcp import McpServer
from cellwright.notebook.python_names import names_defined
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, Connect, ask, connected, new_session, read, running

pytestmark = pytest.mark.anyio


async def test_the_context_tells_names_cells_and_the_last_error(client: Client) -> None:
    session = await new_session(client, "context")
    await read(
        client,
        "cell_add_and_run",
        content="import math\nimport os.path as p\nn = 3\ndef area(r): return r * n",
    )
    failing = await ask(client, "cell_add", content="1 / 0")
    await read(client, "cell_execute", cell_id=failing["cell_id"])
    await ask(client, "cell_add", content="later = 1")
    context = await ask(client, "session_context", session_id=session)
    assert context["notebook"].endswith("_context")
    assert set(context["imports"]) == {"math", "posixpath as p"}
    assert context["functions"] == ["area(r)"]
    assert context["variables"] == ["n: int = 3"]
    assert context["names_from"] == "kernel"
    assert [cell.split(": ")[1] for cell in context["cells"]] == ["markdown", "ok", "error", "not run"]
    assert context["last_error"]["cell_id"] == failing["cell_id"]
    assert context["last_error"]["error"] == "ZeroDivisionError: division by zero"
    await ask(client, "cell_update", cell_id=failing["cell_id"], content="1 / 1")
    await read(client, "cell_execute", cell_id=failing["cell_id"])
    assert "last_error" not in await ask(client, "session_context")


async def test_what_changed_rides_along_once(client: Client) -> None:
    await new_session(client)
    book = json.dumps([{"content": "import math\ntotal = 1"}])
    session = (await ask(client, "notebook_import", content=book))["session_id"]
    of = {"session_id": session}
    first = await read(client, "cell_execute", cell_id="all", **of)
    assert "context: new imports math; variables total" in first
    assert "context:" not in await read(client, "cell_add_and_run", content="total", **of)
    assert "context:" not in await read(client, "scratch_run", code="more = 2", **of), "it wrote that itself"


async def test_a_suspended_session_shows_what_was_last_known(client: Client) -> None:
    session = await new_session(client)
    await read(client, "cell_add_and_run", content="import math as m\nkept = 1\ndef f(a, b): ...")
    await ask(client, "session_suspend", session_id=session)
    context = await ask(client, "session_context", session_id=session)
    assert context["imports"] == ["math as m"]
    assert context["functions"] == ["f(a, b)"]
    assert context["variables"] == ["kept"]
    assert context["names_from"] == "source of generation 1"


async def test_the_context_keeps_to_its_budget(client: Client) -> None:
    session = await new_session(client)
    code = "\n".join(f"a_rather_long_variable_name_{number} = {number}" for number in range(300))
    await read(client, "scratch_run", session_id=session, code=code)
    context = await ask(client, "session_context", session_id=session, max_tokens=300)
    assert len(json.dumps(context)) < 300 * 4 + 100
    assert context["omitted"]["variables"] + context["unlisted"] > 200


async def test_the_context_is_a_resource_too(client: Client) -> None:
    session = await new_session(client)
    await read(client, "scratch_run", session_id=session, code="x = 1")
    content = (await client.read_resource(f"notebook://session/{session}/context")).contents[0]
    assert json.loads(content.text)["variables"] == ["x: int = 1"]  # type: ignore[union-attr]


async def test_another_clients_names_are_known_as_well(connect: Connect) -> None:
    async with connect() as first, connect() as second:
        session = await new_session(first)
        await read(first, "scratch_run", session_id=session, code="mine = 1")
        await read(second, "scratch_run", session_id=session, code="theirs = 1")
        assert "context: new variables theirs" in await read(
            first, "scratch_run", session_id=session, code="1"
        )


async def test_the_context_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("restart")
    async with (
        open_at(root) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        session = await new_session(client, "lasting")
        await read(client, "cell_add_and_run", content="import math\nlasting = 1")
        await read(client, "scratch_run", code="1 / 0")
    async with (
        open_at(root) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face) as client,
    ):
        await engine.session(session).suspend()
        context = await ask(client, "session_context", session_id="lasting")
        assert (context["imports"], context["variables"]) == (["math"], ["lasting"])
        assert context["last_error"]["error"].startswith("ZeroDivisionError")
    end_host(root / "state")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b, c as d\nfrom e import f", {"a", "d", "f"}),
        ("x, (y, *z) = 1, (2, 3)\nw: int = 1\nv: int", {"x", "y", "z", "w"}),
        ("for i in []:\n    j = i\nwith open('a') as k: pass", {"i", "j", "k"}),
        ("try:\n    import q\nexcept ImportError:\n    q = None", {"q"}),
        ("class C:\n    inner = 1\nasync def g(): local = 2", {"C", "g"}),
        ("%matplotlib inline\n!ls\nseen = 1", {"seen"}),
        ("a.attribute = 1\nitems[0] = 2\n_hidden = 3", set()),
        ("this is no Python", set()),
    ],
)
def test_names_are_read_from_source(source: str, names: set[str]) -> None:
    assert names_defined(source).all() == names
