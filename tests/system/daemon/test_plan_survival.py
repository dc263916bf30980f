"""A plan whose daemon is killed in every one of its steps goes on, from the command line, to the same notebook."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.plans.test_survival import same_in_all_runs
from tests.system.daemon.conftest import Place
from tests.waiting import LIMIT_S

STEPS = 3
# Tells that it runs, and waits to be let go on: both ends of a pipe wait for each other, so nobody has to poll.
STEP = """\
with open("step-{number}-begun", "w"): pass
with open("step-{number}-go"): pass
total = {total} + {number}
print("total", total)"""


def plan_text() -> str:
    steps = [
        f"## Add {number}\n```python\n{STEP.format(number=number, total='total' if number > 1 else '0')}\n```\n"
        for number in range(1, STEPS + 1)
    ]
    return "\n".join(["# Add up\n", *steps, "## Validation\n- Accept: `total == 6`\n"])


def made(place: Place) -> tuple[str, Path]:
    """A session with the plan, and the notebook's file; the pipes lie beside it."""
    plan = place.root / "work" / "add.plan.md"
    plan.write_text(plan_text())
    done = place.run("new", "--plan", str(plan), "--mode", "direct", "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    folder = Path(about["path"]).parent
    for number in range(1, STEPS + 1):
        for end in ("begun", "go"):
            pipe = folder / f"step-{number}-{end}"
            if not pipe.exists():
                os.mkfifo(pipe)
    return about["session_id"], Path(about["path"])


def wait_for_step(folder: Path, number: int) -> None:
    (folder / f"step-{number}-begun").open().close()


def let_go_on(folder: Path, number: int) -> None:
    (folder / f"step-{number}-go").open("w").close()


def notebook(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = same_in_all_runs(json.loads(path.read_text()))
    return found


@pytest.mark.matrix  # `plans/test_survival` kills the engine
def test_a_plan_whose_daemon_is_killed_in_every_step_ends_with_the_same_notebook(place: Place) -> None:
    session, undisturbed = made(place)
    going = place.start("continue", session)
    for number in range(1, STEPS + 1):
        wait_for_step(undisturbed.parent, number)
        let_go_on(undisturbed.parent, number)
    assert going.wait(LIMIT_S) == 0

    session, killed = made(place)
    for number in range(1, STEPS + 1):
        going = place.start("continue", session)
        if number > 1:  # it waits since the daemon before was killed
            let_go_on(killed.parent, number - 1)
        wait_for_step(killed.parent, number)
        place.daemon().kill()
        going.wait(LIMIT_S)
    going = place.start("continue", session)
    let_go_on(killed.parent, STEPS)
    assert going.wait(LIMIT_S) == 0
    assert going.stdout is not None
    assert "Plan succeeded" in going.stdout.read().decode()
    place.run("daemon", "stop")
    assert notebook(killed) == notebook(undisturbed)
