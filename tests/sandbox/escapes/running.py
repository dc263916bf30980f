"""Runs the whole table in one session and prints what came of it, as JSON: ``running.py OPTIONS_JSON``.

A program of its own, so that it can run as another user than the tests do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from cellwright import Engine, Settings, open_engine
from cellwright.engine import Session
from sandbox.escapes.deno_attempts import DENO
from sandbox.escapes.more_attempts import ATTEMPTS
from sandbox.escapes.world import World

CELL_TIMEOUT_S = 40
PATIENCE_S = 8


async def main(options: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/var/tmp") as directory:
        base = Path(directory)
        world = World(base)
        # Without namespaces root's kernels run as a user who must be able to pass through.
        base.chmod(0o711)
        world.open()
        world.facts["patience"] = 0.1 if options["tier"] == "none" else PATIENCE_S
        os.environ |= {
            "HOME": str(base / "home"),
            "CW_SECRET": world.token,
            "XDG_RUNTIME_DIR": str(base / "run"),
        }
        if options["launcher"] == "beside":
            os.environ["PATH"] += f":{Path(options['deno']).parent}"
        _install_kernelspecs(base, options)
        async with open_engine(_settings(base, options)) as engine:
            try:  # whatever fails, neither the victim nor the host stays
                session = await _session(engine, base, options)
                if options.get("codes"):
                    return await _run_codes(session, options["codes"])
                world.facts |= await _other_session(engine, world)
                for attempt in DENO if options["launcher"] == "deno" else ATTEMPTS:
                    if options["only"] and attempt.name not in options["only"]:
                        continue
                    results[attempt.name] = await _try(session, world, attempt, options)
                    await _recover(session, attempt)
                results["tier"], results["mode"] = session.tier, session.mode
            finally:
                world.close()
                await engine.close(stop_host=True)
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


def _install_kernelspecs(base: Path, options: dict[str, Any]) -> None:
    python = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python, spawned",
        "language": "python-spawned",
        "env": {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {},
    }
    deno = {
        "argv": [options["deno"], "jupyter", "--kernel", "--conn", "{connection_file}"],
        "display_name": "Deno",
        "language": "typescript",
        "interrupt_mode": "message",
    }
    for name, spec in (("spawn", python), ("deno", deno)):
        directory = base / "jupyter" / "kernels" / f"cw-{name}"
        directory.mkdir()
        (directory / "kernel.json").write_text(json.dumps(spec))
    os.environ["JUPYTER_PATH"] = str(base / "jupyter")


async def _session(engine: Engine, base: Path, options: dict[str, Any]) -> Session:
    metadata: dict[str, Any] = {}
    if options["launcher"] == "beside":
        # Its own language is one, what is tried another: those cells run on a kernel in the place of the first.
        metadata = {"kernelspec": {"name": "deno", "language": "typescript", "display_name": "x"}}
    elif options["launcher"] != "fork":
        language = "typescript" if options["launcher"] == "deno" else "python-spawned"
        name = f"cw-{options['launcher']}"
        metadata = {"kernelspec": {"name": name, "language": language, "display_name": "x"}}
    notebook = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path = base / "project" / "n.ipynb"
    path.write_text(json.dumps(notebook))
    return await engine.open(path, mode="private" if options["tier"] == "C" else "direct")


async def _run_codes(session: Session, codes: dict[str, str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, code in codes.items():
        execution = await (await session.execute_code(code, timeout_s=CELL_TIMEOUT_S)).wait()
        results[name] = {"ok": execution.ok, "error": execution.error, "reason": execution.reason}
    return results | {"tier": session.tier, "mode": session.mode}


async def _other_session(engine: Engine, world: World) -> dict[str, Any]:
    """A neighbour that lives while the attempts are made, with a secret of its own."""
    other = await engine.create("other", mode="private")
    plant = f"import os; open('of-the-other', 'w').write({world.token!r}); print(os.getpid())"
    execution = await (await other.execute_code(plant)).wait()
    assert execution.ok, execution.error
    current = json.loads((world.base / "storage" / "host" / "current.json").read_text())
    below = psutil.Process(current["pid"]).children(recursive=True)
    # Without a mount namespace the paths that kernels know are real; with one they are found by walking.
    known = [Path(address) for process in below for address in _unix_addresses(process)]
    walked = (world.base / "run").rglob("s-1")
    sockets = {str(path) for path in (*known, *walked) if path.name == "s-1" and path.is_socket()}
    assert sockets, "kernels listen somewhere"
    number = int(execution.text)
    seen = number if psutil.pid_exists(number) and psutil.Process(number) in below else below[-1].pid
    return {"kernel_sockets": sorted(sockets), "other_kernel": seen}


def _unix_addresses(process: psutil.Process) -> list[str]:
    try:
        return [str(connection.laddr) for connection in process.net_connections("unix")]
    except psutil.Error:  # a reaper, which shows nothing of itself
        return []


async def _try(session: Session, world: World, attempt: Any, options: dict[str, Any]) -> dict[str, Any]:
    world.reset()
    begun = time.monotonic()
    told = f"var W = {json.dumps(world.facts)};" if options["launcher"] == "deno" else f"W = {world.facts!r}"
    code = f"{told}\n{attempt.code}"
    language = "python" if options["launcher"] == "beside" else None
    execution = await (await session.execute_code(code, language=language, timeout_s=CELL_TIMEOUT_S)).wait()
    output = execution.text
    if execution.error is not None:
        output += f"\n{execution.error['ename']}: {execution.error['evalue']}"
    escaped = world.escaped(attempt, output, os.getpid()) or _host_crowd(world, attempt, output)
    return {
        "escaped": escaped,
        "state": execution.state,
        "output": output[-300:],
        "reason": execution.reason,
        "seconds": time.monotonic() - begun,
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
