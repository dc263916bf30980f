"""A person in a real JupyterLab and an agent, at work on one session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import Require
from tests.support.browsers import LIMIT_MS, open_browser
from tests.support.lab.windows import (
    Window,
    agent,
    notebook,
    said,
    started,
    text_of,
    window,
)
from tests.system.daemon.conftest import Place, Pump, place_in
from tests.waiting import wait_until

SOURCES = [
    "y = answer + 1\nprint('sum', y)",
    "print('second')",
    "import time\nprint('begun')\ntime.sleep(600)",
]
SQL = 4
"""The place of the cell in another language."""


@pytest.fixture(scope="module")
def chromium(require: Require) -> Iterator[Browser]:
    with open_browser(require) as found:
        yield found


@pytest.fixture(scope="module")
def spot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    # A host whose kernels have nothing to do waits for the next daemon, however late that comes.
    variables = {"CELLWRIGHT_SAVE_QUIET_S": "0.1", "CELLWRIGHT_HOST_IDLE_S": "300"}
    with place_in(tmp_path_factory.mktemp("lab"), **variables) as place:
        place.start_daemon()
        yield place


@pytest.fixture
def pump(spot: Place) -> Pump:
    return agent(spot)


@pytest.fixture(scope="module")
def shared(spot: Place, chromium: Browser) -> Iterator[tuple[Window, str]]:
    """A notebook that is open in Lab, and its file; the same for all tests: Lab takes long to start."""
    pump = agent(spot)
    session, path = notebook(pump, *SOURCES)
    pump.call("cell_add", session_id=session, content="select 40 + 2 as total", language="sql")
    with started(spot, session) as (_, told), window(chromium, session, told["url"]) as opened:
        yield opened, path


@pytest.fixture
def lab(shared: tuple[Window, str]) -> Window:
    return shared[0]


def _cells(path: str) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(Path(path).read_text())["cells"]
    return cells


def _state(spot: Place, session: str) -> list[dict[str, Any]]:
    """The notebook as the agent has it."""
    shown = spot.run("show", session, "--json")
    assert shown.returncode == 0, shown.stderr
    cells: list[dict[str, Any]] = json.loads(shown.stdout)["cells"]
    return cells


def test_running_and_saving_by_hand_asks_nothing_and_loses_nothing(
    shared: tuple[Window, str], spot: Place, pump: Pump
) -> None:
    lab, path = shared
    for _ in range(2):
        lab.run(2)
        lab.shows(2, "second")
        lab.is_in_state("Idle")
        lab.save()
    lab.type(2, "print('by hand')")
    lab.run(2)
    lab.shows(2, "by hand")
    lab.save()
    lab.type(2, "print('by ' + 'hand')\nimport time\ntime.sleep(1)")
    lab.save()
    lab.run(2)
    lab.shows(2, "by hand")
    lab.save()  # while it runs
    lab.is_in_state("Idle")
    expect(lab.cell(2).locator(".jp-InputPrompt")).to_have_text("[4]:")
    said(pump, "scratch_run", session_id=lab.session, code="1")  # the session looks at the file
    lab.save()
    for cells in (_state(spot, lab.session), _cells(path)):
        assert len(cells) == 5, "no conflict made a copy"
        assert json.dumps(cells[2]).count("by hand") == 1, "its output"


def test_agents_cell_and_persons_edit_both_stay_whoever_saves_over_whom(
    shared: tuple[Window, str], pump: Pump, spot: Place
) -> None:
    lab, path = shared
    said(pump, "cell_add_and_run", session_id=lab.session, content="print('from ' + 'the agent')")
    _wait_for(path, "from the agent")
    lab.type(2, "print('from the person')")
    lab.run(2)
    lab.shows(2, "from the person")
    lab.save(button="Overwrite")
    cells = _state(spot, lab.session)
    assert len(cells) == 6, "no conflict made a copy"
    assert json.dumps(cells[2]).count("from the person") == 2, "the text and its output"
    assert "from the agent" in json.dumps(cells[5])
    _wait_for(path, "from the agent")
    lab.choose("File", "Reload Notebook from Disk")
    lab.shows(5, "from the agent")


def _wait_for(path: str, text: str) -> None:
    wait_until(lambda: text in Path(path).read_text())


def test_person_runs_a_cell_on_what_the_agent_set(lab: Window, pump: Pump, tmp_path: Path) -> None:
    said(pump, "scratch_run", session_id=lab.session, code="answer = 41")
    lab.run(1)
    lab.shows(1, "sum 42")
    assert "\n42" in said(pump, "scratch_run", session_id=lab.session, code="print(y)")
    assert "answer + 1" in said(pump, "execution_list", session_id=lab.session)
    lab.page.screenshot(path=tmp_path / "lab.png")
    assert (tmp_path / "lab.png").stat().st_size > 10_000


def test_person_sees_that_the_agent_is_at_work(lab: Window, pump: Pump) -> None:
    ident = pump.begin("scratch_run", session_id=lab.session, code="import time; time.sleep(600)")
    lab.is_in_state("Busy")
    lab.choose("Kernel", "Interrupt Kernel")
    assert "interrupted" in text_of(pump.answer(ident))
    lab.is_in_state("Idle")


@pytest.mark.matrix  # `system/lab/test_gateway` does both
def test_person_interrupts_and_restarts(lab: Window, pump: Pump) -> None:
    said(pump, "scratch_run", session_id=lab.session, code="answer = 1")
    lab.run(3)
    lab.shows(3, "begun")
    lab.choose("Kernel", "Interrupt Kernel")
    lab.shows(3, "KeyboardInterrupt")
    lab.choose("Kernel", "Restart Kernel…", button="Confirm Kernel Restart")
    lab.run(1)
    lab.shows(1, "NameError")


@pytest.mark.matrix  # `system/lab/test_gateway` finds it by its id
def test_cell_of_another_language_runs_as_what_it_is(lab: Window) -> None:
    lab.run(SQL)
    lab.shows(SQL, "42")
    lab.type(SQL, "select 40 + 3 as total")
    lab.run(SQL)
    lab.shows(SQL, "43")


def test_daemon_that_is_killed_costs_the_person_no_line(lab: Window, spot: Place) -> None:
    lab.type(2, "import time\nfor n in range(40): print('line', n, flush=True); time.sleep(0.1)")
    lab.run(2)
    lab.shows(2, "line 3")
    spot.daemon().kill()
    lab.shows(2, "line 39")
    lab.is_in_state("Idle")
    shown = lab.cell(2).locator(".jp-OutputArea").inner_text()
    lines = [line for line in shown.splitlines() if line.startswith("line")]
    assert lines == [f"line {n}" for n in range(40)]
    lab.type(2, "print('and ' + 'on')")
    lab.run(2)
    lab.shows(2, "and on")


# The last: nothing runs in this window any more.
@pytest.mark.matrix  # `system/lab/test_gateway` lets go of it
def test_shutting_the_kernel_down_in_lab_keeps_the_session(lab: Window, pump: Pump) -> None:
    said(pump, "scratch_run", session_id=lab.session, code="answer = 41")
    lab.choose("Kernel", "Shut Down Kernel")
    expect(lab.page.get_by_text("No Kernel").first).to_be_visible(timeout=LIMIT_MS)
    assert "\n41" in said(pump, "scratch_run", session_id=lab.session, code="print(answer)")
