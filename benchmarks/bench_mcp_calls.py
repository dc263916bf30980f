"""What an agent waits for: adding and running a cell, running a cell, creating a notebook.

Ours is ``cellwright mcp`` over stdio; the peer is jupyter-mcp-server in both of its modes. All are driven by the
official client, take turns, and have a notebook with a kernel of its own. A call is timed from sending it to holding
its result.

The overhead of ``cell_execute`` is its time without the execution's seconds as the reply states them: from handing the
code to the kernel to its being idle. The stricter figure, told beside the peer's, takes off only what the code itself
took by its own clock, so that it includes everything around it.

The peer's extension mode answers a create before the kernel is there, and the next call waits for it. What is claimed
against it is therefore a create with the first result.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

from mcp.types import CallToolResult

from measuring import Bench, alternate, main, milliseconds, quiet
from peers import Ours, open_ours, open_peer, peer_environment, text_of
from peers_tools import Agent, OurAgent, PeerAgent

OWN_CLOCK = """\
import time
begun = time.perf_counter()
time.sleep(0.02)
print(time.perf_counter() - begun)
"""
GROWTH_CELLS = 100
STANDBY = 2  # the setting's default
MODES = {"stdio": False, "extension": True}
_numbers = count(1)


async def measure(bench: Bench) -> None:
    peer_environment(bench.say)
    async with _contenders(bench) as (ours, agents):
        await _measure_create(bench, ours, agents)
        for agent in agents.values():
            await agent.create(f"calls{next(_numbers)}")
        await _measure_add_and_run(bench, agents)
        await _measure_overhead(bench, agents)
        for agent in agents.values():
            await agent.end()
        await _measure_growth(bench, agents)


@asynccontextmanager
async def _contenders(bench: Bench) -> AsyncIterator[tuple[Ours, dict[str, Agent]]]:
    """All three, started and connected."""
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(open_ours(bench.directory / "ours", max_cells=1_000))
        agents: dict[str, Agent] = {"ours": OurAgent(await stack.enter_async_context(ours.connect()))}
        for mode, extension in MODES.items():
            peer = await stack.enter_async_context(open_peer(bench.directory / mode, extension=extension))
            agents[mode] = PeerAgent(await stack.enter_async_context(peer.connect()), peer)
        yield ours, agents


# Creating a notebook -------------------------------------------------------------------------------------------------


async def _measure_create(bench: Bench, ours: Ours, agents: dict[str, Agent]) -> None:
    call_s, first_s = await _create_times(bench.size(15, 2), ours, agents)
    bench.faster("create a notebook, peer's stdio mode", call_s["ours"], call_s["stdio"], at_least=10)
    for mode in MODES:
        what = f"create and first result, peer's {mode} mode"
        bench.faster(what, first_s["ours"], first_s[mode], at_least=10)
    _inform(bench, "create, peer's extension mode (kernel not there yet)", call_s, "extension")


async def _create_times(
    rounds: int, ours: Ours, agents: dict[str, Agent]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """How long the call took, and how long until the first result, by contender."""
    created: dict[str, list[float]] = {name: [] for name in agents}

    async def create(name: str) -> float:
        agent = agents[name]
        if name == "ours":
            await _standing_by(ours)
        begun = time.perf_counter()
        await agent.create(f"create{next(_numbers)}")
        created[name].append(time.perf_counter() - begun)
        _check(await agent.add_and_run("1+1"), "2")
        seconds = time.perf_counter() - begun
        await agent.end()
        return seconds

    answered = await alternate(rounds, {name: partial(create, name) for name in agents})
    return {name: taken[1:] for name, taken in created.items()}, answered


async def _standing_by(ours: Ours) -> None:
    """Wait until the fork server is warm and its pool full, as it is when nobody has asked for a while."""
    await quiet(ours.host_pid, processes=2 + STANDBY)


# Running cells -------------------------------------------------------------------------------------------------------


async def _measure_add_and_run(bench: Bench, agents: dict[str, Agent]) -> None:
    async def add_and_run(agent: Agent) -> float:
        seconds, result = await _timed(partial(agent.add_and_run, "1+1"))
        _check(result, "2")
        return seconds

    times = await alternate(
        bench.size(40, 5), {name: partial(add_and_run, agent) for name, agent in agents.items()}
    )
    for mode, at_least in (("stdio", 20), ("extension", 5)):
        what = f"add and run 1+1, peer's {mode} mode"
        bench.faster(what, times["ours"], times[mode], at_least=at_least)


async def _measure_overhead(bench: Bench, agents: dict[str, Agent]) -> None:
    for agent in agents.values():
        await agent.add_and_run(OWN_CLOCK)
    over_recorded: list[float] = []
    ours = agents["ours"]
    assert isinstance(ours, OurAgent)

    async def overhead(name: str) -> float:
        seconds, result = await _timed(agents[name].run_again)
        if name == "ours":
            over_recorded.append(seconds - await ours.last_seconds())
        return seconds - _own_seconds(result)

    times = await alternate(bench.size(40, 5), {name: partial(overhead, name) for name in agents})
    median_s = statistics.median(over_recorded[1:])
    bench.claim(
        "cell_execute beyond the execution's own seconds",
        milliseconds(median_s),
        target="< 10 ms",
        passed=median_s < 0.010,
    )
    for mode in MODES:
        _inform(bench, f"running a cell beyond the code's own time, peer's {mode} mode", times, mode)


def _own_seconds(result: CallToolResult) -> float:
    """What the cell printed: its own time, on a line of its own."""
    for line in text_of(result).splitlines():
        try:
            return float(line)
        except ValueError:
            continue
    raise AssertionError(f"no time in {text_of(result)!r}")


async def _measure_growth(bench: Bench, agents: dict[str, Agent]) -> None:
    growth: dict[str, tuple[float, float]] = {}
    for name, agent in agents.items():
        if not (bench.quick and name == "stdio"):  # it takes a second for each cell
            # In quick succession and more than once, so that a neighbour's noise does not look like growth.
            growth[name] = await _growth(agent, passes=bench.size(8 if name == "ours" else 1, 2))
    first_s, last_s = growth["ours"]
    ratio = last_s / first_s
    bench.claim(
        f"cost per cell, last 10 of {GROWTH_CELLS} against the first 10",
        f"{milliseconds(first_s)} to {milliseconds(last_s)}",
        ratio=f"{ratio:.2f}x",
        target="<= 1.5x",
        passed=ratio <= 1.5,
    )
    for mode in (mode for mode in MODES if mode in growth):
        theirs_first_s, theirs_last_s = growth[mode]
        bench.inform(
            f"... peer's {mode} mode",
            "",
            f"{milliseconds(theirs_first_s)} to {milliseconds(theirs_last_s)}",
            f"{theirs_last_s / theirs_first_s:.2f}x",
        )


async def _growth(agent: Agent, *, passes: int) -> tuple[float, float]:
    """Medians of the first and of the last ten cells of a notebook."""
    first, last = [], []
    for _ in range(passes):
        await agent.create(f"growth{next(_numbers)}")
        _check(await agent.add_and_run("1+1"), "2")  # waits for the kernel where a create does not
        taken = [(await _timed(partial(agent.add_and_run, "1+1")))[0] for _ in range(GROWTH_CELLS)]
        first += taken[:10]
        last += taken[-10:]
        await agent.end()
    return statistics.median(first), statistics.median(last)


def _inform(bench: Bench, what: str, times: Mapping[str, list[float]], mode: str) -> None:
    ours_s, theirs_s = statistics.median(times["ours"]), statistics.median(times[mode])
    bench.inform(what, milliseconds(ours_s), milliseconds(theirs_s), f"{theirs_s / ours_s:.1f}x")


async def _timed(act: Callable[[], Awaitable[CallToolResult]]) -> tuple[float, CallToolResult]:
    begun = time.perf_counter()
    result = await act()
    return time.perf_counter() - begun, result


def _check(result: CallToolResult, expected: str) -> None:
    lines = text_of(result).splitlines()
    assert expected in lines, f"expected {expected!r} in {lines}"


if __name__ == "__main__":
    main(measure, __doc__)
