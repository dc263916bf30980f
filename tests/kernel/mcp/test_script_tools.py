"""A script calls tools by a typed module that lies beside it, and goes on with what they answer."""

from __future__ import annotations

import pytest
from mcp import Client

from cellwright import Engine
from tests.kernel.mcp.conftest import data_of

pytestmark = pytest.mark.anyio

PYTHON = """
import cellwright_api as cw

session = cw.notebook_create("from a script")["session_id"]
total = 0
for n in range(3):
    total += int(cw.cell_add_and_run(f"{n} * 2", session_id=session)["result"])
failed = cw.cell_add_and_run("1 / 0", session_id=session)
print(total, failed["status"], failed["error"]["ename"])
try:
    cw.cell_execute("nope", session_id=session)
except cw.CellwrightError as error:
    print(error)
try:
    cw._call("package_install", {"packages": ["x"]})
except cw.CellwrightError as error:
    print(error)
"""

TYPESCRIPT = """
import * as cw from "./cellwright_api.ts";

const { session_id } = await cw.notebook_create({ name: "from a program" });
const runs: cw.Ran[] = await Promise.all([1, 2].map((n) => cw.cell_add_and_run({ code: `${n} + 1`, session_id })));
console.log(runs.map((run) => run.result).join());
"""


async def test_a_python_script_makes_calls_and_goes_on_with_their_data(
    client: Client, engine: Engine
) -> None:
    done = data_of(await client.call_tool("python_execute", {"code": PYTHON, "response_format": "json"}))
    assert done["returnCode"] == 0, done["stderr"]
    summed, wrong_cell, no_tool = done["stdout"].splitlines()
    assert summed == "6 error ZeroDivisionError"
    assert "No cell has the id 'nope'" in wrong_cell
    assert "There is no tool 'package_install'" in no_tool
    assert done["files"] == []
    (session,) = [one for one in engine.sessions() if "from_a_script" in one.name]
    assert sum(cell.runs for cell in session.cells) == 4


async def test_a_typescript_program_makes_calls_one_after_the_other(client: Client) -> None:
    done = data_of(await client.call_tool("node_execute", {"code": TYPESCRIPT, "response_format": "json"}))
    assert (done["returnCode"], done["stdout"]) == (0, "2,3\n"), done["stderr"]
    assert done["files"] == []
