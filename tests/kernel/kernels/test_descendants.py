"""What is known of processes below a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cellwright_kernel import descendants

# Its first thread is over, and another holds all that it has.
HALF_GONE = """
import ctypes, platform, sys, threading
libc = ctypes.CDLL(None)
number = 60 if platform.machine() == "x86_64" else 93
threading.Thread(target=sys.stdin.read).start()
print("ending", flush=True)
libc.syscall(number, 0)
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HALF_GONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_a_process_that_gives_its_memory_back_is_ending_until_it_has(child: subprocess.Popen[str]) -> None:
    assert not descendants.is_ending(os.getpid())
    assert child.stdout is not None
    assert child.stdout.readline() == "ending\n"
    while not descendants.is_ending(child.pid):
        assert child.poll() is None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not descendants.is_ending(child.pid), "it waits to be buried, and has nothing left"
    child.wait()
    assert not descendants.is_ending(child.pid)
