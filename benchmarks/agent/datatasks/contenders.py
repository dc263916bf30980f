"""Three ways to run the same cells: our kernels, ipykernel by jupyter_client, and plain Python. Judges nothing.

Each begins with nothing (a session, a kernel, a process) and each cell is looked at after it ran, by the same code.
Seconds are those from asking for a kernel to the end of the last cell, without the looking and without the ending.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from baselines import start_plain_kernel
from cellwright import Engine, Session

__all__ = ["CELL_LIMIT_S", "Cell", "Ran", "Runner", "ipykernel", "ours", "plain_python"]

CELL_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Cell:
    """Code, and the code that looks at what it left."""

    code: str
    probe: str


@dataclass(frozen=True, slots=True)
class Ran:
    """What a cell came to."""

    failure: str | None
    """The last line of what it raised."""
    said: str
    found: str


Result: TypeAlias = tuple[float, list[Ran]]
Runner: TypeAlias = Callable[[Sequence[Cell], str, Path], Awaitable[Result]]
"""Cells, the code that defines the probe, and a directory to work in; gives seconds and what became of each."""


def ours(engine: Engine) -> Runner:
    """A session of an open engine for each task, its cells in a notebook."""

    async def run(cells: Sequence[Cell], setup: str, directory: Path) -> Result:
        begun = time.perf_counter()
        session = await engine.create("task", directory=directory)
        seconds = time.perf_counter() - begun
        try:
            await _look(session, setup)
            told = []
            for cell in cells:
                begun = time.perf_counter()
                added = await session.add_cell(cell.code)
                execution = await session.run(added.id, timeout_s=CELL_LIMIT_S)
                seconds += time.perf_counter() - begun
                found = await _look(session, cell.probe)
                failure = None if execution.ok else execution.reason or _raised(execution.error)
                told.append(Ran(failure, execution.text, found))
            return seconds, told
        finally:
            with anyio.CancelScope(shield=True):
                await engine.delete(session.id, remove_file=True)

    return run


async def _look(session: Session, code: str) -> str:
    return (await (await session.execute_code(code, numbered=False)).wait()).text


def _raised(error: dict[str, Any] | None) -> str:
    return f"{error['ename']}: {error['evalue']}" if error else "failed"


async def ipykernel(cells: Sequence[Cell], setup: str, directory: Path) -> Result:
    """A kernel of its own for each task, started as jupyter_client starts them."""
    begun = time.perf_counter()
    kernel = await start_plain_kernel(cwd=directory)
    seconds = time.perf_counter() - begun
    try:
        await kernel.run(setup)
        told = []
        for cell in cells:
            begun = time.perf_counter()
            outputs = await kernel.run(cell.code, timeout_s=CELL_LIMIT_S)
            seconds += time.perf_counter() - begun
            found = await kernel.run(cell.probe)
            errors = [one["content"] for one in outputs if one["msg_type"] == "error"]
            failure = _raised(errors[0]) if errors else None
            told.append(Ran(failure, _streams(outputs), _streams(found)))
        return seconds, told
    finally:
        with anyio.CancelScope(shield=True):
            await kernel.stop()


def _streams(outputs: Sequence[dict[str, Any]]) -> str:
    return "".join(one["content"]["text"] for one in outputs if one["msg_type"] == "stream")


async def plain_python(cells: Sequence[Cell], setup: str, directory: Path) -> Result:
    """One process of this interpreter for each task."""
    wanted = {"setup": setup, "cells": [[cell.code, cell.probe] for cell in cells]}
    script = Path(__file__).with_name("plain.py")
    begun = time.perf_counter()
    with anyio.move_on_after(CELL_LIMIT_S * max(1, len(cells))):
        done = await anyio.run_process(
            [sys.executable, str(script)],
            input=json.dumps(wanted).encode(),
            cwd=directory,
            env={**os.environ, "MPLBACKEND": "Agg"},
            check=False,
        )
        seconds = time.perf_counter() - begun
        if done.returncode == 0:
            answer = json.loads(done.stdout)
            return seconds - answer["looking_s"], [Ran(**one) for one in answer["cells"]]
        failure = f"the process ended with {done.returncode}"
        return seconds, [Ran(failure, "", "") for _ in cells]
    return time.perf_counter() - begun, [Ran("timed out", "", "") for _ in cells]
