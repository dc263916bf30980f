"""An engine that edits and saves until it is killed; ``test_survival`` forks it. Imports nothing that forks lack."""

from __future__ import annotations

import itertools
from pathlib import Path

import anyio

from cellwright import Settings, open_engine

__all__ = ["saves_forever"]


def saves_forever(root: Path) -> None:
    """Count up in a cell, and say what was edited and what saved, until it is killed."""
    anyio.run(_save_forever, root)


async def _save_forever(root: Path) -> None:
    settings = Settings(root=root, storage=root / "state", standby_kernels=0, save_quiet_s=0, host_idle_s=600)
    async with open_engine(settings) as engine:
        session = (engine.sessions() or [await engine.open(root / "kept.ipynb")])[0]
        first = int(session.cell("counter").source)
        print("ready", flush=True)  # noqa: T201
        for number in itertools.count(first + 1):
            await session.edit_cell("counter", str(number))
            print("edited", number, flush=True)  # noqa: T201
            await session.save()
            print("saved", number, flush=True)  # noqa: T201
