"""``cellwright run`` as a person starts it: a process, a notebook, an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.matrix import first_of
from tests.system.daemon.conftest import names_of, run_command, wait_for_file
from tests.waiting import LIMIT_S, UNHURRIED_VARIABLES

COMMAND = [sys.executable, "-c", "from cellwright.cli import main; main()", "run"]


def write(path: Path, *sources: str) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbformat.write(notebook, path)
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command("run", *map(str, arguments), cwd=Path.cwd(), env=os.environ | UNHURRIED_VARIABLES)


def texts(path: Path) -> list[str]:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]


def test_a_good_notebook_gets_its_outputs_and_exits_0_with_a_line_a_cell(tmp_path: Path) -> None:
    path = write(tmp_path / "good.ipynb", "x = rows - 1", "print(x + 1, name)")
    done = run(path, "--param", "rows=21", "--param", "name=north")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert texts(path)[1:] == ["", "21 north\n"], "the parameters are set before the first cell"
    assert "✓ [2] x = rows - 1" in done.stderr
    assert "✓ [3] print(x + 1, name)" in done.stderr


def test_a_run_that_the_settings_send_to_an_allocation_says_how_it_can_be_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLWRIGHT_RUN_MODE", "slurm")
    path = write(tmp_path / "here.ipynb", "print(1)")
    refused = run(path)
    assert refused.returncode == 3
    assert "`--host local`" in refused.stderr
    assert run(path, "--host", "local").returncode == 0
    assert texts(path) == ["1\n"]


def test_a_failing_cell_ends_the_run_with_1_and_names_the_error(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.ipynb", "print('before')", "1 / 0", "print('after')")
    done = run(path)
    assert done.returncode == 1
    assert "✗ [2] 1 / 0" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert texts(path) == ["before\n", "", ""]


def test_with_errors_allowed_the_rest_runs_into_an_output_file_and_the_data_tell_all(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("beside the notebook")
    path = write(tmp_path / "bad.ipynb", "1 / 0", "print(open('data.txt').read())")
    before = path.read_bytes()
    done = run(path, "--allow-errors", "--json", "-o", tmp_path / "out" / "done.ipynb")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert [cell["state"] for cell in told["cells"]] == ["error", "ok"]
    assert told["cells"][0]["error"]["ename"] == "ZeroDivisionError"
    assert told["ok"] is False
    assert path.read_bytes() == before
    assert texts(tmp_path / "out" / "done.ipynb") == ["", "beside the notebook\n"]


@pytest.mark.matrix  # `test_verbs` has the limit
def test_a_cell_over_its_time_is_told_with_the_setting(tmp_path: Path) -> None:
    path = write(tmp_path / "slow.ipynb", "import time\ntime.sleep(600)")
    done = run(path, "--timeout", "0.3")
    assert done.returncode == 1
    assert "cell_timeout_s" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    first_of(
        [
            (
                ["sales"],
                3,
                "error: There is no notebook sales\nhint: Give the path of its file; for a session's, `",
            ),
            (["text.ipynb"], 3, "error: "),
            (["good.ipynb", "--param", "no value"], 3, "hint: Write it as name=value"),
            (["good.ipynb", "--timeout", "-1"], 2, "timeout"),
            ([], 2, "NOTEBOOK.ipynb"),
        ],
        3,
    ),
)
def test_bad_input_says_what_and_what_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.ipynb", "1")
    (tmp_path / "text.ipynb").write_text("not a notebook")
    done = run(*arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_saves_what_ran_and_leaves_no_process(tmp_path: Path) -> None:
    endless = (
        "import subprocess\nleft = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "import time\nopen('begun', 'w').close()\nwhile True: time.sleep(0.01)"
    )
    path = write(tmp_path / "long.ipynb", "print('kept')", endless)
    process = subprocess.Popen(
        [*COMMAND, str(path)], stderr=subprocess.PIPE, env=os.environ | UNHURRIED_VARIABLES
    )
    wait_for_file(tmp_path / "begun", process)
    below = psutil.Process(process.pid).children(recursive=True)
    assert "sleep" in names_of(below), "the cell's own process is among them"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, said
    assert texts(path)[0] == "kept\n"
    _, alive = psutil.wait_procs(below, 60)
    assert alive == []


@pytest.mark.parametrize("how", first_of(["flag", "variable", "file"], 1))
def test_an_unconfined_run_says_so_first_on_stderr_and_in_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "own" / "cellwright").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    flags = ["--unsafe-no-sandbox"] if how == "flag" else []
    if how == "variable":
        monkeypatch.setenv("CELLWRIGHT_UNSAFE_NO_SANDBOX", "1")
    if how == "file":
        (tmp_path / "own" / "cellwright" / "cellwright.toml").write_text("unsafe_no_sandbox = true\n")
    (tmp_path / "secret").write_text("reached")
    (tmp_path / "work").mkdir()
    path = write(tmp_path / "work" / "open.ipynb", f"print(open({str(tmp_path / 'secret')!r}).read())")
    done = run(path, "--json", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("UNSAFE: ")
    assert json.loads(done.stdout)["banner"].startswith("UNSAFE: ")
    assert texts(path) == ["reached\n"]


def test_a_run_is_confined_where_nobody_said_otherwise(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not reached")
    (tmp_path / "work").mkdir()
    path = write(tmp_path / "work" / "closed.ipynb", f"print(open({str(tmp_path / 'secret')!r}).read())")
    done = run(path, "--json")
    assert done.returncode == 1
    assert "UNSAFE" not in done.stderr
    told = json.loads(done.stdout)
    assert (told["banner"], told["mode"]) == (None, "direct")
    assert told["tier"] in {"A", "B", "C"}
    assert told["cells"][0]["error"]["ename"] in {"FileNotFoundError", "PermissionError"}
