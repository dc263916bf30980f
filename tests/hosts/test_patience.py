"""Waiting for others, by the time in which they could be heard."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest

from cellwright.patience import Countdown, patience

pytestmark = pytest.mark.anyio


async def test_what_does_not_come_is_given_up() -> None:
    with patience(0.1) as waiting:
        await anyio.sleep_forever()
    assert waiting.cancelled_caught


async def test_what_comes_is_not_cut_off() -> None:
    with patience(60) as waiting:
        await anyio.lowlevel.checkpoint()
    assert not waiting.cancelled_caught


async def test_what_comes_after_a_standstill_is_heard() -> None:
    with patience(1) as waiting:
        _stand_still(1.5)
        # What lay there is read in the turns that follow.
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
    assert not waiting.cancelled_caught


async def test_a_standstill_does_not_end_a_countdown_and_its_time_does() -> None:
    over = anyio.Event()
    Countdown(1, over.set)
    _stand_still(1.5)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert not over.is_set()
    with anyio.fail_after(60):
        await over.wait()


def _stand_still(seconds: float) -> None:
    """Nothing else happens in this loop meanwhile."""
    threading.Event().wait(seconds)
