"""``cellwright verify`` end to end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import nbformat
import pytest

from tests.system.daemon.conftest import Place, wait_until
from tests.waiting import LIMIT_S


def notebook(place: Place, name: str, cells: dict[str, str]) -> Path:
    """A notebook's file as one that ran from top to bottom has it, by what each cell printed; no session has it open."""
    path = place.root / "work" / name
    ran = [
        nbformat.v4.new_code_cell(
            source,
            execution_count=number,
            outputs=[nbformat.v4.new_output("stream", name="stdout", text=text)] if text else [],
        )
        for number, (source, text) in enumerate(cells.items(), 1)
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=ran), path)
    return path


def test_a_file_that_holds_is_verified_and_carries_its_certificate(shared: Place) -> None:
    path = notebook(shared, "holds.ipynb", {"x = 1": "", "print(x + 1)": "2\n"})
    done = shared.run("verify", str(path))
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["same", "same"]
    assert "verified: 2 of 2 cells" in done.stderr
    assert nbformat.read(path, as_version=4)["metadata"]["cellwright"]["certificate"]["verified"] is True


def test_what_differs_exits_1_unless_it_is_declared(shared: Place) -> None:
    path = notebook(shared, "differs.ipynb", {"import time\nprint('run', time.time_ns())": "run 1\n"})
    done = shared.run("verify", str(path))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].split()[0] == "different"
    assert "not verified: 1 of 1 cells" in done.stderr
    done = shared.run("verify", str(path), "--mask", "run [0-9]+", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] is True


@pytest.mark.matrix  # `verification` stops it, `test_verbs` interrupts
def test_an_interrupt_stops_it_and_leaves_nothing(shared: Place) -> None:
    about = json.loads(shared.run("new", "interrupted", "--json").stdout)
    session = about["session_id"]
    code = "import pathlib, time\nprint(1, flush=True)\nwhile True: time.sleep(0.01)"
    shared.run("add", session, code)
    storage = shared.storage / "sessions"
    before = {one.name for one in storage.iterdir()}
    process = shared.start("verify", session, "--timeout", "600")
    # What is new there: what others left may go meanwhile.
    wait_until(lambda: bool({one.name for one in storage.iterdir()} - before) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    assert process.stderr is not None
    assert process.stderr.read().decode().startswith("stopped; nothing is left of it")
    listed = json.loads(shared.run("list", "--json").stdout)
    assert {one.name for one in storage.iterdir()} <= {one["session_id"] for one in listed}
    saved = nbformat.read(about["path"], as_version=4)
    assert "certificate" not in saved["metadata"].get("cellwright", {})
