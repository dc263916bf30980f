"""``cellwright checkpoint``, ``rollback``, ``branch``, ``adopt`` and ``--on-error`` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.system.daemon.conftest import Place


def new(place: Place) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(place.run("new", "to go back", "--json").stdout)
    return about


def execute(place: Place, session: str, code: str) -> str:
    done = place.run("exec", session, "--code", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_session_goes_back_to_a_named_checkpoint_and_to_the_newest(shared: Place) -> None:
    about = new(shared)
    session = about["session_id"]
    execute(shared, session, "x = 1")
    taken = shared.run("checkpoint", about["path"], "--name", "first")
    assert taken.returncode == 0, taken.stderr
    first = taken.stdout.strip()
    execute(shared, session, "x = 2; open('made.txt', 'w').close()")
    second = shared.run("checkpoint", session).stdout.strip()
    listed = [line.split() for line in shared.run("checkpoint", session, "--list").stdout.splitlines()]
    assert [(line[0], line[-1]) for line in listed[1:]] == [(second, "request"), (first, "first")]
    execute(shared, session, "x = 3")
    done = shared.run("rollback", session, "--json")
    assert json.loads(done.stdout)["checkpoint"] == second
    assert execute(shared, session, "x") == "2\n"
    done = shared.run("rollback", session, "--to", "first")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["undone", "undone"]
    assert "note: not restored: files outside the working directory" in done.stderr
    assert "generation 3" in done.stderr
    assert execute(shared, session, "import os; x, os.path.exists('made.txt')") == "(1, False)\n"
    assert shared.run("checkpoint", session, "--drop", "first").stdout.strip() == first


def test_what_cannot_be_done_exits_1_and_what_makes_no_sense_2(shared: Place) -> None:
    session = new(shared)["session_id"]
    nothing = shared.run("rollback", session)
    assert nothing.returncode == 1
    assert "hint: `cellwright checkpoint` takes one" in nothing.stderr
    assert shared.run("rollback", session, "--to", "nowhere").returncode == 1
    assert shared.run("adopt", session).returncode == 1
    assert shared.run("branch", session, "--compare").returncode == 1
    for wrong in (
        ("rollback", session, "--to", "a", "--cell", "b"),
        ("checkpoint", session, "--list", "--drop", "a"),
        ("branch", session, "--compare", "--count", "2"),
        ("exec", session, "--code", "1", "--on-error", "rollback"),
    ):
        assert shared.run(*wrong).returncode == 2, wrong


def test_a_cell_that_fails_leaves_no_trace_and_stderr_says_so(shared: Place) -> None:
    about = new(shared)
    session = about["session_id"]
    execute(shared, session, "x = 1")
    cell = shared.run("add", session, "x = 2\nopen('half', 'w').close()\n1 / 0").stdout.strip()
    done = shared.run("exec", session, cell, "--on-error", "rollback")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "note: The session is as it was before this cell" in done.stderr
    assert execute(shared, session, "import os; x, os.path.exists('half')") == "(1, False)\n"


@pytest.mark.matrix  # `exec` does, above
def test_run_puts_back_the_files_of_the_cell_that_failed(place: Place) -> None:
    work = place.root / "work"
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell("open('table.csv', 'w').write('whole')"),
        nbformat.v4.new_code_cell("open('table.csv', 'w').write('ha')\n1 / 0"),
    ]
    Path(work / "report.ipynb").write_text(nbformat.writes(notebook))
    done = place.run("run", "report.ipynb", "--on-error", "rollback", "--json")
    assert done.returncode == 1, done.stderr
    assert [cell["rolled_back"] for cell in json.loads(done.stdout)["cells"]] == [False, True]
    assert (work / "table.csv").read_text() == "whole"


def test_branches_are_made_compared_and_one_taken_back(shared: Place) -> None:
    about = new(shared)
    session = about["session_id"]
    execute(shared, session, "x = 1")
    made = shared.run("branch", about["path"], "--count", "2")
    assert made.returncode == 0, made.stderr
    one, two = made.stdout.split()
    execute(shared, one, "x = 10")
    execute(shared, two, "x = 20")
    compared = shared.run("branch", session, "--compare").stdout.splitlines()
    assert {line.split()[0] for line in compared if line[0] != " "} == {one, two}
    assert {line.strip() for line in compared} >= {"variable  x = 10", "variable  x = 20"}
    adopted = shared.run("adopt", two)
    assert (adopted.returncode, adopted.stdout.strip()) == (0, session), adopted.stderr
    assert f"ended branch {one}" in adopted.stderr
    assert execute(shared, session, "x") == "20\n"
