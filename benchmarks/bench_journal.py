"""What it costs that an acknowledged change is on the disk (``synchronous=FULL``), and what a cell would pay for that.

A lasting transaction is synced before it is answered; any other is written, and synced within a second. Both go
through one journal in turns, so that the disk of the moment meets them alike. Twenty writers wait each for their own
answer before they write again, and what waits meanwhile is one commit, as in a daemon with twenty clients.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from cellwright import Session, open_engine
from cellwright.engine.journal import Event, Journal, insert_event
from measuring import Bench, alternate, main, milliseconds

WRITERS = 20
SOURCE = "x" * 500  # of a cell of ordinary length


async def measure(bench: Bench) -> None:
    journal = Journal(bench.directory / "bench.db")
    written, synced = partial(_write, journal, lasting=False), partial(_write, journal, lasting=True)
    try:
        await _measure_latency(bench, written, synced)
        await _measure_throughput(bench, written, synced)
    finally:
        await journal.close()
    async with open_engine(bench.settings(), ephemeral=True) as engine:
        session = await engine.create("a cell")
        await _measure_cell(bench, session)


async def _write(journal: Journal, *, lasting: bool) -> None:
    event = Event(
        journal.next_seq(), time.time(), "notebook.state.changed", "s-bench", 1, data={"source": SOURCE}
    )
    await journal.write([insert_event(event)], lasting=lasting)


async def _measure_latency(
    bench: Bench, written: Callable[[], Awaitable[None]], synced: Callable[[], Awaitable[None]]
) -> None:
    contenders = {"written": partial(_timed, written), "synced": partial(_timed, synced)}
    times = await alternate(bench.size(300, 20), contenders)
    _inform(bench, "one change, to its answer", times["synced"], times["written"])


async def _measure_throughput(
    bench: Bench, written: Callable[[], Awaitable[None]], synced: Callable[[], Awaitable[None]]
) -> None:
    each = bench.size(50, 5)
    contenders = {"written": partial(_crowd, written, each), "synced": partial(_crowd, synced, each)}
    times = await alternate(bench.size(7, 2), contenders)
    rates = {name: WRITERS * each / statistics.median(values) for name, values in times.items()}
    bench.inform(
        f"changes a second, {WRITERS} writers",
        f"{rates['synced']:,.0f}",
        f"{rates['written']:,.0f}",
        f"{rates['synced'] / rates['written']:.2f}x",
    )


async def _measure_cell(bench: Bench, session: Session) -> None:
    cell = await session.add_cell("1 + 1")
    journal = session.context.services.recorder.journal  # what its own commits go through

    async def as_it_is() -> None:
        await session.run(cell.id)

    async def with_both_ends_synced() -> None:
        await _write(journal, lasting=True)
        await session.run(cell.id)
        await _write(journal, lasting=True)

    contenders = {"as it is": partial(_timed, as_it_is), "synced": partial(_timed, with_both_ends_synced)}
    times = await alternate(bench.size(150, 5), contenders)
    _inform(bench, "a cell, were its beginning and end synced", times["synced"], times["as it is"])


def _inform(bench: Bench, what: str, synced_s: list[float], written_s: list[float]) -> None:
    synced, written = statistics.median(synced_s), statistics.median(written_s)
    bench.inform(what, milliseconds(synced), milliseconds(written), f"{synced / written:.2f}x")


async def _timed(act: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await act()
    return time.perf_counter() - begun


async def _crowd(act: Callable[[], Awaitable[None]], each: int) -> float:
    async def writer() -> None:
        for _ in range(each):
            await act()

    begun = time.perf_counter()
    async with anyio.create_task_group() as writers:
        for _ in range(WRITERS):
            writers.start_soon(writer)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(measure, __doc__)
