"""Ten thousand messages from one cell, below the cap on output: does every one arrive, every time?

A run counts when the journal holds each of the messages once, in order, the execution ended well, and nothing was
said to be dropped. Each run has a session of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cellwright import Engine, open_engine
from measuring import Bench, main, milliseconds


@dataclass(frozen=True, slots=True)
class Flood:
    """A cell that says one thing many times, and how to read it back."""

    what: str
    code: str
    number: Callable[[dict[str, Any]], str]
    expected: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Tally:
    """What came of one run."""

    whole: bool
    messages: int
    seconds: float


FLOODS = (
    Flood(
        "flushed prints",
        "for number in range({count}):\n    print(number, flush=True)",
        lambda content: content["text"],
        "{}\n".format,
    ),
    Flood(
        "display calls",
        "for number in range({count}):\n    display(number)",
        lambda content: content["data"]["text/plain"],
        str,
    ),
)


async def measure(bench: Bench) -> None:
    count, runs = bench.size(10_000, 1_000), bench.size(10, 2)
    async with open_engine(bench.settings(cell_timeout_s=300), ephemeral=True) as engine:
        for flood in FLOODS:
            tallies = [await _run(engine, flood, count) for _ in range(runs)]
            whole = sum(tally.whole for tally in tallies)
            bench.claim(
                f"{count:,} {flood.what}: runs in which all arrived",
                f"{whole} of {runs}",
                target=f"{runs} of {runs}",
                passed=whole == runs,
            )
            messages = min(tally.messages for tally in tallies)
            seconds = statistics.median(tally.seconds for tally in tallies)
            bench.say(f"at least {messages:,} messages a run, {milliseconds(seconds)} until journalled")


async def _run(engine: Engine, flood: Flood, count: int) -> Tally:
    session = await engine.create(flood.what)
    begun = time.perf_counter()
    execution = await (await session.execute_code(flood.code.format(count=count))).wait()
    seconds = time.perf_counter() - begun
    events = engine.events(since=0, session_id=session.id, limit=10 * count)
    contents = [event.data["content"] for event in events if event.kind == "notebook.cell.output"]
    whole = execution.ok and execution.record.dropped_messages == 0 and _all_said(flood, contents, count)
    await engine.delete(session.id, remove_file=True)
    return Tally(whole, len(contents), seconds)


def _all_said(flood: Flood, contents: list[dict[str, Any]], count: int) -> bool:
    """Whether everything is there, once and in order; the kernel may put two prints into one message."""
    said = "".join(flood.number(content) for content in contents)
    return said == "".join(flood.expected(number) for number in range(count))


if __name__ == "__main__":
    main(measure, __doc__)
