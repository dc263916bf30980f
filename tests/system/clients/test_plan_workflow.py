"""Claude Code, as its users run it, takes a problem from `new notebook` to a verified success, by way of every plan tool.

The model is scripted and everything is on this machine; see test_real_clients for the picture and the other clients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.clients.installing import INSTALL_LIMIT_S, obtain
from tests.support.clients.launching import CLIENTS, RUN_LIMIT_S, ServerCommand
from tests.support.clients.scripted import Call, Say, ScriptedModel, Seen
from tests.system.clients.test_real_clients import SESSION_ID, Require, server
from tests.waiting import LIMIT_S

__all__ = ["server"]

SALES = """\
sales = pd.DataFrame({"region": ["north", "south", "east"], "Units Sold": [120, 95, 143]})
sales"""
TOTAL = """\
total = int(sales["units sold"].sum())
print("total", total)"""
CHART = """\
plt.bar(sales["region"], sales["Units Sold"])
plt.savefig("out/chart.png")
plt.show()"""
TODOS = [
    {"description": "Load the sales", "code": SALES, "accept": "len(sales) == 3"},
    {"description": "Add them up", "code": TOTAL, "accept": "total == 358", "depends_on": [1]},
    {"description": "Draw a chart", "code": CHART, "accept": "file: out/chart.png", "depends_on": [1]},
    {"description": "Ask the archive", "code": "archive.open()"},
    {"description": "Find the best region"},
]


def _of_session(**arguments: Any) -> Any:
    def found(seen: Sequence[Seen]) -> Mapping[str, Any]:
        match = SESSION_ID.search(seen[0].text)
        assert match is not None, seen[0].text
        return {"session_id": match[1], **arguments}

    return found


SCRIPT: list[Call | Say] = [
    Call(
        "plan_create",
        {
            "problem": "Which region sold most?",
            "todos": TODOS,
            "validation": {"description": "The answer is there", "code": "assert best == 'east'"},
        },
    ),
    Call("plan_run", _of_session()),
    Call("plan_status", _of_session()),
    Call("plan_skip", _of_session(reason="there is no archive")),
    Call("plan_fix", _of_session(code='best = sales.loc["the best"]')),
    Call("plan_fix", _of_session(code='best = sales.loc[sales["Units Sold"].idxmax(), "region"]\nbest')),
    Call("plan_verify", _of_session()),
    Say("The plan is done and verified."),
]


@pytest.mark.matrix  # `test_real_clients` has the client, `mcp/test_plans` the tools
@pytest.mark.timeout(INSTALL_LIMIT_S + RUN_LIMIT_S + LIMIT_S)
def test_claude_code_takes_a_problem_to_a_verified_notebook(
    server: ServerCommand, tmp_path: Path, require: Require
) -> None:
    client = next(client for client in CLIENTS if client.name == "claude-code")
    with ScriptedModel(SCRIPT) as model:
        finished = client.run(
            obtain(client.program, require),
            "/mcp__cellwright__new_notebook Which region sold most?",
            model_url=model.url,
            server=server,
            directory=tmp_path / "client",
        )
    told = f"{model.problems}\n{finished.stdout}\n{finished.stderr}"
    assert (finished.exit_code, model.problems) == (0, []), told
    assert "The plan is done and verified." in finished.stdout, told
    assert model.elsewhere == [], "The client wanted to leave this machine"
    created, ran, status, skipped, wrong, fixed, verified = model.seen

    asked = [str(request.body.get("messages")) for request in model.requests if request.body.get("tools")]
    assert re.search(r"Which region sold most\?.*plan_create", asked[0], re.DOTALL), asked[0][-3000:]
    assert "import pandas as pd" in ran.text
    assert "❌ Execution stopped at cell 4" in ran.text
    assert ran.images, "The chart did not reach the model"
    assert re.search(r'"status": ?"failed"', status.text), status.text
    assert "Find the best region" in skipped.text
    assert wrong.text
    assert "Plan succeeded" in fixed.text, fixed.text
    assert "verified" in verified.text.lower()

    (notebook,) = (tmp_path / "client" / "workspace" / "notebooks").glob("*_which_region_sold_most.ipynb")
    document = nbformat.read(notebook, as_version=4)
    nbformat.validate(document)
    ours = document.metadata["cellwright"]
    assert ours["plan"]["phase"] == "succeeded"
    assert [todo["status"] for todo in ours["plan"]["todos"]] == ["done", "done", "done", "skipped", "done"]
    assert ours["certificate"]["verified"] is True
    assert created.text
