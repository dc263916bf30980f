"""``cellwright session replay`` end to end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.system.daemon.conftest import Place, wait_for_file
from tests.waiting import LIMIT_S


def with_code(place: Place, *codes: str) -> dict[str, str]:
    """A new session in which these ran, as `new --json` tells it."""
    about: dict[str, str] = json.loads(place.run("new", "to be replayed", "--json").stdout)
    for code in codes:
        done = place.run("exec", about["session_id"], "--code", code)
        assert done.returncode == 0, done.stderr
    return about


def test_a_session_comes_back_and_is_the_same(shared: Place) -> None:
    about = with_code(shared, "x = 40", "x += 2; x")
    done = shared.run("replay", about["session_id"])
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["same", "ok"]] * 2
    assert f"2 of 2 steps in generation 2 of {about['session_id']}" in done.stderr
    assert shared.run("exec", about["session_id"], "--code", "x").stdout == "42\n"


def test_what_a_suspended_session_has_lost_is_said_before_it_runs_and_comes_back_on_request(
    shared: Place,
) -> None:
    session = with_code(shared, "x = 40", "x += 2")["session_id"]
    suspended = shared.run("suspend", session)
    assert (suspended.returncode, suspended.stdout) == (0, f"{session}\n")
    empty = shared.run("exec", session, "--code", "import sys; print('ran', file=sys.stderr); x")
    first, second, *rest = empty.stderr.splitlines()
    assert first.startswith(f"note: {session} is suspended and its state is gone; 2 steps had made it")
    assert f"`cellwright session replay {session}`" in first
    assert second == "ran", "it was said first"
    assert not any("kernel is new" in line for line in rest), "and once"
    shared.run("suspend", session)
    back = shared.run("exec", session, "--replay", "--code", "x")
    assert (back.returncode, back.stdout, back.stderr) == (0, "42\n", "note: replayed 2 steps\n")


@pytest.mark.matrix  # `mcp/test_replays` has the data, `test_plans` names a session by its file
def test_a_notebooks_file_names_its_session_and_data_is_json(shared: Place) -> None:
    about = with_code(shared, "'a'", "'b'")
    executions = json.loads(shared.run("logs", about["session_id"], "--json").stdout)["executions"]
    done = shared.run("replay", about["path"], "--upto", executions[-1]["execution_id"], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["session_id"], found["status"], found["done"]) == (about["session_id"], "completed", 1)


def test_something_else_than_then_exits_1_and_is_shown(shared: Place) -> None:
    about = with_code(shared, "import time; time.time_ns()", "1")
    done = shared.run("replay", about["session_id"])
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines() if line[0] != " "] == ["different", "same"]
    assert "result text/plain: " in done.stdout


def test_a_step_that_fails_exits_1_and_says_what_was_not_run(shared: Place) -> None:
    about = with_code(shared, "open('once', 'x').close()", "1")
    done = shared.run("replay", about["session_id"])
    assert done.returncode == 1
    assert "error: Step 1, code in no cell, ended as error (FileExistsError" in done.stderr
    assert done.stdout.splitlines()[-1].split() == ["not", "run", "-", "-", "scratch"]


def test_a_notebook_without_a_session_has_nothing_to_replay(shared: Place) -> None:
    done = shared.run("replay", "nowhere.ipynb")
    assert done.returncode == 1
    assert "hint: `cellwright run`" in done.stderr


@pytest.mark.matrix  # `engine/test_replaying` stops it, `test_verbs` interrupts
def test_an_interrupt_stops_the_replay_and_the_next_one_is_whole(shared: Place) -> None:
    code = "import pathlib, time\npathlib.Path('begun').touch()\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
    about = json.loads(shared.run("new", "interrupted", "--mode", "private", "--json").stdout)
    session, here = about["session_id"], Path(about["cwd"])
    (here / "go").touch()
    for each in ("a = 1", code, "a = 3"):
        assert shared.run("exec", session, "--code", each).returncode == 0
    (here / "go").unlink()
    (here / "begun").unlink()
    process = shared.start("replay", session)
    wait_for_file(here / "begun", process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    (here / "go").touch()
    done = shared.run("replay", session)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 steps" in done.stderr


def test_a_kernel_that_lost_its_names_says_so_until_they_are_there_again(shared: Place) -> None:
    session = with_code(shared, "lost = 42")["session_id"]
    stopped = shared.run("stop", "local")
    assert stopped.returncode == 0
    assert "ended: the kernels of " in stopped.stderr
    assert session in stopped.stderr
    missed = shared.run("exec", session, "--code", "lost")
    assert missed.returncode == 1
    assert missed.stderr.startswith(f"note: {session} is suspended and its state is gone")
    again = shared.run("exec", session, "--code", "lost").stderr
    assert (
        "note: The kernel is new, earlier names are gone; `cellwright session replay` brings them back"
        in again
    )
    assert shared.run("replay", session).returncode == 0
    found = shared.run("exec", session, "--code", "lost")
    assert (found.stdout, found.stderr) == ("42\n", "")


@pytest.mark.matrix  # `test_verbs` names hosts to every verb
def test_a_replay_takes_a_session_to_the_host_that_is_named(shared: Place) -> None:
    session = with_code(shared, "'a'")["session_id"]
    assert shared.run("replay", session, "--host", "local").returncode == 0
    refused = shared.run("replay", session, "--host", "jupyter:nowhere")
    assert refused.returncode == 1
    assert "nowhere" in refused.stderr
