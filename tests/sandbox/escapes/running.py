"""Runs the whole table in one session and prints what came of it, as JSON: ``running.py OPTIONS_JSON``.

A program of its own, so that it can run as another user than the tests do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[2]))

from cellwright import Engine, Settings, open_engine
from cellwright.engine import Session
from sandbox.escapes.more_attempts import ATTEMPTS
from sandbox.escapes.world import World

CELL_TIMEOUT_S = 40
SPEC = "cw-escape"


async def main(options: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/var/tmp") as directory:
        base = Path(directory)
        world = World(base)
        # Without namespaces root's kernels run as a user who must be able to pass through.
        base.chmod(0o711)
        world.open()
        os.environ |= {
            "HOME": str(base / "home"),
            "CW_SECRET": world.token,
            "XDG_RUNTIME_DIR": str(base / "run"),
        }
        _install_kernelspec(base)
        async with open_engine(_settings(base, options)) as engine:
            try:
                session = await _session(engine, base, options)
                for attempt in ATTEMPTS:
                    if options["only"] and attempt.name not in options["only"]:
                        continue
                    results[attempt.name] = await _try(session, world, attempt)
                    await _recover(session, attempt)
                results["tier"], results["mode"] = session.tier, session.mode
            finally:
                await engine.close(stop_host=True)
        world.close()
    return results


def _settings(base: Path, options: dict[str, Any]) -> Settings:
    values = {
        "root": base / "project",
        "storage": base / "storage",
        "standby_kernels": 1,
        "host_idle_s": 5,
        "max_memory_fraction": 1.0,
        "read_paths": [base / "environment"],
        "unsafe_no_sandbox": options["tier"] == "none",
        "sandbox_namespaces": options["tier"] != "C",
    }
    return Settings.model_validate(values)


def _install_kernelspec(base: Path) -> None:
    directory = base / "jupyter" / "kernels" / SPEC
    directory.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python, spawned",
        "language": "python-spawned",
        "env": {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {},
    }
    (directory / "kernel.json").write_text(json.dumps(spec))
    os.environ["JUPYTER_PATH"] = str(base / "jupyter")


async def _session(engine: Engine, base: Path, options: dict[str, Any]) -> Session:
    metadata = {}
    if options["launcher"] == "spawn":
        metadata = {"kernelspec": {"name": SPEC, "language": "python-spawned", "display_name": "x"}}
    notebook = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path = base / "project" / "n.ipynb"
    path.write_text(json.dumps(notebook))
    return await engine.open(path, mode="private" if options["tier"] == "C" else "direct")


async def _try(session: Session, world: World, attempt: Any) -> dict[str, Any]:
    world.reset()
    code = f"W = {world.facts!r}\n{attempt.code}"
    execution = await (await session.execute_code(code, timeout_s=CELL_TIMEOUT_S)).wait()
    output = execution.text
    if execution.error is not None:
        output += f"\n{execution.error['ename']}: {execution.error['evalue']}"
    escaped = world.escaped(attempt, output, os.getpid()) or _host_crowd(world, attempt, output)
    return {
        "escaped": escaped,
        "state": execution.state,
        "output": output[-300:],
        "reason": execution.reason,
    }


def _host_crowd(world: World, attempt: Any, output: str) -> bool:
    if attempt.seen != "crowd":
        return False
    current = json.loads((world.base / "storage" / "host" / "current.json").read_text())
    return world.escaped(attempt, output, current["pid"])


async def _recover(session: Session, attempt: Any) -> None:
    """A kernel that is left in a bad way would spoil the next attempt."""
    if attempt.seen in ("crowd", "reached") or "very many" in attempt.name or "memory" in attempt.name:
        await session.restart()


if __name__ == "__main__":
    json.dump(anyio.run(main, json.loads(sys.argv[1])), sys.stdout)
