"""Every template of ours runs green with its default parameters, on real kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.plans import Planner
from cellwright.templates import Catalogue, fill

pytestmark = pytest.mark.anyio

PRELOAD = ("numpy", "pandas", "matplotlib.pyplot", "sklearn.ensemble")

OURS = Catalogue([])
NINE = (
    "api-client",
    "csv-report",
    "data-exploration",
    "model-comparison",
    "paper-figure",
    "slurm-training",
    "sql-on-files",
    "time-series",
    "typescript-service",
)


def test_there_are_nine() -> None:
    assert tuple(one.name for one in OURS.templates()) == NINE
    assert all(one.picture is not None for one in OURS.templates())


@pytest.mark.parametrize("name", NINE)
async def test_a_template_runs_green_with_its_default_parameters(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    template, planner = OURS.find(name), Planner(engine)
    opening = template.opening({})
    session = await engine.create(template.title, language=opening.language, directory=tmp_path)
    await fill(engine, planner, session, opening)
    assert session.runs.count == 0
    if template.is_plan:
        plan = (await (await planner.start(session)).wait()).plan
        assert plan.phase == "succeeded", plan.report and plan.report.text
        assert [len(todo.attempts) for todo in plan.steps] == [1] * len(plan.steps)
        return
    executions = [await one.wait() for one in await session.execute_all()]
    assert executions
    assert all(one.state == "ok" for one in executions), [(one.state, one.text[-400:]) for one in executions]
