"""A plan whose engine is killed goes on to the same notebook, wherever it was cut off."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cellwright import Session
from cellwright.plans import Planner
from tests.forks import forked
from tests.kernel.engine.conftest import OpenEngine, host_process
from tests.support.plans import doomed
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio

# What no two runs have in common, or what tells of the cut itself.
VOLATILE = {
    "execution",
    "execution_id",
    "seconds",
    "started_at",
    "ended_at",
    "since",
    "generation",
    "attempt",
    "notices",
    "note",
    "earlier",
}
CHANGES = 13
"""As many as an undisturbed run makes; a test holds it to that."""


def run_doomed(root: Path, changes: int) -> str:
    """The id of the session whose plan was cut off."""
    with forked(doomed.main, root, changes) as fork:
        told = fork.out.read()
        assert fork.end() == (-signal.SIGKILL if changes else 0), fork.said_wrong()
    return told.split()[0]


def same_in_all_runs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: same_in_all_runs(held) for key, held in value.items() if key not in VOLATILE}
    return [same_in_all_runs(held) for held in value] if isinstance(value, list) else value


async def finished(session: Session, planner: Planner) -> dict[str, Any]:
    run = await (await planner.start(session)).wait()
    assert run.plan.phase == "succeeded", run.plan
    await session.save()
    notebook: dict[str, Any] = json.loads(session.path.read_text())
    return notebook


@pytest.mark.parametrize(
    "cuts",
    [range(1, CHANGES, 8), pytest.param(range(1, CHANGES), marks=pytest.mark.matrix)],
    ids=["some", "all"],
)
async def test_a_plan_cut_off_at_any_of_its_changes_ends_with_the_same_notebook(
    open_here: OpenEngine, tmp_path: Path, cuts: range
) -> None:
    whole = run_doomed(tmp_path, 0)
    cut = {changes: run_doomed(tmp_path, changes) for changes in cuts}
    async with open_here(max_sessions=100) as engine:
        planner = Planner(engine, fixers=[doomed.mend])
        told = [
            event
            for event in engine.events(since=0, session_id=whole)
            if event.kind == "notebook.plan.changed"
        ]
        assert len(told) == CHANGES
        expected = same_in_all_runs(await finished(engine.session(whole), planner))
        for changes, session_id in cut.items():
            session = engine.session(session_id)
            assert planner.was_cut_off(session), changes
            assert same_in_all_runs(await finished(session, planner)) == expected, changes


async def test_a_plan_whose_kernels_went_too_is_run_again_up_to_where_it_was_with_a_notice(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    session_id = run_doomed(tmp_path, 5)
    host = host_process(tmp_path / "state")
    assert host is not None
    host.kill()
    host.wait(LIMIT_S)
    async with open_here() as engine:
        session = engine.session(session_id)
        planner = Planner(engine, fixers=[doomed.mend])
        notebook = await finished(session, planner)
        assert any("was gone" in notice for notice in planner.plan(session).notices)
        plan = notebook["metadata"]["cellwright"]["plan"]
        assert [todo["status"] for todo in plan["todos"]] == ["done"] * 4
