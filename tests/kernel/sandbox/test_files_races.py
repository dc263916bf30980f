"""A process that swaps names as fast as it can never leads us outside of the working directory.

The last test runs these and all of ``test_files`` where the kernel has no ``openat2``.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.errors import SandboxError
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.safe_paths import has_openat2
from tests.kernel.sandbox import test_files
from tests.kernel.sandbox.test_files import SECRET
from tests.waiting import wait_until

ROUNDS = 3_000
WITHOUT_OPENAT2 = "CELLWRIGHT_TEST_WITHOUT_OPENAT2"
# Runs pytest under a filter that answers ENOSYS to openat2, as an old kernel does.
FORBID_OPENAT2 = """
import ctypes, runpy, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
sys.argv[0] = "pytest"
runpy.run_module("pytest", run_name="__main__")
"""


@pytest.fixture
def box(tmp_path: Path) -> Path:
    (tmp_path / "box").mkdir()
    return tmp_path / "box"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_bytes(SECRET)
    return directory


@pytest.fixture
def workdir(box: Path) -> Iterator[Workdir]:
    with Workdir.open(box) as opened:
        yield opened


@contextlib.contextmanager
def hostile(script: str, *arguments: Path) -> Iterator[None]:
    """A process that runs this body over and over, as fast as it can, until the test is done."""
    program = (
        f"import ctypes, os, sys\nlibc = ctypes.CDLL(None)\n"
        "def swap(a, b): libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2)\n"
        f"{script}\nprint('ready', flush=True)\nwhile True: attack()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", program, *map(str, arguments)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def repeat(attempt: Callable[[], None], rounds: int, *, enough: Callable[[], bool]) -> None:
    """So many rounds, and more where the attack stood still during all of them."""
    for _ in range(rounds):
        attempt()

    def once_more() -> bool:
        if not enough():
            attempt()
        return enough()

    with contextlib.suppress(TimeoutError):
        wait_until(once_more)


SWAPS = {
    "file with a link": """
box, secret = sys.argv[1], sys.argv[2] + "/secret"
os.mkdir(box + "/a"); open(box + "/a/secret", "w").close(); os.symlink(secret, box + "/other")
def attack(): swap(box + "/a/secret", box + "/other")
""",
    "directory with a link": """
box, out = sys.argv[1:3]
os.mkdir(box + "/a"); open(box + "/a/secret", "w").close(); os.symlink(out, box + "/other")
def attack(): swap(box + "/a", box + "/other")
""",
    "file with a hard link": """
box, secret = sys.argv[1], sys.argv[2] + "/secret"
os.mkdir(box + "/a"); open(box + "/a/secret", "w").close(); os.link(secret, box + "/other")
def attack(): swap(box + "/a/secret", box + "/other")
""",
    "directories that move, one of them a link": """
box, out = sys.argv[1:3]
os.mkdir(box + "/a"); os.mkdir(box + "/x"); open(box + "/a/secret", "w").close(); os.symlink(out, box + "/x/out")
def attack(): swap(box + "/a", box + "/x/out"); swap(box + "/x/out", box + "/a")
""",
}


@pytest.mark.parametrize("swapped", SWAPS)
def test_reader_is_never_led_outside_by_swapping(
    workdir: Workdir, box: Path, outside: Path, swapped: str
) -> None:

    def naive() -> bool:
        with contextlib.suppress(OSError):
            return (box / "a" / "secret").read_bytes() == SECRET
        return False

    with hostile(SWAPS[swapped], box, outside):
        wait_until(naive)  # else the attack does not work against a careless reader either
        seen = set()

        def read() -> None:
            try:
                seen.add(workdir.read("a/secret"))
            except SandboxError:
                seen.add(b"refused")

        repeat(read, ROUNDS, enough=lambda: len(seen) > 1)
    assert seen == {b"", b"refused"}


def test_writer_and_remover_are_never_led_outside_by_swapping(
    workdir: Workdir, box: Path, outside: Path
) -> None:
    script = SWAPS["directory with a link"]

    def naive() -> bool:
        with contextlib.suppress(OSError):
            (box / "a" / "planted").touch()
        return (outside / "planted").exists()

    with hostile(script, box, outside):
        wait_until(naive)  # else the attack does not work against a careless writer either
        (outside / "planted").unlink()
        written = []

        def write() -> None:
            with contextlib.suppress(SandboxError):
                workdir.write("a/planted", b"x")
                written.append(True)
            with contextlib.suppress(SandboxError):
                workdir.remove("a/secret")
            with contextlib.suppress(SandboxError):
                workdir.list("a")

        repeat(write, ROUNDS // 3, enough=lambda: bool(written))
    assert written
    assert (outside / "secret").read_bytes() == SECRET
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_snapshot_never_wanders_outside_while_directories_are_swapped(
    workdir: Workdir, box: Path, outside: Path
) -> None:
    (outside / "only-outside").touch()
    script = SWAPS["directory with a link"]
    with hostile(script, box, outside):
        for _ in range(ROUNDS // 3):
            assert not any("only-outside" in path for path in workdir.snapshot().entries)


@pytest.mark.parametrize(
    "tests",
    ["openat2 or links", pytest.param("", id="all", marks=pytest.mark.matrix)],
)
def test_all_of_this_holds_without_openat2(tests: str) -> None:
    if WITHOUT_OPENAT2 in os.environ:
        assert not has_openat2()
        return
    command = [sys.executable, "-c", FORBID_OPENAT2, "-q", "-p", "no:cacheprovider", "-k", tests]
    environment = {**os.environ, WITHOUT_OPENAT2: "1"}
    done = subprocess.run(
        [*command, __file__, inspect.getfile(test_files)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
