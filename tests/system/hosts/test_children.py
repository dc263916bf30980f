"""Child processes that are ended while somebody waits for them."""

from __future__ import annotations

import signal
import sys

import anyio
import pytest

from cellwright import children
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio
RUNS = [sys.executable, "-c", "import time; time.sleep(600)"]
ENDS = [sys.executable, "-c", "import os, sys; sys.stdin.read(); os._exit(7)"]


async def test_one_that_runs_is_ended() -> None:
    assert await children.end(await anyio.open_process(RUNS)) == -signal.SIGKILL


async def test_one_that_ends_by_itself_keeps_its_code() -> None:
    child = await anyio.open_process(ENDS)
    assert child.stdin is not None
    await child.stdin.aclose()
    assert await children.end(child, grace_s=LIMIT_S) == 7


async def test_whoever_waits_is_told_the_code_whenever_another_kills() -> None:
    # All the moments between its end and the loop's hearing of it: by asyncio's own kill some of these are 255.
    codes: set[int] = set()
    for _ in range(40):
        child = await anyio.open_process(ENDS)
        assert child.stdin is not None
        await child.stdin.aclose()
        while child.returncode is None:
            children.kill(child)
            await anyio.lowlevel.checkpoint()
        codes.add(await child.wait())
    assert codes <= {7, -signal.SIGKILL}


async def test_one_that_is_gone_is_left_alone() -> None:
    child = await anyio.open_process(ENDS)
    assert child.stdin is not None
    await child.stdin.aclose()
    assert await child.wait() == 7
    children.kill(child)
    assert await children.end(child) == 7
