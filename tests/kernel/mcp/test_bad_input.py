from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from cellwright import Engine
from cellwright.errors import CellwrightError
from cellwright.mcp import McpServer
from tests.kernel.mcp.conftest import PACE, ask, connected, new_session, read, refused, running

pytestmark = pytest.mark.anyio

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("cell_execute", {"cell_id": "nope"}, "No cell has the id 'nope'. The notebook has 2 cells: problem, "),
    ("cell_update", {"cell_id": "problm", "content": "x"}, "Did you mean problem?"),
    ("cell_execute", {"cell_id": "problem"}, "Only code cells can run"),
    ("cell_add", {"content": "1", "position": 99}, "There is no position 99. Give one from 0 to 2"),
    ("cell_add", {"content": "1", "position": -1}, "There is no position -1"),
    ("cell_add", {"content": "1", "type": "picture"}, "type: input should be 'code' or 'markdown'"),
    ("cell_add", {"content": 7}, "code: input should be a valid string"),
    (
        "cell_add",
        {},
        "code: field required. Call cell_add(session_id*, code*, type, position, language, filename)",
    ),
    ("cell_add", {"content": "1", "colour": "red"}, "there is no argument 'colour'"),
    ("cell_add", {"content": "x" * 5_000_001}, "code: string should have at most 5000000 characters"),
    (
        "cell_execute",
        {"cell_id": "all", "timeout": -5},
        "timeout_s: input should be greater than 0 (seconds)",
    ),
    (
        "cell_execute",
        {"cell_id": "all", "max_tokens": 1},
        "max_tokens: input should be greater than or equal to 50",
    ),
    (
        "execution_wait",
        {"execution_id": "x-nothing"},
        "There is no execution 'x-nothing'. `execution_list` has a session's executions",
    ),
    ("notebook_export", {"format": "docx"}, "There is no format 'docx'. Give one of html, ipynb, json"),
    ("notebook_export", {"path": "../../etc/x.json"}, "is outside the directories that may be used"),
    ("notebook_export", {"path": "x.txt"}, "Give a path that ends in .json"),
    ("notebook_import", {"content": "{", "format": "json"}, "line 1: this is not JSON"),
    ("notebook_import", {"content": "[1]", "format": "json"}, "cell 1 is not a cell: 1"),
    ("notebook_import", {"content": "{}", "format": "ipynb"}, "The imported notebook"),
    ("notebook_import", {"content": "# x", "format": "src.md"}, "srcbook"),
    ("notebook_create", {"name": ""}, "name: string should have at least 1 character"),
    ("notebook_create", {"name": "x", "tsconfig": {}}, "tsconfig is for TypeScript and JavaScript"),
    ("cell_add", {"content": "1", "filename": "../x.py"}, "is no name of a file in the working directory"),
    ("notebook_create", {"name": "cobol", "language": "cobol"}, "cobol"),
    ("notebook_open", {"path": "missing.ipynb"}, "missing.ipynb"),
    ("notebook_open", {"path": "/etc/passwd"}, "is outside the directories that may be used"),
    ("notebook_open", {"path": "a\0b"}, "NUL character"),
    ("cell_visualize", {"cell_id": "problem"}, "cell problem is markdown, which has no result"),
    ("kernel_complete", {"code": "x", "cursor": 9}, "There is no position 9 in the code"),
    ("run_cell", {}, "There is no tool 'run_cell'. Did you mean cell_execute or "),
    ("mcp__cellwright__notebook-reed", {}, "Did you mean notebook_read or "),
]


@pytest.fixture(scope="module")
async def session(engine: Engine) -> str:
    """One session that every refusal leaves usable for the next."""
    created = await engine.create("usable")
    await created.add_cell("1")
    return created.id


@pytest.mark.parametrize(
    ("tool", "arguments", "said"), BAD, ids=[f"{tool}-{said[:25]}" for tool, _, said in BAD]
)
async def test_bad_input_is_told_with_the_next_step_and_the_session_stays_usable(
    client: Client, session: str, tool: str, arguments: dict[str, Any], said: str
) -> None:
    takes_one = tool.startswith(("cell_", "notebook_export", "kernel_"))
    given = {"session_id": session, **arguments} if takes_one else arguments
    text = await refused(client, tool, **given)
    assert said in text
    assert "Traceback" not in text
    assert "pydantic" not in text
    assert "it works" in await read(client, "scratch_run", session_id=session, code="'it works'")


async def test_more_cells_than_a_notebook_may_hold_are_refused(client: Client) -> None:
    content = "\n\n".join(f"```python\n{number}\n```" for number in range(101))
    assert "max_cells" in await refused(client, "notebook_import", content=content, format="markdown")


async def test_a_dead_kernel_is_told_and_the_next_cell_starts_another(client: Client) -> None:
    session = await new_session(client)
    text = await read(client, "scratch_run", session_id=session, code="import os; os._exit(7)")
    assert text.startswith("died | no output\n")
    again = await read(client, "scratch_run", session_id=session, code="'back'")
    assert "generation 2" in again
    assert "The kernel was replaced" in again


async def test_code_in_no_cell_that_did_not_run_is_told_as_such(client: Client) -> None:
    created = await ask(client, "notebook_create", name="a problem")
    session = created["session_id"]
    dies = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nos._exit(7)"
    await read(client, "scratch_run", session_id=session, code=dies, wait=0)
    queued = await ask(client, "scratch_run", session_id=session, code="1", wait=0, response_format="json")
    Path(created["cwd"], "go").touch()
    text = await read(client, "execution_wait", execution_id=queued["execution_id"])
    assert "Not run: " in text
    assert text.rstrip().endswith(": scratch")


async def test_a_crash_of_our_own_tells_nothing_of_its_insides(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("a secret of the machine")

    session = await new_session(client)
    monkeypatch.setattr("cellwright.engine.session.Session.add_cell", crash)
    text = await refused(client, "cell_add", session_id=session, content="1")
    assert "failed inside Cellwright" in text
    assert "secret" not in text


async def test_an_unknown_dialect_is_refused_with_the_known_ones(engine: Engine) -> None:
    with pytest.raises(CellwrightError, match="jlab, jupyter, monadic, srcbook"):
        McpServer(engine, dialect="klingon")


async def test_the_srcbook_dialect_defaults_to_typescript(engine: Engine) -> None:
    async with running(McpServer(engine, dialect="srcbook", pace=PACE)) as face, connected(face) as client:
        await ask(client, "notebook_create", name="x")
    assert [session.language for session in engine.sessions()][-1] == "typescript"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("new_notebok", {}, "There is no prompt 'new_notebok'. Did you mean new_notebook?"),
        ("new_notebook", {}, "The prompt new_notebook needs the argument 'problem'"),
        ("new_notebook", {"problem": "x", "colour": "red"}, "has no argument 'colour'; it takes: problem"),
        ("show_status", {"session": "s-nothing"}, "There is no session 's-nothing'. Perhaps: "),
    ],
)
async def test_a_wrong_request_for_a_prompt_is_told_as_invalid_with_the_reason(
    client: Client, session: str, name: str, arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(MCPError) as caught:
        await client.get_prompt(name, arguments)
    assert caught.value.error.code == INVALID_PARAMS
    assert said in caught.value.error.message
