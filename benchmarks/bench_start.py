"""From asking for a session to its first result.

Ours is ``engine.create`` (a notebook file, a journalled session, a live kernel) and one execution of ``1+1`` up to
its journalled result, on an engine that is open. The baseline is ``AsyncKernelManager.start_kernel``, a client,
``wait_for_ready``, and ``1+1`` up to idle; it writes nothing. Ending the kernel is not counted on either side.
"""

from __future__ import annotations

import time

from baselines import start_plain_kernel
from cellwright import Engine, open_engine
from measuring import Bench, alternate, host_pid, main, quiet

STANDBY = 2


async def measure(bench: Bench) -> None:
    standing_by = bench.settings(standby_kernels=STANDBY)
    none_standing_by = bench.settings(standby_kernels=0)
    async with (
        open_engine(standing_by, ephemeral=True) as pooled,
        open_engine(none_standing_by, ephemeral=True) as bare,
    ):
        for engine in (pooled, bare):
            await _ready(engine)
        times = await alternate(
            bench.size(15, 3),
            {
                "standby": lambda: _first_result(pooled, "standby"),
                "fork": lambda: _first_result(bare, "fork"),
                "cold": _cold_first_result,
            },
        )
    bench.faster("first result, kernel from the standby pool", times["standby"], times["cold"], at_least=10)
    bench.faster("first result, pool miss (fork)", times["fork"], times["cold"], at_least=5)


async def _first_result(engine: Engine, expected_start: str) -> float:
    begun = time.perf_counter()
    session = await engine.create("first result")
    execution = await (await session.execute_code("1+1")).wait()
    seconds = time.perf_counter() - begun
    assert execution.text == "2\n", execution.text
    events = engine.events(since=0, session_id=session.id)
    started_by = [event.data["started_by"] for event in events if "started_by" in event.data]
    assert started_by == [expected_start], f"the kernel was started by {started_by}, not {expected_start}"
    await engine.delete(session.id, remove_file=True)
    await _ready(engine)
    return seconds


async def _ready(engine: Engine) -> None:
    """Wait until the fork server is warm and its pool full."""
    await quiet(host_pid(engine), processes=2 + engine.settings.standby_kernels)


async def _cold_first_result() -> float:
    begun = time.perf_counter()
    kernel = await start_plain_kernel()
    try:
        outputs = await kernel.run("1+1")
        seconds = time.perf_counter() - begun
    finally:
        await kernel.stop()
    assert [output["content"]["data"]["text/plain"] for output in outputs] == ["2"]
    return seconds


if __name__ == "__main__":
    main(measure, __doc__)
