"""Everything that can end an allocation, or come between it and us, on a real cluster: noticed, named, and no line lost.

A loop prints numbered lines and writes each to a file before; what was told in the end must be all that the file has.
Times are those of the documentation: what is not noticed by then is a failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from cellwright.errors import HostLost, HostUnreachable
from cellwright.hosts import protocol
from cellwright.hosts._event_log import read_events
from cellwright.slurm._shapes import Shape
from tests.support.slurm.cluster import Cluster
from tests.support.slurm.layout import SLURMD_TIMEOUT_S
from tests.support.slurm.lent import Attached, Lender, Lent, printed
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

LINES = 60
SMALL = Shape(cpus=2, memory="1000M", time="10")
# A guard: how soon an end or a silence is told is in the guide, and follows from the timers that it names.
TOLD_S = 60


@dataclass(slots=True)
class Loop:
    """A print loop on a kernel in an allocation."""

    lent: Lent
    host: Attached
    execution_id: str
    incarnation: str
    file: Path
    gate: Path

    def go_on(self) -> None:
        self.gate.touch()

    def written(self) -> list[str]:
        """What it has printed, by its own account."""
        return self.file.read_text().split()

    def told(self) -> list[str]:
        """What was told of it: to us, and in the journal that the host left."""
        events = {event.seq: event for event in self.host.events}
        events |= {event.seq: event for event in read_events(self.lent.way.paths.journal(self.incarnation))}
        return printed([events[seq] for seq in sorted(events)], self.execution_id).split()

    def all_was_told(self) -> None:
        written, told = self.written(), self.told()
        # The last line may have been written and not printed when it was cut off.
        assert told in (written, written[:-1])
        assert len(told) >= 3


@asynccontextmanager
async def looping(lent: Lent) -> AsyncIterator[Loop]:
    """It waits after its first lines, so that it runs whenever the test comes to what happens to it."""
    async with lent.attached() as host:
        await host.start("k")
        file, gate = Path(host.cwd) / "lines", Path(host.cwd) / "gate"
        code = f"""
import pathlib, time
with open({str(file)!r}, 'w', buffering=1) as file:
    for number in range({LINES}):
        print(number, file=file)
        print(number, flush=True)
        while number == 9 and not pathlib.Path({str(gate)!r}).exists():
            time.sleep(0.01)
        time.sleep(0.1)
