"""Shows the main job in a few seconds: a notebook made and run cell by cell, mistakes and crashes included.

Leaves one notebook in ``notebooks/`` that opens in JupyterLab and VS Code, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import anyio

from cellwright import Engine, Execution, Session, Settings, open_engine

T = TypeVar("T")
SALES = """import pandas as pd
sales = pd.DataFrame({"region": ["north", "south", "east", "west"], "units": [120, 95, 143, 88]})
sales"""
CHART = """sales.plot.bar(x="region", y="units", legend=False, title="Units by region");"""
MISTAKE = """sales["unit"].sum()"""
REPAIRED = """int(sales["units"].sum())"""
LOUD = """for number in range(200_000): print("line", number)"""
CRASH = """import os, signal
os.kill(os.getpid(), signal.SIGKILL)"""


async def main() -> None:
    settings = Settings(preload=("pandas", "matplotlib.pyplot"))
    async with open_engine(settings, ephemeral=True) as engine:
        session = await timed("A session with a live kernel", engine.create("Units sold by region"))
        for source in (SALES, CHART):
            await add_and_run(session, source)
        wrong = await add_and_run(session, MISTAKE)
        say("A failing cell is a value; the session goes on. The same cell, repaired:")
        await session.edit_cell(wrong.cell_id or "", REPAIRED)
        show(await session.run(wrong.cell_id or ""))
        say("A second session is quick: its kernel stood by, warm.")
        other = await timed("Another session", engine.create("Something else"))
        loud = await (await other.execute_code(LOUD)).wait()
        say(
            f"Two hundred thousand lines: {len(loud.text):,} characters kept, {loud.record.dropped_bytes:,} bytes dropped."
        )
        await crash(engine, session)
        await engine.delete(other.id, remove_file=True)
        await session.save()
        say(f"The notebook: {session.path.relative_to(Path.cwd())}")


async def crash(engine: Engine, session: Session) -> None:
    dead = await (await session.execute_code(CRASH)).wait()
    say(f"A kernel that dies says why: {dead.state}. {dead.reason}")
    again = await timed("Everything again in a new kernel", session.run_all())
    say(f"Generation {session.generation}: {', '.join(execution.state for execution in again)}.")
    history = await engine.history(session.id)
    say(f"The history has all {len(history)} runs: {', '.join(execution.state for execution in history)}.")


async def add_and_run(session: Session, source: str) -> Execution:
    cell = await session.add_cell(source)
    execution = await session.run(cell.id)
    show(execution)
    return execution


async def timed(what: str, work: Awaitable[T]) -> T:
    begun = time.perf_counter()
    result = await work
    say(f"{what}: {1000 * (time.perf_counter() - begun):.0f} ms")
    return result


def show(execution: Execution) -> None:
    print()
    for line in execution.record.source.splitlines():
        print(f"  > {line}")
    for output in execution.outputs:
        if "image/png" in output.get("data", {}):
            print("    [a picture]")
    for line in execution.text.splitlines():
        print(f"    {line}")
    print(f"    {execution.state}, {1000 * (execution.seconds or 0):.0f} ms")


def say(text: str) -> None:
    print(f"\n{text}")


anyio.run(main)
