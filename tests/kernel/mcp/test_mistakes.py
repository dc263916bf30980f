"""What models get wrong about the tools, one row each: every reply names the next step."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

from cellwright import Engine

pytestmark = pytest.mark.anyio

HUGE = "x = 1\n" * 1_000_000
PROSE = "# Sales\n\nThis is what the numbers say.\n\n- one\n- two"
SLEEP = "import time; time.sleep(60)"

# Each with the call, and what of its reply says how to go on. CELL and RUN stand for ids of the session.
MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a wrong cell id": ("cell_execute", {"cell_id": "nope"}, "Next call: notebook_read"),
    "a cell's number": ("cell_execute", {"cell_id": 1}, "notebook_read shows them"),
    "a cell's number as text": ("cell_execute", {"cell_id": "1"}, "Next call: notebook_read"),
    "an execution as a cell": ("cell_execute", {"cell_id": "RUN"}, "Next call: notebook_read"),
    "a cell as an execution": ("execution_wait", {"execution_id": "CELL"}, "That is a cell of session"),
    "a wrong session id": (
        "cell_add",
        {"session_id": "s-none", "content": "1"},
        "notebook_list(filter='all')",
    ),
    "another's path": (
        "cell_add",
        {"session_id": "/no/x.ipynb", "content": "1"},
        "notebook_list(filter='all')",
    ),
    "fences": ("cell_add_and_run", {"content": "```python\n1 + 1\n```"}, "cell_update with the code alone"),
    "Markdown as code": ("cell_add_and_run", {"content": PROSE}, "cell_add(type='markdown')"),
    "seconds": ("cell_add_and_run", {"content": SLEEP, "timeout": 30}, "Give timeout_s=30 for 30 s"),
    "milliseconds": ("python_execute", {"code": "1", "timeout": 60_000}, "Ask for more than 0 and at most"),
    "milliseconds of a cell": ("cell_add_and_run", {"code": "1", "timeout_s": 30_000}, "give 30 for 30 s"),
    "milliseconds to wait": ("plan_run", {"wait_s": 55_000}, "(seconds)"),
    "an unknown tool": ("run_cell", {"cell_id": "CELL"}, "Did you mean cell_execute"),
    "an unknown parameter": ("cell_add", {"source": "1"}, "Call cell_add(session_id*, code*"),
    "a parameter missing": ("cell_add", {}, "code: field required"),
    "a list of lines": ("cell_add", {"content": ["a", "b"]}, "code: input should be a valid string"),
    "a language as type": ("cell_add", {"content": "1", "type": "python"}, "'code' or 'markdown'"),
    "base64": ("cell_add_and_run", {"content": "1", "response_format": "base64"}, "'text' or 'json'"),
    "input()": ("cell_add_and_run", {"content": "input('name? ')"}, "input"),
    "a missing module": ("cell_add_and_run", {"content": "import seaborn"}, "package_install"),
    "!pip": ("cell_add_and_run", {"content": "!pip install seaborn"}, "package_install"),
    "huge code": ("cell_add_and_run", {"content": HUGE}, "at most"),
    "a file that is not there": ("notebook_open", {"path": "missing.ipynb"}, "Check the path, or create it"),
    "a file elsewhere": ("notebook_open", {"path": "/etc/passwd"}, "Name a path inside"),
    "a position too far": ("cell_add", {"content": "1", "position": 99}, "Give one from 0 to"),
    "text as code": ("cell_execute", {"cell_id": "problem"}, "Only code cells can run"),
    "no plan": ("plan_run", {}, "plan_create makes one"),
}


@pytest.fixture(scope="module")
async def ids(engine: Engine) -> dict[str, str]:
    session = await engine.create("usable")
    cell = await session.add_cell("1")
    run = await (await session.execute(cell.id)).wait()
    return {"session_id": session.id, "CELL": cell.id, "RUN": run.id}


def test_there_are_twenty_eight() -> None:
    assert len(MISTAKES) == 28


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_answered_with_the_next_step(
    client: Client, ids: dict[str, str], mistake: str
) -> None:
    tool, arguments, said = MISTAKES[mistake]
    given = {
        name: ids.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()
    }
    if tool not in ("execution_wait", "notebook_open", "python_execute", "run_cell"):
        given = {"session_id": ids["session_id"], **given}
    result = await client.call_tool(tool, given)
    text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    assert said in text
    assert "Traceback" not in text
