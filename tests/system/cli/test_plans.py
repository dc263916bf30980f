"""``cellwright new --plan``, ``continue``, ``fix``, ``skip`` and ``status`` end to end."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cellwright.cli._plans import PlanView, todo_table
from tests.system.daemon.conftest import Place, wait_for_file
from tests.waiting import LIMIT_S

WAITS = "import pathlib, time\npathlib.Path('begun').touch()\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"


def plan_file(place: Place, name: str, *steps: tuple[str, str | None], more: str = "") -> str:
    """A plan file of steps with code, or with None for the caller to write."""
    parts = [f"# The problem of {name}\n"]
    for title, code in steps:
        parts.append(f"## {title}\n" + (f"```python\n{code}\n```\n" if code is not None else "Later.\n"))
    path = place.root / "work" / f"{name}.plan.md"
    path.write_text("\n".join([*parts, more]))
    return path.name


def made(place: Place, name: str, *steps: tuple[str, str | None], more: str = "") -> dict[str, Any]:
    # In a folder of its own, which both sides see at the same path while code runs.
    options = ("--plan", plan_file(place, name, *steps, more=more), "--mode", "private")
    done = place.run("new", *options, "--json")
    assert done.returncode == 0, done.stderr
    about: dict[str, Any] = json.loads(done.stdout)
    return about


def test_a_plan_is_made_from_a_file_run_and_summed_up(shared: Place) -> None:
    name = plan_file(
        shared, "good", ("Begin", "x = 1"), ("Go on", "x += 1"), more="## Validation\nAccept: x == 2\n"
    )
    done = shared.run("new", "--plan", name, "--run")
    assert done.returncode == 0, done.stderr
    session, *summary = done.stdout.splitlines()
    assert session.startswith("s-")
    assert summary[0] == "✅ Plan succeeded: 2 of 2 TODOs done"
    assert summary[-1] == "Validation: passed"
    assert f"hint: `cellwright verify {session}`" in done.stderr
    assert "✓ 1. Begin" in done.stderr
    assert "✓ 3. Validation" in done.stderr
    assert "the_problem_of_good.ipynb" in done.stderr
    shown = shared.run("status", session)
    assert shown.returncode == 0
    assert [line.split()[:5] for line in shown.stdout.splitlines()[2:5]] == [
        ["✓", "1", "Begin", "done", "1"],
        ["✓", "2", "Go", "on", "done"],
        ["✓", "3", "Validation", "done", "1"],
    ]
    assert session in shared.run("status").stdout


@pytest.mark.matrix  # `…that_stops_exits_1…` is made first and continued
def test_without_run_a_plan_is_only_made_and_continue_runs_it(shared: Place) -> None:
    about = made(shared, "later", ("Begin", "print('hello')"))
    assert about["plan"]["phase"] == "ready"
    done = shared.run("continue", about["path"], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["phase"], found["successful"]) == ("succeeded", True)
    assert found["executions"][0]["stdout"] == "hello\n"


def test_a_plan_that_stops_exits_1_with_the_report_on_stderr_and_can_be_fixed(shared: Place) -> None:
    about = made(
        shared, "bad", ("Begin", "x = 1"), ("Fail", "raise RuntimeError('STOP: bad')"), ("End", "x + y")
    )
    done = shared.run("continue", about["session_id"])
    assert done.returncode == 1
    assert done.stdout == ""
    assert (
        "❌ Execution stopped at cell 2\nTODO: Fail\nError Type: RuntimeError\nError Message: STOP: bad\n"
        "Attempted Fixes: 0\nSuggestion: "
    ) in done.stderr
    assert (
        f"hint: `cellwright plan fix {about['session_id']} --code TEXT`, `cellwright plan skip {about['session_id']}`, "
        f"or `cellwright plan run {about['session_id']}` to try the same again\n"
    ) in done.stderr
    mended = shared.run("fix", about["session_id"], "-", given="y = 41\n")
    assert mended.returncode == 0, mended.stderr
    assert (
        "fix of 2. Fail by caller\n  @@ -1 +1 @@\n  -raise RuntimeError('STOP: bad')\n  +y = 41"
        in mended.stderr
    )
    assert "✓ 1. Begin" not in mended.stderr, "that was told when it happened"
    assert "✅ Plan succeeded: 3 of 3 TODOs done" in mended.stdout


@pytest.mark.matrix  # `plans/test_drafting` drafts, `mcp/test_plans` by a call
def test_without_a_file_a_plan_is_drafted_and_said_to_be_a_draft(shared: Place) -> None:
    done = shared.run("new", "Plot the units of the CSV data", "--draft", "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert (about["plan"]["draft"], about["plan"]["phase"]) == (True, "ready")
    assert "a plan drafted by rule; look it over" in done.stderr
    run = shared.run("continue", about["session_id"])
    assert run.returncode == 1
    assert "waiting: 2. Load CSV file has no code" in run.stderr, "there is no such file here"
    assert "draft" in shared.run("status", about["session_id"]).stderr


@pytest.mark.matrix  # `mcp/test_plans` has one
def test_a_validation_that_fails_is_not_said_to_be_skippable(shared: Place) -> None:
    about = made(shared, "invalid", ("Begin", "x = 1"), more="## Validation\n```py\nraise SystemExit\n```\n")
    done = shared.run("continue", about["session_id"])
    assert "❌ Execution stopped at cell 2" in done.stderr
    assert "cellwright plan skip" not in done.stderr


def test_a_plain_folder_is_seen_and_a_home_is_asked_about_once(place: Place) -> None:
    here = place.root / "work"
    (here / "data.csv").write_text("1\n")
    done = place.run("new", "a plain folder", "--json")
    assert (json.loads(done.stdout)["project"], "Code sees none" in done.stderr) == (str(here), False)
    place.environment["HOME"] = str(here)
    place.run("daemon", "stop", "--kernels")
    asked = f"note: Code sees none of the files in {here}: it is a home directory. `cellwright folders allow {here}`"
    assert asked in place.run("new", "nobody to ask").stderr
    assert asked not in place.run("new", "as asked for", "--mode", "private").stderr
    process, ours = on_a_terminal(place, "new", "somebody to ask", both=True)
    os.write(ours, b"n\n")
    assert "Let it? [y/N]" in all_of(ours)
    assert process.wait(LIMIT_S) == 0
    process, ours = on_a_terminal(place, "new", "asked once", both=True)
    said = all_of(ours)
    assert ("Let it?" in said, "The user said no" in said, process.wait(LIMIT_S)) == (False, True, 0)
    allowed = json.loads(place.run("new", "allowed", "--allow-folder", "--json").stdout)
    assert allowed["project"] == str(here)
    assert place.run("folders", "list").stdout.endswith(f"\n{here}  allowed\n")
    assert place.run("folders", "forget", ".").returncode == 0
    assert "error: Code cannot be shown /" in place.run("folders", "allow", "/").stderr


@pytest.mark.matrix  # the draft is below, `test_surroundings` brings files over
def test_in_a_project_a_draft_finds_its_data_and_what_it_wrote_can_be_brought_over(place: Place) -> None:
    here = place.root / "work"
    (here / ".git").mkdir()
    (here / "units.csv").write_text("day,units\n2024-05-01,3\n2024-05-02,5\n")
    done = place.run("new", "Sum up units.csv", "--run")
    assert done.returncode == 0, done.stderr
    assert "is no project" not in done.stderr
    session, *_ = done.stdout.splitlines()
    mode = json.loads(place.run("status", session, "--json").stdout)["mode"]
    verb = "apply" if mode == "overlay" else "list"
    assert f"hint: `cellwright files {verb} {session}`" in done.stderr


@pytest.mark.matrix  # `…that_stops_exits_1…` shows a fix, `plans/test_running` makes a certain one
def test_a_known_mistake_is_mended_in_view(shared: Place) -> None:
    name = plan_file(shared, "mended", ("Use it", "total = math.floor(2.5)"))
    done = shared.run("new", "--plan", name, "--run")
    assert done.returncode == 0, done.stderr
    assert "fix of 1. Use it by " in done.stderr
    assert "  +import math" in done.stderr
    assert "✓ 1. Use it  (2 attempts, " in done.stderr
    assert "of which fixes: 1" in done.stdout


@pytest.mark.matrix  # `…goes_on_from_its_file…` has such a step
def test_a_step_without_code_exits_1_and_says_so_until_a_file_has_it(shared: Place) -> None:
    about = made(shared, "open", ("Begin", "x = 1"), ("Think", None))
    done = shared.run("continue", about["session_id"])
    assert done.returncode == 1
    assert "waiting: 2. Think has no code" in done.stderr
    (shared.root / "work" / "thought.py").write_text("x += 1\n")
    assert shared.run("fix", about["session_id"], "--file", "thought.py").returncode == 0


def test_asking_the_fixers_where_nothing_failed_is_refused(shared: Place) -> None:
    about = made(shared, "nothing", ("Begin", "1"))
    done = shared.run("fix", about["session_id"])
    assert done.returncode == 1
    assert "Nothing has failed that could be fixed" in done.stderr


def test_skipping_goes_on_warns_and_keeps_the_reason(shared: Place) -> None:
    about = made(
        shared, "skipped", ("Fetch", "raise RuntimeError('STOP')"), ("Use", "2"), more="Depends on: 1\n"
    )
    assert shared.run("continue", about["session_id"]).returncode == 1
    done = shared.run("skip", about["session_id"], "--reason", "no network")
    assert done.returncode == 0, done.stderr
    assert "↷ 1. Fetch  (skipped: no network)" in done.stderr
    assert "warning: 2. It depends on step 1 (Fetch), which was skipped" in done.stderr
    found = json.loads(shared.run("status", about["session_id"], "--json").stdout)
    assert [(each["status"], each.get("reason")) for each in found["todos"]] == [
        ("skipped", "no network"),
        ("done", None),
    ]


@pytest.mark.matrix  # `mcp/test_plans` cancels, `test_verbs` interrupts
def test_an_interrupt_pauses_the_plan_and_continue_goes_on(shared: Place) -> None:
    about = made(shared, "paused", ("Begin", "a = 1"), ("Wait", f"a += 1\n{WAITS}"), ("End", "assert a == 2"))
    here = Path(about["cwd"])
    process = shared.start("continue", about["session_id"])
    wait_for_file(here / "begun", process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    assert process.stderr is not None
    said = process.stderr.read().decode()
    assert f"paused; `cellwright plan run {about['session_id']}` goes on" in said
    found = json.loads(shared.run("status", about["session_id"], "--json").stdout)
    assert found["phase"] == "paused"
    (here / "begun").unlink(missing_ok=True)
    again = shared.start("continue", about["session_id"])
    wait_for_file(here / "begun", again)
    (here / "go").touch()
    assert again.wait(LIMIT_S) == 0


def test_a_plan_goes_on_from_its_file_where_its_session_is_gone(shared: Place) -> None:
    about = made(shared, "kept", ("Begin", "x = 1"), ("Think", None), ("End", "assert x + y == 3"))
    assert shared.run("continue", about["session_id"]).returncode == 1
    assert shared.run("delete", about["session_id"]).returncode == 0
    shown = shared.run("status", about["path"])
    assert "waiting: 2. Think has no code" in shown.stderr
    done = shared.run("fix", about["path"], "--code", "y = 2")
    assert done.returncode == 0, done.stderr
    assert "note: The kernel that held the state was gone: what step 1 did was run again first" in done.stderr


def test_a_session_without_a_plan_is_told_apart_with_the_next_step(shared: Place) -> None:
    session = shared.run("new", "no plan here").stdout.strip()
    for verb in ("continue", "fix", "skip", "status"):
        done = shared.run(verb, session)
        assert done.returncode == 1, verb
        assert f"error: The notebook of session {session} has no plan" in done.stderr
        assert "hint: `cellwright new PROBLEM --plan FILE`" in done.stderr
        assert "plan_create" not in done.stderr
    assert session not in shared.run("status").stdout


def test_whoever_is_refused_is_told_of_verbs_and_not_of_tools(shared: Place) -> None:
    about = made(shared, "busy", ("Wait", WAITS))
    done = shared.run("continue", "s-nowhere")
    assert "`cellwright list` has them all" in done.stderr
    assert "notebook_list" not in done.stderr
    process = shared.start("continue", about["session_id"])
    wait_for_file(Path(about["cwd"]) / "begun", process)
    done = shared.run("skip", about["session_id"])
    assert done.returncode == 1
    assert "Wait for it with `cellwright plan run`, or stop it with Ctrl-C" in done.stderr
    (Path(about["cwd"]) / "go").touch()
    assert process.wait(LIMIT_S) == 0


def test_a_plan_file_that_cannot_be_read_makes_no_notebook(shared: Place) -> None:
    before = shared.run("list", "--json").stdout
    (shared.root / "work" / "empty.plan.md").write_text("# Only a problem\n")
    done = shared.run("new", "--plan", "empty.plan.md")
    assert done.returncode == 2
    assert "error: empty.plan.md, line 1" in done.stderr
    assert shared.run("new").returncode == 2
    assert shared.run("new", " ").returncode == 2
    assert shared.run("list", "--json").stdout == before


def test_a_plan_that_the_daemon_refuses_leaves_no_notebook(shared: Place) -> None:
    before = shared.run("list", "--json").stdout
    done = shared.run("new", "--plan", plan_file(shared, "wordy", ("word " * 500, "1")))
    assert done.returncode == 1
    assert "todos.0.description" in done.stderr
    assert shared.run("list", "--json").stdout == before


# The table ------------------------------------------------------------------------------------------------------------


def plan_with(*statuses: str) -> dict[str, Any]:
    todos = [
        {"number": number, "description": f"step {number}", "status": status, "attempts": 1, "seconds": 0.5}
        for number, status in enumerate(statuses, 1)
    ]
    return {"problem": "many steps", "todos": todos}


def test_a_terminal_gets_a_table_that_is_redrawn_and_stays() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=24, color_system=None)
    with PlanView(console) as view:
        view.show(plan_with("done", "running", "pending"))
        view.show(plan_with("done", "done", "skipped"))
    last = shown.getvalue().rpartition("many steps")[2]
    assert "\x1b[2K" not in last, "nothing erases what was drawn last"
    assert [line.split()[:5] for line in last.splitlines() if "step" in line] == [
        ["✓", "1", "step", "1", "done"],
        ["✓", "2", "step", "2", "done"],
        ["↷", "3", "step", "3", "skipped"],
    ]


def test_a_table_longer_than_the_terminal_shows_what_is_going_on() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=12, color_system=None)
    plan = plan_with(*["done"] * 60, "running", *["pending"] * 39)
    console.print(todo_table(plan, {61: 4.0}, columns=80, most=8))
    rows = [line for line in shown.getvalue().splitlines() if "step " in line]
    assert len(rows) == 8
    assert [row.split()[-1] for row in rows if "step 61 " in row] == ["4.5"]
    assert "… 92 more" in shown.getvalue()


@pytest.mark.parametrize(
    ("columns", "facts"), [(80, ["done", "1", "0.5"]), (45, ["1", "0.5"]), (25, [])], ids=str
)
def test_a_long_description_is_cut_and_nothing_else_gives_way_to_it(columns: int, facts: list[str]) -> None:
    shown = io.StringIO()
    plan = plan_with("done")
    plan["todos"][0]["description"] = "a long description " * 20
    console = Console(file=shown, force_terminal=True, width=columns, color_system=None)
    console.print(todo_table(plan, {}, columns=console.width))
    *_, row = shown.getvalue().splitlines()
    assert len(row) <= columns
    todo, cut, rest = row.partition("…")
    assert (todo[:8], cut, rest.split()) == ("✓  1  a ", "…", facts)


def test_what_a_description_holds_cannot_steer_the_terminal() -> None:
    shown = io.StringIO()
    plan = plan_with("done")
    plan["todos"][0]["description"] = "\x1b[2Jgone [red]text[/red]\nnext"
    PlanView(Console(file=shown, force_terminal=False, width=80)).show(plan)
    assert "\x1b[2J" not in shown.getvalue()
    assert "gone [red]text[/red] next" in shown.getvalue()


def on_a_terminal(place: Place, *arguments: str, both: bool = False) -> tuple[subprocess.Popen[bytes], int]:
    """The command with a pseudo-terminal as its stderr (with ``both`` its stdin, too), and our end of that."""
    ours, theirs = pty.openpty()

    def attach() -> None:
        os.dup2(theirs, 2)
        if both:
            os.dup2(theirs, 0)

    process = place.start(*arguments, preexec_fn=attach)
    os.close(theirs)
    return process, ours


def all_of(ours: int) -> str:
    seen = b""
    try:
        while chunk := os.read(ours, 65_536):
            seen += chunk
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return seen.decode()


@pytest.mark.matrix  # `…was_paused_is_said…` is on one
def test_a_real_terminal_sees_the_table(shared: Place) -> None:
    about = made(shared, "terminal", ("Begin", "1"), ("End", "2"))
    process, ours = on_a_terminal(shared, "continue", about["session_id"])
    seen = all_of(ours)
    assert process.wait(LIMIT_S) == 0
    assert "attempts" in seen
    assert "✓" in seen


def test_that_a_plan_was_paused_is_said_below_its_table(shared: Place) -> None:
    about = made(shared, "paused in view", ("Wait", WAITS))
    process, ours = on_a_terminal(shared, "continue", about["session_id"])
    wait_for_file(Path(about["cwd"]) / "begun", process)
    process.send_signal(signal.SIGINT)
    last = all_of(ours).rpartition("attempts")[2]
    assert process.wait(LIMIT_S) == 130
    assert "\x1b[2K" not in last, "nothing erases what was said last"
    assert last.splitlines()[-1] == f"paused; `cellwright plan run {about['session_id']}` goes on"


def test_a_terminal_sees_that_a_command_waits_for_the_daemon(shared: Place) -> None:
    shared.start_daemon()
    daemon = shared.daemon()
    daemon.suspend()
    try:
        process, ours = on_a_terminal(shared, "list")
        seen = b""
        while b"waiting for the daemon" not in seen:
            seen += os.read(ours, 65_536)
    finally:
        daemon.resume()
    left = all_of(ours)
    assert process.wait(LIMIT_S) == 0
    assert left.endswith("\r\x1b[K"), "nothing is left of it"
