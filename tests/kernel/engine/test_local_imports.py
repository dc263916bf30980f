"""A session on this machine loads nothing of other kinds of hosts, neither here nor in the host process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import LIMIT_S

_LOADED = """
print(*sorted(name for name in sys.modules if name.startswith(("cellwright.slurm", "cellwright.jupyter"))))
"""
_PROGRAM = """
import asyncio, sys
from pathlib import Path
from cellwright import Settings, open_engine

async def main():
    settings = Settings(storage=Path(sys.argv[1], "state"), root=Path(sys.argv[1]))
    async with open_engine(settings, ephemeral=True) as engine:
        session = await engine.create("local")
        cell = await session.add_cell("40 + 2")
        assert (await session.run(cell.id)).text.strip() == "42"

asyncio.run(main())
"""


def test_a_local_session_loads_neither_slurm_nor_jupyter(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM + _LOADED, str(tmp_path)]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert found.stdout.strip() == ""


def test_the_host_process_loads_neither() -> None:
    program = f"import sys, cellwright.hosts.__main__{_LOADED}"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert found.stdout.strip() == ""
