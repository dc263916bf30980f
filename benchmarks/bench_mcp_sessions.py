"""Many agents at once: 20 clients with five sessions each, all driven side by side.

Every client is a ``cellwright mcp`` process with the official client on its stdio, and all share one daemon, as the
agents of one user do. Each session is created, runs a few cells of its own numbers one after the other, and waits until
all sessions stand; then it runs one more and is deleted. A refusal, a failed cell and somebody else's answer are errors.

jupyter-mcp-server has one activated notebook for each server, so there is nothing to hold it beside.
"""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
from mcp import Client, MCPError

from measuring import Bench, main, milliseconds
from peers import CallFailed, open_ours, text_of
from peers_tools import OurAgent

CELLS = 5


@dataclass(slots=True)
class Tally:
    """What came of one run."""

    sessions: int
    standing: int = 0
    all_stand: anyio.Event = field(default_factory=anyio.Event)
    errors: list[str] = field(default_factory=list)
    call_s: list[float] = field(default_factory=list)

    def stands(self) -> None:
        """A session is there, or will never be: the others need not wait for it."""
        self.standing += 1
        if self.standing == self.sessions:
            self.all_stand.set()


async def measure(bench: Bench) -> None:
    clients, each = bench.size(20, 4), bench.size(5, 2)
    tally = Tally(clients * each)
    async with (
        open_ours(bench.directory / "ours", max_sessions=tally.sessions) as ours,
        AsyncExitStack() as stack,
    ):
        connected = [await stack.enter_async_context(ours.connect()) for _ in range(clients)]
        bench.say(f"{clients} clients are connected")
        begun = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for number in range(tally.sessions):
                tasks.start_soon(_drive, connected[number % clients], number, tally)
        seconds = time.perf_counter() - begun
    for error in tally.errors[:10]:
        bench.say(f"error: {error}")
    calls = tally.sessions * (CELLS + 3)
    bench.claim(
        f"{tally.sessions} sessions driven at once by {clients} clients",
        f"{len(tally.errors)} errors",
        target="0 errors",
        passed=not tally.errors,
    )
    bench.inform(f"all of it, {calls} calls", milliseconds(seconds))
    bench.inform("median of a cell among them", milliseconds(statistics.median(tally.call_s)))


async def _drive(client: Client, number: int, tally: Tally) -> None:
    agent = OurAgent(client)
    stood = False
    try:
        await agent.create(f"session{number}")
        await _run(agent, f"total = {number}\ntotal", str(number), tally)
        for step in range(1, CELLS):
            await _run(agent, f"total += {step}\ntotal", str(number + step * (step + 1) // 2), tally)
        stood = True
        tally.stands()
        await tally.all_stand.wait()
        await _run(agent, "total", str(number + CELLS * (CELLS - 1) // 2), tally)
        await agent.end()
    except (CallFailed, MCPError, TimeoutError) as error:
        tally.errors.append(f"session {number}: {type(error).__name__}: {error}")
        if not stood:
            tally.stands()


async def _run(agent: OurAgent, code: str, expected: str, tally: Tally) -> None:
    begun = time.perf_counter()
    result = await agent.add_and_run(code)
    tally.call_s.append(time.perf_counter() - begun)
    lines = text_of(result).splitlines()
    if f"session {agent.session_id}" not in lines[0] or expected not in lines[1:]:
        raise CallFailed(f"expected {expected}, got {lines}")


if __name__ == "__main__":
    main(measure, __doc__)