"""
        execution_id = await host.submit("k", code, timeout_s=600)
        await host.printed_at_least(execution_id, 10)
        yield Loop(lent, host, execution_id, lent.about["incarnation"], file, gate)


async def gone(loop: Loop, limit_s: float = TOLD_S) -> str:
    """Why the allocation is gone, once that is certain."""
    with fail_after(limit_s):
        while (why := await loop.lent.way.end()) is None:
            await anyio.sleep(0.05)
    with pytest.raises(HostLost):
        await loop.lent.way.connect()
    return why


async def silent(host: Attached, limit_s: float = TOLD_S) -> None:
    """Wait until a sign of life does not come, as an engine's link does."""
    with fail_after(limit_s):
        while not host.connection.lost.is_set():
            await anyio.sleep(2)
            with anyio.move_on_after(6) as late:
                try:
                    await host.call(protocol.Ping(), type(None))
                except HostLost:
                    return
            if late.cancelled_caught:
                return


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_cancelled(lend: Lender) -> None:
    async with looping(await lend(SMALL)) as loop:
        loop.go_on()
        loop.lent.cluster.run("scancel", loop.lent.job_id)
        assert "it was cancelled" in await gone(loop)
        loop.all_was_told()


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_preempted(lend: Lender) -> None:
    async with looping(await lend(Shape(time="10", extra=("--exclusive",)))) as loop:
        node = loop.lent.about["node"]
        loop.lent.cluster.submit(
            "sleep 60", "--partition=high", f"--nodelist={node}", "--exclusive", "--time=2"
        )
        loop.go_on()
        assert "it was preempted" in await gone(loop)
        loop.all_was_told()


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_time_limit(lend: Lender) -> None:
    lent = await lend(SMALL)
    async with looping(lent) as loop:
        lent.cluster.run("scontrol", "update", f"JobId={lent.job_id}", "TimeLimit=1")
        # SLURM keeps limits by the minute, and lets jobs have a little more.
        assert "it reached its time limit" in await gone(loop, 3 * TOLD_S)
        loop.all_was_told()
        ends = [
            event.body
            for event in read_events(lent.way.paths.journal(loop.incarnation))
            if isinstance(event.body, protocol.Finished)
        ]
        assert "reached its time limit" in str(ends[0].reason)


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_one_kernel_out_of_memory(lend: Lender) -> None:
    async with looping(await lend(SMALL)) as loop:
        await loop.host.start("greedy")
        loop.go_on()
        execution_id = await loop.host.submit("greedy", "x = bytearray(3000 << 20)")
        end = await loop.host.finished(execution_id)
        assert end.state == "died"
        assert "memory" in str(end.reason)
        assert (await loop.host.finished(loop.execution_id)).state == "ok"
        assert loop.told() == [str(number) for number in range(LINES)]


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_slurmd_killed_and_back(lend: Lender, mended: Cluster) -> None:
    async with looping(await lend(SMALL)) as loop:
        node = loop.lent.about["node"]
        mended.kill_slurmd(node)
        loop.go_on()
        # The connection is srun's and the step's own: nothing is noticed, and nothing is wrong.
        assert (await loop.host.finished(loop.execution_id)).state == "ok"
        assert loop.told() == [str(number) for number in range(LINES)]
        mended.start_slurmd(node)
        assert await loop.lent.way.end() is None


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_slurmd_killed_for_good(lend: Lender, mended: Cluster) -> None:
    async with looping(await lend(SMALL)) as loop:
        mended.kill_slurmd(loop.lent.about["node"])
        # After SlurmdTimeout, mostly 300 s, SLURM gives the node up.
        assert "its node failed" in await gone(loop, SLURMD_TIMEOUT_S + 2 * TOLD_S)
        assert loop.told()[:3] == ["0", "1", "2"]


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_network_cut_and_healed(lend: Lender, mended: Cluster) -> None:
    lent = await lend(SMALL)
    async with looping(lent) as loop:
        node = lent.about["node"]
        mended.cut(node)
        # What it says from now on is heard by those who come back alone.
        loop.go_on()
        await silent(loop.host)
        assert await lent.way.end() is None
        mended.heal(node)
        taken = list(loop.host.events)
        with fail_after(60):
            while True:
                try:
                    async with lent.attached(since=taken[-1].seq) as again:
                        await again.finished(loop.execution_id)
                        loop.host.events += again.events
                        break
                except HostUnreachable:
                    await anyio.sleep(0.5)
        assert loop.told() == [str(number) for number in range(LINES)]


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_controller_restarted(lend: Lender, mended: Cluster) -> None:
    async with looping(await lend(SMALL)) as loop:
        mended.stop_controller()
        # Nobody can say how it stands, which is not an end.
        assert await loop.lent.way.end() is None
        assert loop.lent.allocations.stale_since is not None
        loop.go_on()
        mended.start_controller()
        assert await loop.lent.way.end() is None
        assert (await loop.host.finished(loop.execution_id)).state == "ok"
        assert loop.told() == [str(number) for number in range(LINES)]
        await loop.host.start("after")


async def test_kernels_start_while_the_controller_is_away_only_where_a_step_is_warm(
    lend: Lender, mended: Cluster
) -> None:
    async with looping(await lend(SMALL)) as loop:
        mended.stop_controller()
        with anyio.move_on_after(5) as waiting:
            await loop.host.start("late")
        assert waiting.cancelled_caught
        loop.go_on()
        mended.start_controller()
        assert (await loop.host.finished(loop.execution_id)).state == "ok"


LOGIN_SIDE = """
import sys
sys.path[:0] = {path!r}
import anyio
from pathlib import Path
from cellwright.slurm._allocations import AllocationOptions, Allocations
from cellwright.slurm.commands import SlurmCommands
from tests.support.slurm.cluster import Cluster
from tests.support.slurm.lent import Lender
import os

async def main():
    allocations = Allocations(Path({directory!r}), SlurmCommands(dict(os.environ), os.getuid()), AllocationOptions(sys.executable))
    await allocations.load()
    lent = Lender(None, Path()).again(allocations, allocations.find({key!r}))
    async with lent.attached() as host:
        await host.start("k")
        execution_id = await host.submit("k", {code!r})
        await host.printed_at_least(execution_id, 3)
        print(execution_id, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.matrix  # `test_survival` has the same fault, seen by the engine
async def test_login_side_killed(lend: Lender) -> None:
    lent = await lend(SMALL)
    await (await lent.connect()).close()
    script = LOGIN_SIDE.format(
        path=[entry for entry in sys.path if entry],
        directory=str(Path(lent.allocation.directory).parent),
        key=lent.allocation.key,
        code=f"import time\nfor n in range({LINES}):\n    print(n, flush=True)\n    time.sleep(0.1)",
    )
    process = await anyio.open_process([sys.executable, "-c", script], stderr=subprocess.PIPE)
    assert process.stdout is not None
    with fail_after():
        execution_id = (await process.stdout.receive()).decode().strip()
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    await process.aclose()
    async with lent.attached() as host:
        assert (await host.finished(execution_id)).state == "ok"
        assert host.printed(execution_id).split() == [str(number) for number in range(LINES)]
        # What carried for the dead one is gone too.
        await lent.steps_become("attach", "kernel")
