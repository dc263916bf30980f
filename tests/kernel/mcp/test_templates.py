"""Agents make notebooks from templates."""

from __future__ import annotations

import pytest
from mcp import Client

from cellwright import Engine
from tests.kernel.mcp.conftest import ask, refused

pytestmark = pytest.mark.anyio


async def test_a_notebook_from_a_template_has_its_cells_and_values_and_nothing_was_run(
    client: Client, engine: Engine
) -> None:
    about = await ask(
        client,
        "notebook_create",
        name="Which model",
        template="model-comparison",
        parameters={"folds": 3, "task": "regression"},
    )
    assert about["packages_needed"] == ["pandas", "scikit-learn", "matplotlib"]
    session = engine.session(about["session_id"])
    assert session.runs.count == 0
    parameters = session.cells[2]
    assert parameters.tags == ("parameters",)
    assert "folds: int = 3  #" in parameters.source
    assert session.document.metadata["cellwright"]["template"] == {
        "name": "model-comparison",
        "source": "cellwright",
        "parameters": {"folds": 3, "task": "regression"},
    }


async def test_a_plan_from_a_template_waits_to_be_run(client: Client) -> None:
    about = await ask(client, "notebook_create", name="Sales", template="csv-report")
    assert (about["plan"]["total"], about["plan"]["phase"]) == (6, "ready")
    status = await ask(client, "plan_status", session_id=about["session_id"])
    assert (status["problem"], status["next"]["description"]) == ("Sales", "Parameters")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"template": "csv-reprot"}, "Did you mean csv-report?"),
        ({"template": "csv-report", "parameters": {"pth": "x"}}, "Did you mean path?"),
        ({"template": "time-series", "parameters": {"season": "weekly"}}, "Give it as season=7"),
        ({"template": "csv-report", "language": "typescript"}, "Leave the language out"),
        ({"parameters": {"path": "x"}}, "Give its name as `template`"),
    ],
)
async def test_a_wrong_name_or_value_makes_nothing_and_says_what_to_do(
    client: Client, engine: Engine, arguments: dict[str, object], told: str
) -> None:
    before = len(engine.sessions())
    assert told in await refused(client, "notebook_create", name="x", **arguments)
    assert len(engine.sessions()) == before
