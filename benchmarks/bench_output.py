"""A cell that prints 100 MB: what it costs the engine, and whether the truth about it is told.

The engine lives in this process. Its memory is the peak resident size while the cell runs, over what it was before;
a ticker in its event loop records the longest time in which the loop did nothing for anybody else. The host is asked
for its status all the while: the slowest answer bounds how long its loop stalled. A process that only ticks beside them
tells how much of a stall is the machine's: it waits for a processor, and for nothing else. Bytes are told exactly when those
kept in the outputs and those said to be dropped add up to those printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from cellwright import Execution, Session, open_engine
from cellwright.hosts import HostConnection, HostPaths, connect_or_start, protocol
from measuring import MB, Bench, host_pid, main, milliseconds, quiet

TICK_S = 0.002
MAX_GROWTH_BYTES = 20 * MB
MAX_STALL_S = 0.05
LINE_BYTES = 100
BLOCK_BYTES = MB
MARKER = re.compile(r"\n\[cellwright: ([\d,]+) bytes in [\d,]+ writes dropped here; [^\]]+\]\n")


ONLY_TICKS = """
import select, sys, time
tick, longest, last = float(sys.argv[1]), 0.0, time.perf_counter()
while not select.select([sys.stdin], [], [], tick)[0]:
    now = time.perf_counter()
    longest, last = max(longest, now - last - tick), now
print(longest)
"""


@dataclass(slots=True)
class Watch:
    """The worst that was seen while a cell ran."""

    stall_s: float = 0.0
    answer_s: float = 0.0
    machine_s: float = 0.0


async def measure(bench: Bench) -> None:
    size = bench.size(100 * MB, 5 * MB)
    async with open_engine(bench.settings(cell_timeout_s=300), ephemeral=True) as engine:
        session = await engine.create("output")
        host = host_pid(engine)
        # What the first large output allocates for good is the engine's size, not this cell's doing.
        await _print(session, 2 * MB, BLOCK_BYTES)
        async with _second_connection(HostPaths(engine.settings.storage)) as connection:
            for what, piece in (("lines", LINE_BYTES), ("blocks of 1 MB", BLOCK_BYTES)):
                await quiet(host)
                print_it = partial(_print, session, size, piece)
                await _measure_print(bench, f"{size // MB} MB in {what}", print_it, size, host, connection)


async def _measure_print(
    bench: Bench, what: str, print_it: partial, size: int, host: int, connection: HostConnection
) -> None:
    before, host_before = _restart_peak(os.getpid()), _restart_peak(host)
    async with _watched(connection) as watch:
        execution = await print_it()
    grown, host_grown = _peak_bytes(os.getpid()) - before, _peak_bytes(host) - host_before
    bench.say(f"{what}: the cell took {execution.seconds:.2f} s")
    limit = f"< {MAX_GROWTH_BYTES // MB} MB"
    bench.claim(
        f"{what}: engine memory",
        f"+{grown / MB:.1f} MB",
        target=limit,
        passed=grown < MAX_GROWTH_BYTES,
    )
    bench.inform(f"{what}: host memory", f"+{host_grown / MB:.1f} MB")
    bench.claim(
        f"{what}: engine's longest stall",
        milliseconds(watch.stall_s),
        target=f"<= {milliseconds(MAX_STALL_S)}",
        passed=watch.stall_s <= MAX_STALL_S,
    )
    bench.inform(f"{what}: host's slowest answer", milliseconds(watch.answer_s))
    bench.inform(f"{what}: longest stall of a process that only ticks", milliseconds(watch.machine_s))
    _check_told(bench, what, execution, size)


def _check_told(bench: Bench, what: str, execution: Execution, size: int) -> None:
    marked = sum(int(number.replace(",", "")) for number in MARKER.findall(execution.text))
    kept = len(MARKER.sub("", execution.text).encode())
    dropped = execution.record.dropped_bytes
    told = f"{kept:,} + {dropped:,}"
    bench.claim(
        f"{what}: kept + dropped bytes",
        told,
        target=f"= {size:,}",
        passed=execution.ok and kept + dropped == size and marked == dropped,
    )


async def _print(session: Session, size: int, piece: int) -> Execution:
    code = f"line = 'x' * {piece - 1}\nfor _ in range({size // piece}):\n    print(line)"
    return await (await session.execute_code(code)).wait()


@asynccontextmanager
async def _watched(connection: HostConnection) -> AsyncIterator[Watch]:
    watch = Watch()
    with _ticking() as machine:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_tick, watch)
            tasks.start_soon(_ask, watch, connection)
            yield watch
            tasks.cancel_scope.cancel()
    watch.machine_s = machine[0]


@contextmanager
def _ticking() -> Iterator[list[float]]:
    """A process that does nothing but tick: what it waits, it waits for a processor. Its longest stall, afterwards."""
    longest: list[float] = []
    command = [sys.executable, "-S", "-c", ONLY_TICKS, str(TICK_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield longest
        finally:
            told, _ = process.communicate()
    longest.append(float(told))


async def _tick(watch: Watch) -> None:
    last = time.perf_counter()
    while True:
        await anyio.sleep(TICK_S)
        now = time.perf_counter()
        watch.stall_s = max(watch.stall_s, now - last - TICK_S)
        last = now


async def _ask(watch: Watch, connection: HostConnection) -> None:
    while True:
        begun = time.perf_counter()
        await connection.call(protocol.Ping(), type(None))
        watch.answer_s = max(watch.answer_s, time.perf_counter() - begun)
        await anyio.sleep(TICK_S)


@asynccontextmanager
async def _second_connection(paths: HostPaths) -> AsyncIterator[HostConnection]:
    """A connection beside the engine's own: it asks, and never attaches."""
    connection = await connect_or_start(paths)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.read, lambda _: None)
        try:
            yield connection
        finally:
            await connection.close()


def _restart_peak(pid: int) -> int:
    """Let the kernel count the peak of the resident size anew; return what it is now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _status_bytes(pid, "VmRSS")


def _peak_bytes(pid: int) -> int:
    return _status_bytes(pid, "VmHWM")


def _status_bytes(pid: int, key: str) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(measure, __doc__)
