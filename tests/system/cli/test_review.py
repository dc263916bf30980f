"""``cellwright review`` as a person starts it: a table, diffs, and a notebook that changes only when asked."""

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

from cellwright.cli._review import _chosen
from cellwright.errors import NotebookError
from cellwright.review import MeasuredCell, Review
from tests.support.agent.wires.servers import reply, serve
from tests.system.daemon.conftest import names_of, run_command, wait_until
from tests.waiting import LIMIT_S, UNHURRIED_VARIABLES

SETUP = "import pandas as pd\ndf = pd.DataFrame({'a': range(3000), 'b': [0.5] * 3000, 's': ['x'] * 3000})\nprint(len(df))"
LOOP = "total = 0\nfor _, row in df.iterrows():\n    total += row['a'] * row['b']\nprint(total)"
COMMAND = [sys.executable, "-c", "from cellwright.cli import main; main()"]


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "slow.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, LOOP)]
    cells[1]["outputs"] = [nbformat.v4.new_output("stream", name="stdout", text="of long ago\n")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def review(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command("review", *map(str, arguments), cwd=Path.cwd(), env=os.environ | UNHURRIED_VARIABLES)


def test_hints_come_as_a_table_and_diffs_and_the_notebook_stays(notebook: Path) -> None:
    before = notebook.read_bytes()
    done = review(notebook, "--min-seconds", "0.01", "--top", "1")
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.splitlines()[:2]
    assert head.split() == ["cell", "line", "hint", "now", "after", "speed-up"]
    assert row.split()[:3] == ["2", "2", "row_loop"]
    assert "  -for _, row in df.iterrows():" in done.stdout
    assert "  +total += (df['a'] * df['b']).sum(skipna=False).item()" in done.stdout
    assert "the notebook is unchanged; --apply 2 or --apply all rewrites it" in done.stderr
    assert notebook.read_bytes() == before


@pytest.mark.matrix  # `review/test_reviewing` rewrites and asks an adviser
def test_a_cell_is_rewritten_on_request_and_a_model_asked_where_no_rule_has_a_faster_one(
    notebook: Path,
) -> None:
    slow = "slow = df.astype(object)\nprint(len(slow))"
    written = nbformat.read(notebook, as_version=4)
    written.cells.append(nbformat.v4.new_code_cell(slow))
    nbformat.write(written, notebook)
    better = json.dumps({"code": "slow = df.astype(object, copy=False)\nprint(len(slow))"})
    with serve([reply(better)]) as server:
        model = f"{server.url}/v1#some-model"
        done = review(notebook, "--min-seconds", "0", "--apply", "2", "--json", "--model", model)
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 1
    assert slow.partition("\n")[0] in server.requests[0].text
    told = json.loads(done.stdout)
    assert told["hints"][0]["rewrite"]["speedup"] > 1
    saved = nbformat.read(notebook, as_version=4)
    nbformat.validate(saved)
    assert told["applied"] == [saved.cells[1].id]
    assert saved.cells[0].source == SETUP
    assert "iterrows" not in saved.cells[1].source
    assert [output.text for output in saved.cells[1].outputs] == ["2249250.0\n"]


@pytest.mark.matrix  # `test_run` has the exit
def test_a_cell_that_fails_ends_with_1_and_says_which(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ipynb"
    cells = [nbformat.v4.new_code_cell("open('missing.csv')")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), bad)
    done = review(bad)
    assert done.returncode == 1
    assert "error: Cell 1 ended as error (FileNotFoundError" in done.stderr


def test_cells_are_named_by_number_or_id_or_all_and_others_are_refused() -> None:
    cells = (MeasuredCell("one", 2, "ok", 1.0), MeasuredCell("two", 5, "ok", 1.0))
    found = Review(cells, (), 2, sources={"two": "x = 1"})
    assert _chosen(found, ["5"]) == _chosen(found, ["two"]) == _chosen(found, ["all"]) == ["two"]
    with pytest.raises(NotebookError, match="No cell '7' has run"):
        _chosen(found, ["7"])


def test_an_unknown_model_is_refused_before_anything_runs(notebook: Path) -> None:
    done = review(notebook, "--model", "nobody:nothing")
    assert done.returncode == 3
    assert "nobody" in done.stderr


@pytest.mark.matrix  # `test_run` is interrupted, in an engine of its own, too
def test_an_interrupt_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "endless.ipynb"
    source = "import subprocess\nleft = subprocess.Popen(['sleep', '1000'], start_new_session=True)\nwhile True: pass"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    before = path.read_bytes()
    process = subprocess.Popen(
        [*COMMAND, "review", str(path)], stderr=subprocess.PIPE, env=os.environ | UNHURRIED_VARIABLES
    )
    mine = psutil.Process(process.pid)
    wait_until(lambda: "sleep" in names_of(mine.children(recursive=True)))
    below = mine.children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, said
    assert b"interrupted: nothing is left of it" in said
    _, alive = psutil.wait_procs(below, 60)
    assert alive == []
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["endless.ipynb"]
