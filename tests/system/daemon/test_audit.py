"""Processes that write one audit log and are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.audit import AuditLog, check, read_lines
from tests.waiting import LIMIT_S, wait_until

WRITER = """
import sys
from contextlib import closing
from pathlib import Path
from cellwright.audit import AuditLog
log = AuditLog(Path(sys.argv[1]), max_bytes=200_000)
while True:
    log.note("run", session="s-1", cell="x" * 400)
"""


@pytest.mark.parametrize("lines", [1, 30, 1_000])
def test_a_writer_that_is_killed_leaves_a_chain_that_goes_on(tmp_path: Path, lines: int) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command) for _ in range(2)]
    log = tmp_path / "audit" / "audit.jsonl"
    wait_until(lambda: _last_number(log) >= lines)
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(LIMIT_S)
    last = AuditLog(tmp_path)
    last.note("start")
    last.close()
    assert check(read_lines(tmp_path)).problem is None


def _last_number(log: Path) -> int:
    """The number of the newest whole line; 0 where there is none in this file."""
    try:
        whole = log.read_bytes().rpartition(b"\n")[0].splitlines()
    except FileNotFoundError:
        return 0
    return int(json.loads(whole[-1])["seq"]) if whole else 0
