"""Each verb end to end: a real daemon, data on stdout, all else on stderr, exit codes as documented."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest

from tests.matrix import first_of
from tests.system.daemon.conftest import Place, wait_for_file
from tests.waiting import LIMIT_S, PACE_S


def new(place: Place, name: str = "from the command line") -> str:
    done = place.run("new", name)
    assert done.returncode == 0, done.stderr
    assert "a file of this folder is `../NAME`" in done.stderr
    return done.stdout.strip()


def test_a_notebook_from_its_making_to_its_end(shared: Place) -> None:
    session = new(shared)
    cell = shared.run("add", session, "print('hallo')\n6 * 7").stdout.strip()
    assert shared.run("session", "edit", session, cell, given="print('hi')\n6 * 7").stdout.strip() == cell
    text = shared.run(
        "add", session, "--type", "markdown", "--position", "0", given="# Above all"
    ).stdout.strip()
    ran = shared.run("exec", session, cell)
    assert (ran.returncode, ran.stdout) == (0, "hi\n42\n"), ran.stderr
    shown = shared.run("show", session).stdout
    assert shown.index(text) < shown.index(cell)
    listed = json.loads(shared.run("list", "--json").stdout)
    (found,) = [one for one in listed if one["session_id"] == session]
    assert (found["state"], found["cells"]) == ("active", 3)
    logged = json.loads(shared.run("logs", session, "--json").stdout)
    assert [run["status"] for run in logged["executions"]] == ["ok"]
    began, ended = (
        datetime.fromisoformat(logged["executions"][0][name]).astimezone()
        for name in ("started_at", "ended_at")
    )
    assert began <= ended <= datetime.now(UTC)
    assert f"{began:%Y-%m-%d %H:%M:%S} - {ended:%H:%M:%S}" in shared.run("logs", session).stdout
    assert shared.run("delete", session).stdout.strip() == session
    assert session not in shared.run("list").stdout
    assert Path(found["path"]).is_file(), "the notebook stays"


def test_every_verb_that_makes_a_session_or_a_kernel_takes_a_host(shared: Place) -> None:
    session = new(shared)
    (shared.root / "work" / "own.md").write_text("# Mine\n")
    for verb in (("new", "elsewhere"), ("import", "own.md"), ("replay", session)):
        there = shared.run(*verb, "--host", "jupyter:nowhere")
        assert there.returncode == 1
        assert "The settings have no Jupyter server 'nowhere'" in there.stderr
    assert shared.run("new", "here", "--host", "local").returncode == 0


def test_data_is_json_on_stdout_and_nothing_else(shared: Place) -> None:
    created = json.loads(shared.run("new", "as data", "--json").stdout)
    session = created["session_id"]
    added = json.loads(shared.run("add", session, "x = 1", "--json").stdout)
    for arguments in (
        ("exec", session, added["cell_id"]),
        ("exec", session, "--code", "x"),
        ("show", session),
        ("list",),
        ("logs", session),
        ("export", session, "--format", "markdown"),
        ("delete", session),
    ):
        done = shared.run(*arguments, "--json")
        assert done.returncode == 0, (arguments, done.stderr)
        json.loads(done.stdout)


def test_a_failing_cell_is_told_on_stderr_and_exits_1(shared: Place) -> None:
    session = new(shared)
    done = shared.run("exec", session, "--code", "print('before'); 1/0")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert "ZeroDivisionError" in done.stderr
    assert "error: " in done.stderr
    as_json = shared.run("exec", session, "--code", "1/0", "--json")
    assert as_json.returncode == 1
    told = json.loads(as_json.stdout)
    assert (told["status"], told["error"]["ename"]) == ("error", "ZeroDivisionError")
    assert shared.run("exec", session, "--code", "1").returncode == 0, "the session stays usable"


def test_all_cells_run_in_order_until_one_fails(shared: Place) -> None:
    session = new(shared)
    for content in ("print('one')", "print('two'); 1/0", "print('three')"):
        shared.run("add", session, content)
    done = shared.run("exec", session, "all", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["stdout"] == "one\ntwo\n"
    assert [cell["status"] for cell in told["cells"]] == ["ok", "error", "interrupted"]


def test_what_a_cell_displays_is_shown_as_text(shared: Place) -> None:
    session = shared.run("new", "displays").stdout.strip()
    code = "print('first')\ndisplay({'shown': 1})\n'result'"
    assert shared.run("exec", session, "--code", code).stdout == "first\n{'shown': 1}\n'result'\n"


def test_all_that_was_kept_of_a_long_output_is_printed(shared: Place) -> None:
    session = shared.run("new", "long").stdout.strip()
    cell = shared.run("add", session, "print('x' * 900_000)\nfor i in range(50): display(i)").stdout.strip()
    whole = "x" * 900_000 + "\n" + "".join(f"{i}\n" for i in range(50))
    assert shared.run("exec", session, cell).stdout == whole
    told = json.loads(shared.run("exec", session, cell, "--json").stdout)
    assert (len(told["stdout"]), len(told["outputs"]), told["truncated"]) == (900_001, 51, False)
    assert "x" * 900_000 in shared.run("show", session, cell).stdout
    assert "x" * 900_000 in shared.run("show", session, "--json").stdout


def test_an_execution_that_was_let_go_is_waited_for_and_cancelled_by_its_id(shared: Place) -> None:
    session = new(shared)
    sleeping = shared.run(
        "exec", session, "--code", "import time; time.sleep(600)", "--timeout", "900", "--detach"
    )
    execution = sleeping.stdout.strip()
    assert sleeping.returncode == 0
    cancelled = shared.run("cancel", execution)
    assert (cancelled.returncode, cancelled.stdout) == (0, f"{execution} interrupted\n")
    waited = shared.run("wait", execution, "--json")
    assert waited.returncode == 1
    assert json.loads(waited.stdout)["status"] == "interrupted"


def test_an_interrupt_stops_the_cell_that_is_waited_for(shared: Place) -> None:
    about = json.loads(shared.run("new", "interrupted", "--mode", "private", "--json").stdout)
    session, gate = about["session_id"], Path(about["cwd"], "running")
    code = "import pathlib, time\npathlib.Path('running').touch()\ntime.sleep(600)"
    process = shared.start("exec", session, "--code", code, "--timeout", "900")
    wait_for_file(gate, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    runs = json.loads(shared.run("logs", session, "--json").stdout)["executions"]
    assert [run["status"] for run in runs] == ["interrupted"]


def test_whoever_does_not_want_to_wait_for_the_stop_interrupts_again(shared: Place) -> None:
    about = json.loads(shared.run("new", "left alone", "--mode", "private", "--json").stdout)
    code = "import pathlib, time\npathlib.Path('running').touch()\ntime.sleep(600)"
    process = shared.start("exec", about["session_id"], "--code", code, "--timeout", "900")
    wait_for_file(Path(about["cwd"], "running"), process)
    daemon = shared.daemon()
    daemon.suspend()
    try:
        # One that comes while another is being taken in counts for one; one that comes at the very end ends it itself.
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(PACE_S)
    finally:
        daemon.resume()
    assert process.returncode in {130, -signal.SIGINT}


def test_a_cell_that_takes_too_long_says_which_limit_stopped_it(shared: Place) -> None:
    session = new(shared)
    done = shared.run("exec", session, "--code", "import time; time.sleep(600)", "--timeout", "0.2")
    assert done.returncode == 1
    assert "timeout" in done.stderr


def test_a_notebook_goes_out_and_comes_in_again(shared: Place) -> None:
    session = new(shared, "there and back")
    cell = shared.run("add", session, "print('kept')").stdout.strip()
    shared.run("exec", session, cell)
    work = shared.root / "work"
    assert shared.run("export", session, "-o", "out.ipynb").returncode == 0
    nbformat.validate(nbformat.read(work / "out.ipynb", as_version=4))
    assert "kept" in shared.run("export", session, "--format", "markdown").stdout
    assert ":output" not in shared.run("export", session, "--to", "markdown", "--no-outputs").stdout
    imported = shared.run("import", "out.ipynb")
    assert imported.returncode == 0, imported.stderr
    assert cell in shared.run("show", imported.stdout.strip()).stdout
    piped = shared.run("import", "-", "--format", "markdown", given="# Piped\n\n```python\n1 + 1\n```\n")
    assert piped.returncode == 0, piped.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    first_of(
        [
            (("exec", "s-unknown", "--code", "1"), 1, "s-unknown"),
            (("new", "what", "--language", "klingon"), 1, "klingon"),
            (("new", ""), 2, "PROBLEM"),
            (("import", "missing.ipynb"), 2, "missing.ipynb"),
            (("nonsense",), 2, "nonsense"),
            (("logs", "s-unknown", "--limit", "0"), 2, "limit"),
            (("show", "s-unknown"), 1, "s-unknown"),
            (("wait", "x-unknown"), 1, "x-unknown"),
            (("cancel", "x-unknown"), 1, "x-unknown"),
            (("delete", "s-unknown"), 1, "s-unknown"),
            (("import", "data.parquet"), 2, "data.parquet"),
            (("exec",), 2, "SESSION"),
            (("list", "--filter", "some"), 2, "some"),
        ],
        6,
    ),
)
def test_bad_input_is_refused_with_a_reason_and_no_data(
    shared: Place, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = shared.run(*arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_position_out_of_range_and_an_unknown_cell_leave_the_notebook_as_it_was(shared: Place) -> None:
    session = new(shared)
    before = shared.run("show", session).stdout
    assert shared.run("add", session, "x", "--position", "99").returncode == 1
    assert shared.run("exec", session, "no-such-cell").returncode == 1
    assert shared.run("show", session).stdout == before


def test_the_version_and_help_need_no_daemon(place: Place) -> None:
    version = place.run("--version").stdout
    assert version.strip()
    as_module = subprocess.run(
        [sys.executable, "-m", "cellwright", "--version"], capture_output=True, text=True, check=True
    )
    assert as_module.stdout == version
    helped = place.run("help", "--all")
    for verb in (
        "new",
        "add",
        "exec",
        "show",
        "list",
        "export",
        "import",
        "delete",
        "wait",
        "cancel",
        "logs",
    ):
        assert verb in helped.stdout
    assert "--dialect" in place.run("mcp", "--help").stdout
    assert place.daemons() == []


@pytest.mark.parametrize(
    ("verb", "said"),
    first_of(
        [("new", "[default: python]"), ("status", "[default: all]"), ("rollback", "[default: the newest]")], 1
    ),
)
def test_help_tells_what_is_meant_by_default(shared: Place, verb: str, said: str) -> None:
    assert said in shared.run(verb, "--help").stdout
