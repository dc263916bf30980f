"""The plans in examples/ say what they say they do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cellwright import Engine, Session
from cellwright.plans import Plan, Planner
from cellwright.plans.plan_files import PlanFileKind, parse_plan, read_plan, write_plan
from cellwright.verification import verify

EXAMPLES = Path(__file__).parents[3] / "examples"
PLANS = sorted([*EXAMPLES.glob("*.plan.md"), *EXAMPLES.glob("*.plan.toml")])


async def _begun(engine: Engine, folder: Path, name: str) -> tuple[Planner, Session, Plan]:
    """The plan of an example, carried out as far as it goes by itself, beside a copy of the data."""
    shutil.copytree(EXAMPLES / "data", folder / "data")
    file = read_plan(EXAMPLES / name)
    session = await engine.create(file.outline.problem, language=file.language, directory=folder)
    planner = Planner(engine)
    await planner.create(session, file.outline)
    return planner, session, (await (await planner.start(session)).wait()).plan


async def _is_verified(engine: Engine, session: Session) -> bool:
    verification = await (await verify(engine, session)).wait()
    return verification.certificate is not None and verification.certificate.verified


def test_there_are_examples_in_both_formats() -> None:
    assert {path.suffix for path in PLANS} == {".md", ".toml"}
    assert len(PLANS) >= 3


@pytest.mark.parametrize("kind", ["markdown", "toml"])
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_an_example_can_be_written_in_either_format(path: Path, kind: PlanFileKind) -> None:
    file = read_plan(path)
    assert parse_plan(write_plan(file.outline, kind), kind=kind, name="again") == file


@pytest.mark.anyio
async def test_the_pendulum_swings_to_its_end(engine: Engine, tmp_path: Path) -> None:
    _, session, plan = await _begun(engine, tmp_path, "pendulum.plan.toml")
    assert plan.phase == "succeeded", plan.report and plan.report.text
    assert [len(todo.attempts) for todo in plan.steps] == [1] * 5
    assert "15.28%" in str(session.cell("todo-4").outputs)
    assert await _is_verified(engine, session)


@pytest.mark.anyio
async def test_the_stations_wait_for_their_last_step_and_end_with_it(engine: Engine, tmp_path: Path) -> None:
    planner, session, plan = await _begun(engine, tmp_path, "stations.plan.md")
    assert plan.phase == "waiting", plan.report and plan.report.text
    assert [todo.status for todo in plan.steps] == [*["done"] * 4, "pending", "pending"]
    code = 'finding = f"{table.mean(axis=1).idxmax()} is the warmest"\nprint(finding)'
    plan = (await (await planner.fix(session, code)).wait()).plan
    assert plan.phase == "succeeded", plan.report and plan.report.text
    saved = (tmp_path / "stations_clean.csv").read_text(encoding="utf-8")
    assert saved.startswith("station,date,celsius,season\nGenève,2023-01-15,")
    assert await _is_verified(engine, session)


# What is wrong in the plan of the sales, and which fixer mends it.
MISTAKES = {
    "todo-2": ("KeyError", "column"),
    "todo-4": ("NameError", "missing_import"),
    "todo-5": ("OSError", "missing_directory"),
}


@pytest.mark.matrix  # `test_failures` has these rules
@pytest.mark.anyio
async def test_the_sales_have_three_mistakes_that_are_mended_by_rule(engine: Engine, tmp_path: Path) -> None:
    _, session, plan = await _begun(engine, tmp_path, "sales.plan.md")
    assert plan.phase == "succeeded", plan.report and plan.report.text
    assert {
        todo.id: (todo.attempts[0].error_type, todo.attempts[-1].fixer)
        for todo in plan.steps
        if len(todo.attempts) > 1
    } == MISTAKES
    assert "North sold most" in str(session.cell("validation").outputs)
    assert (tmp_path / "out" / "revenue_by_region.png").read_bytes().startswith(b"\x89PNG")
    assert await _is_verified(engine, session)
