"""Patience runs out with time that passes, and not with time in which everything stood still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from cellwright import patience

Jump = Callable[[float], None]


def in_a_loop_of_its_own(test: Callable[[Jump], Awaitable[None]]) -> None:
    """Run something that can have the loop's clock go on while nothing else does, as at a standstill."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        real, ahead_s = loop.time, [0.0]
        loop.time = lambda: real() + ahead_s[0]  # type: ignore[method-assign]  # its clock is the only thing that is told

        def jump(seconds: float) -> None:
            ahead_s[0] += seconds

        await test(jump)

    anyio.run(run)


def test_a_standstill_is_not_counted() -> None:
    async def test(jump: Jump) -> None:
        with patience.fail_after(60):
            jump(1_000)
            for _ in range(10):
                await checkpoint()

    in_a_loop_of_its_own(test)


def test_what_passes_while_the_process_runs_is_counted() -> None:
    async def test(_: Jump) -> None:
        with patience.move_on_after(0.01) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError), patience.fail_after(0.01):
            await anyio.sleep_forever()

    in_a_loop_of_its_own(test)


def test_a_process_that_is_late_each_time_waits_not_for_ever() -> None:
    async def test(jump: Jump) -> None:
        with patience.move_on_after(60) as scope:
            while True:
                jump(1_000)
                await checkpoint()
        assert scope.cancelled_caught

    in_a_loop_of_its_own(test)


def test_what_is_called_off_is_not_called() -> None:
    async def test(jump: Jump) -> None:
        called: list[bool] = []
        patience.Countdown(0.001, lambda: called.append(True)).cancel()
        jump(1_000)
        for _ in range(10):
            await checkpoint()
        assert called == []

    in_a_loop_of_its_own(test)
