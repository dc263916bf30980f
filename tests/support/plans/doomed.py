"""Runs a plan in an engine of its own and kills itself, as ``kill -9`` does, after so many changes of the plan.

Forked by test_survival, with the number of changes (0: not at all). Prints the session's id first.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio

from cellwright import Engine, Event, Settings, open_engine
from cellwright.plans import Check, Failure, Outline, Planner, Proposal, TodoOutline
from tests.waiting import scaled

OUTLINE = Outline(
    "survive",
    (
        TodoOutline("begin", "total = 1\nopen('log.txt', 'w').write('begin ')"),
        TodoOutline(
            "add to what is there",
            "total += 1\nwritten = open('log.txt', 'a').write('added ')\nprint('total', total)",
            (Check("expression", "total == 2"), Check("output", "total 2")),
            depends_on=(1,),
        ),
        TodoOutline(
            "fail first, then add",
            "total += 10\nwritten = open('log.txt', 'a').write('mended ')\nmisspelt\nprint(total)",
            (Check("expression", "total == 12"),),
        ),
        TodoOutline("end", "total * 2"),
    ),
    validation=TodoOutline(
        "each step was done once",
        "assert open('log.txt').read() == 'begin added mended ', open('log.txt').read()\nassert total == 12",
    ),
)


def mend(failure: Failure) -> Proposal | None:
    if "misspelt" not in failure.source:
        return None
    return Proposal("mend", "it is total", failure.source.replace("misspelt", "total"), certain=True)


def main(root: Path, changes: int) -> None:
    anyio.run(run, root, changes)


async def run(root: Path, changes: int) -> None:
    settings = Settings(
        root=root,
        storage=root / "state",
        standby_kernels=0,
        host_idle_s=30,
        max_sessions=100,
        cell_timeout_s=scaled(60),
    )
    async with open_engine(settings) as engine, anyio.create_task_group() as tasks:
        session = await engine.create(OUTLINE.problem, mode="private")
        print(session.id, flush=True)  # noqa: T201
        planner = Planner(engine, fixers=[mend])
        await planner.create(session, OUTLINE)
        tasks.start_soon(die_after, engine, changes)
        await anyio.lowlevel.checkpoint()
        await (await planner.start(session)).wait()
        tasks.cancel_scope.cancel()


async def die_after(engine: Engine, changes: int) -> None:
    with engine.subscribe() as events:
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.plan.changed":
                changes -= 1
                if changes == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
