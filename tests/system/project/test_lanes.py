"""The runner of the tests, on small trees of its own: what fails once, what fails twice, and a process that dies."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes

UNSTEADY = """
from pathlib import Path

def test_it():
    seen = Path(__file__).with_suffix(".seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there, "only once"
"""


def run_lanes(root: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """Run the unit lane of a tree that has these test files."""
    (root / "tests" / "unit").mkdir(parents=True)
    # These tests import nothing that would have to be there before.
    source = re.sub(r"(?ms)^PRELOADED = \(.*?^\)", "PRELOADED = ()", Path(lanes.__file__).read_text())
    (root / "tests" / "lanes.py").write_text(source)
    for name, source in files.items():
        folder = root / "tests" / "unit" / name
        folder.mkdir()
        (folder / f"test_{name}.py").write_text(source)
    command = [sys.executable, "-m", "tests.lanes", "--lane", "unit"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_places_are_filled_to_the_end_clusters_run_one_at_a_time_and_browsers_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, running, seen = lanes.Pool(tmp_path, ()), [], []
    monkeypatch.setattr(pool, "_running", {})

    def begin(group: lanes.Group) -> None:
        pool._running[len(seen)] = lanes.Running(group, tmp_path, tmp_path, tmp_path, 0)
        running.append(group.name)
        seen.append(sorted(running))

    def end_the_oldest() -> lanes.Outcome:
        group = pool._running.pop(min(pool._running)).group
        running.remove(group.name)
        return lanes.Outcome(group, 0, 0, tmp_path)

    monkeypatch.setattr(pool, "_begin", begin)
    monkeypatch.setattr(pool, "_wait", end_the_oldest)
    groups = [lanes.Group("browser", "w", ()), *(lanes.Group("kernel", name, ()) for name in "abcd")]
    groups += [lanes.Group("cluster", name, ()) for name in "xy"]
    ended = [outcome.group.name for outcome in pool.run(groups, jobs=4)]
    assert sorted(ended) == list("abcdwxy")
    assert seen == [*map(list, ("x", "ax", "abx", "abcx", "abcy", "bcdy", "dw"))]


BUSY = """
import os, subprocess, sys

WORK = "import time\\nwhile time.process_time() < 0.4: pass"

def test_it():
    subprocess.run([sys.executable, "-c", WORK], check=True)

def test_a_fork_of_the_runs_own_process_tells_what_it_used():
    with open(os.environ["TESTS_PROCESSOR_ACCOUNT"], "a") as account:
        account.write("70.5\\n0.5\\n")

def test_an_orphan_works():
    read, write = os.pipe()
    # Whoever reads hears of its end, which the runner waits for.
    command = [sys.executable, "-c", WORK]
    orphan = f"import subprocess; subprocess.Popen({command!r}, pass_fds=[{write}])"
    subprocess.run([sys.executable, "-c", orphan], pass_fds=[write], check=True)
    os.close(write)
    assert os.read(read, 1) == b""
"""


def test_what_fails_once_is_listed_with_its_first_error_and_fails_nothing(tmp_path: Path) -> None:
    done = run_lanes(tmp_path, shaky=UNSTEADY, sound=BUSY)
    assert done.returncode == 0, done.stdout + done.stderr
    costliest = done.stdout.split("use most of a processor\n")[1].splitlines()[0].split()
    assert float(costliest[0]) >= 71.4
    assert costliest[-1] == "tests/unit/sound/test_sound.py"
    listed = done.stdout.split("UNSTEADY: 1 ")[1]
    assert "tests/unit/shaky/test_shaky.py::test_it" in listed
    assert "AssertionError: only once" in listed
    assert "tests: 4 passed, 0 failed, 0 skipped" in done.stdout
    assert int(re.search(r"^unit .* (\d+)$", done.stdout, re.MULTILINE)[1]) >= 71
    assert float(re.search(r"^orphans +(\S+)$", done.stdout, re.MULTILINE)[1]) >= 0.4


def test_three_that_fail_once_fail_the_run(tmp_path: Path) -> None:
    done = run_lanes(tmp_path, one=UNSTEADY, two=UNSTEADY, three=UNSTEADY)
    assert done.returncode == 1
    assert "tests: 3 passed, 0 failed, 0 skipped" in done.stdout


def test_what_came_after_a_process_died_is_run_with_the_second_look(tmp_path: Path) -> None:
    dies = UNSTEADY.replace("assert was_there", "was_there or __import__('os')._exit(7)\n    assert True")
    done = run_lanes(tmp_path, doomed=dies + "\ndef test_after_it(): assert 1 + 1 == 3\n")
    assert done.returncode == 1
    assert "test_doomed.py::test_it" in done.stdout.split("UNSTEADY: 1 ")[1]
    assert "test_doomed.py::test_after_it" in done.stdout.split("FAILED: 1\n")[1]
    assert "tests: 1 passed, 1 failed, 0 skipped" in done.stdout


def test_what_fails_twice_fails_the_run_and_is_named(tmp_path: Path) -> None:
    done = run_lanes(
        tmp_path,
        wrong="def test_it(): assert 1 + 1 == 3",
        doomed="import os\ndef test_it(): os._exit(7)",
        broken="import no_such_module",
        sound="def test_it(): pass",
    )
    assert done.returncode == 1
    failed = done.stdout.split("FAILED: 3\n")[1].splitlines()
    for name, error in (
        ("wrong", "assert (1 + 1) == 3"),
        ("doomed", "the process ended in it, with 7"),
        ("broken", "No module named 'no_such_module'"),
    ):
        at = next(number for number, line in enumerate(failed) if f"/{name}/test_{name}.py" in line)
        assert error in "".join(failed[at : at + 2])
    assert "tests: 1 passed, 3 failed, 0 skipped" in done.stdout
