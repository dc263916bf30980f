"""Checkpoints of live kernels, and the kernels that go on from them."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.kernels.kernel import OutputLimits

pytestmark = pytest.mark.anyio
LIMITS = OutputLimits(1 << 20, 1000)


async def test_a_kernel_goes_on_from_a_checkpoint_with_everything_it_had(
    launch_on: Any, server: Any, run_cell: Any
) -> None:
    kernel = await launch_on(server)
    await run_cell(
        kernel, "x = [1, 2]; import random; random.seed(3); import logging; logging.basicConfig(force=True)"
    )
    frozen = await kernel.owner.freeze(kernel)
    expected = (await run_cell(kernel, "x.append(3); random.random()")).result
    await kernel.stop(grace_s=0)
    again = await kernel.owner.spawn(frozen, LIMITS)
    ran = await run_cell(again, "logging.warning('told'); print(x); random.random()")
    assert (ran.text(), ran.result) == ("[1, 2]\n", expected)
    assert "told" in ran.text("stderr")
    await kernel.owner.drop(frozen)
    await again.stop(grace_s=0)
