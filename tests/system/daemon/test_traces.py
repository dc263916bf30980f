"""How much of the house one cell goes through."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.kernel.engine.conftest import host_process
from tests.system.daemon.conftest import Place
from tests.waiting import wait_until

TRACED = Path(__file__).parents[2] / "support" / "daemon" / "traced"
SOURCE = Path(__file__).parents[3] / "src"
MOST_FILES = 40
MOST_CALLS = 20


def test_a_warm_cell_goes_through_few_of_our_files(place: Place, tmp_path: Path) -> None:
    place.environment |= {"PYTHONPATH": str(TRACED), "TRACED_FILES": str(tmp_path)}
    pump = place.pump()
    pump.initialize()
    session = pump.call("notebook_create", name="traced")["session_id"]

    def run() -> None:
        pump.answer(pump.begin("cell_add_and_run", session_id=session, code="40 + 2"))

    run()
    pids = [place.daemon().pid, host_process(place.storage).pid]
    # What a timer does meanwhile is not in all of them; on a busy machine it may be in several in a row.
    files = _files_called(run, pids, tmp_path)
    for _ in range(MOST_CALLS - 1):
        if len(files) <= MOST_FILES:
            break
        files &= _files_called(run, pids, tmp_path)
    assert len(files) <= MOST_FILES, f"{len(files)} files:\n" + "\n".join(sorted(files))


def _files_called(run: Callable[[], None], pids: list[int], notes: Path) -> set[str]:
    _switch(pids, [notes / f"{pid}.begun" for pid in pids])
    run()
    called = [notes / str(pid) for pid in pids]
    _switch(pids, called)
    lines = {line for note in called for line in note.read_text().splitlines()}
    for note in called:
        note.unlink()
        note.with_suffix(".begun").unlink()
    return {line.rpartition(":")[0] for line in lines if line.startswith(str(SOURCE))}


def _switch(pids: list[int], until: list[Path]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGUSR2)
    wait_until(lambda: all(path.exists() for path in until))
