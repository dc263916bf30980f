"""Processes known by a mark in their environment, which whatever they start inherits: found and ended, orphans too."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.waiting import LIMIT_S, wait_until


def marked(name: str, value: str) -> Iterator[int]:
    """The processes that have this variable in their environment."""
    wanted = f"{name}={value}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def kill_and_wait(pid: int) -> None:
    """Kill -9 a process, if it is still there, and wait for its end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        # Readable once it has ended, reaped or not.
        select.select([handle], [], [], LIMIT_S)
    finally:
        os.close(handle)


def wait_until_buried(pid: int) -> bool:
    """Wait until a process that has ended has no number any more, which is its parent's to see to.

    An orphan's parent may be a first process that looks around only now and then; until then whoever asks by number
    whether it lives is told so.
    """
    with suppress(TimeoutError):
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        return True
    return False
