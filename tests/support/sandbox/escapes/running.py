"""Runs tables of attempts, each in a session, and prints what came of them, as JSON: ``running.py OPTIONS_JSON``.

A program of its own, so that it can run as another user than the tests do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import anyio
import psutil

sys.path.insert(0, str(Path(__file__).parents[4]))

from cellwright import Engine, Settings, open_engine
from cellwright.engine import Execution, Session
from tests.support.sandbox.escapes.attempts import Attempt
from tests.support.sandbox.escapes.deno_attempts import DENO
from tests.support.sandbox.escapes.more_attempts import ATTEMPTS
from tests.support.sandbox.escapes.together import cell_of, outputs_in
from tests.support.sandbox.escapes.world import World
from tests.waiting import LIMIT_S, UNHURRIED

LOW_LIMITS = {"max_session_memory": 256 << 20, "max_session_disk": 40 << 20, "max_session_files": 2_000}
"""For attempts: what goes beyond them costs the less. What people use needs the usual ones."""
SAID = ("token", "said")
"""What an attempt itself shows to have succeeded; all else is seen of the world."""


async def main(options: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/var/tmp") as directory:
        base = Path(directory)
        world = World(base, confined=options["tier"] != "none")
        # Without namespaces root's kernels run as a user who must be able to pass through.
        base.chmod(0o711)
        world.open()
        shutil.copytree(options["caches"], base / "home/.cache/cellwright/libraries")
        world.facts["wait_s"] = 0.1 if options["tier"] == "none" else LIMIT_S
        os.environ |= {
            "HOME": str(base / "home"),
            "CW_SECRET": world.token,
            "XDG_RUNTIME_DIR": str(base / "run"),
        }
        if "beside" in options.get("tables", ()):
            os.environ["PATH"] += f":{Path(options['deno']).parent}"
        _install_kernelspecs(base, options)
        async with open_engine(_settings(base, options)) as engine:
            try:  # whatever fails, neither the victim nor the host stays
                if options.get("codes"):
                    session = await _session(engine, base, options["tier"], options["launcher"])
                    return await _run_codes(session, options["codes"])
                world.facts |= await _other_session(engine, world)
                for launcher, names in options["tables"].items():
                    session = await _session(engine, base, options["tier"], launcher)
                    table = Table(session, world, launcher, confined=options["tier"] != "none")
                    results[launcher] = await table.run(names)
                    await engine.delete(session.id)
            finally:
                world.close()
                await engine.close(stop_host=True)
    return results


def _settings(base: Path, options: dict[str, Any]) -> Settings:
    values = {
        "root": base / "project",
        "storage": base / "storage",
        "standby_kernels": 1,
        **UNHURRIED,
        "host_idle_s": 5,
        "max_memory_fraction": 1.0,
        **(LOW_LIMITS if "tables" in options else {}),
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


async def _session(engine: Engine, base: Path, tier: str, launcher: str) -> Session:
    metadata: dict[str, Any] = {}
    if launcher == "beside":
        # Its own language is one, what is tried another: those cells run on a kernel in the place of the first.
        metadata = {"kernelspec": {"name": "deno", "language": "typescript", "display_name": "x"}}
    elif launcher != "fork":
        language = "typescript" if launcher == "deno" else "python-spawned"
        name = f"cw-{launcher}"
        metadata = {"kernelspec": {"name": name, "language": language, "display_name": "x"}}
    notebook = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path = base / "project" / f"{launcher}.ipynb"
    path.write_text(json.dumps(notebook))
    return await engine.open(path, mode="private" if tier == "C" else "direct")


async def _run_codes(session: Session, codes: dict[str, str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, code in codes.items():
        execution = await (await session.execute_code(code)).wait()
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
    forked = [process.pid for process in below if _is_forked(process)]
    seen = number if number in forked else forked[-1]
    return {"kernel_sockets": sorted(sockets), "other_kernel": seen}


def _is_forked(process: psutil.Process) -> bool:
    """Whether it is of a fork server, and not what makes the caches of libraries."""
    try:
        return "--channel" in process.cmdline()
    except psutil.Error:  # it has ended
        return False


def _unix_addresses(process: psutil.Process) -> list[str]:
    try:
        return [str(connection.laddr) for connection in process.net_connections("unix")]
    except psutil.Error:  # a reaper, which shows nothing of itself
        return []


@dataclass(frozen=True)
class Table:
    """Attempts in one session: those that leave the others alone in one cell, all others in a cell for each."""

    session: Session
    world: World
    launcher: str
    _: KW_ONLY
    confined: bool

    async def run(self, names: list[str]) -> dict[str, Any]:
        attempts = [one for one in (DENO if self.launcher == "deno" else ATTEMPTS) if one.name in names]
        together = [one for one in attempts if self._fits_in(one)]
        results = await self._try_together(together) if together else {}
        doubted = [one.name for one in together if one.name not in results]
        for attempt in attempts:
            if attempt.name not in results:
                results[attempt.name] = await self._try(attempt)
                await _recover(self.session, attempt, results[attempt.name]["state"])
        if self.confined and not any(results[name]["escaped"] for name in doubted):
            # Together they did what none of them did by itself.
            results |= {name: results[name] | {"escaped": True} for name in doubted}
        return results | {"tier": self.session.tier, "mode": self.session.mode}

    def _fits_in(self, attempt: Attempt) -> bool:
        """Whether it can be told from one cell for many whether it succeeded."""
        if self.launcher == "deno" or attempt.greedy:
            return False
        # Where nothing confines them all succeed, and the world does not show which ones.
        return attempt.seen in SAID or (self.confined and attempt.seen != "reached")

    async def _try_together(self, attempts: list[Attempt]) -> dict[str, Any]:
        """The verdicts that are certain: without the others, which are then found one by one."""
        self.world.reset(self.session.cwd)
        execution = await self._execute(cell_of(attempts, self.world.facts))
        outputs = outputs_in(execution.text) if execution.ok else {}
        touched = self.confined and self.world.touched()
        results = {
            one.name: {
                "escaped": one.seen in SAID and self.world.escaped(one, said, 0),
                "output": said[-300:],
            }
            for one in attempts
            if (said := outputs.get(one.name)) is not None and (one.seen in SAID or not touched)
        }
        if self.confined:
            return results
        # One may have been in the way of another, such as a mount over what it looks for.
        return {name: result for name, result in results.items() if result["escaped"]}

    async def _execute(self, code: str) -> Execution:
        language = "python" if self.launcher == "beside" else None
        execution = await self.session.execute_code(code, language=language)
        return await execution.wait()

    async def _try(self, attempt: Attempt) -> dict[str, Any]:
        self.world.reset(self.session.cwd)
        begun = time.monotonic()
        facts = self.world.facts
        told = f"var W = {json.dumps(facts)};" if self.launcher == "deno" else f"W = {facts!r}"
        execution = await self._execute(f"{told}\n{attempt.code}")
        output = execution.text
        if execution.error is not None:
            output += f"\n{execution.error['ename']}: {execution.error['evalue']}"
        escaped = self.world.escaped(attempt, output, os.getpid()) or _host_crowd(self.world, attempt, output)
        return {
            "escaped": escaped,
            "state": execution.state,
            "output": output[-300:],
            "reason": execution.reason,
            "seconds": time.monotonic() - begun,
        }


def _host_crowd(world: World, attempt: Attempt, output: str) -> bool:
    if attempt.seen != "crowd":
        return False
    current = json.loads((world.base / "storage" / "host" / "current.json").read_text())
    return world.escaped(attempt, output, current["pid"])


async def _recover(session: Session, attempt: Attempt, state: str) -> None:
    """A kernel that is left in a bad way would spoil the next attempt; one that died is followed by a new one anyway."""
    keeps = attempt.seen in ("crowd", "reached") or "very many" in attempt.name
    # What went well has given its memory back.
    if state != "died" and (keeps or ("memory" in attempt.name and state != "ok")):
        await session.restart()


if __name__ == "__main__":
    json.dump(anyio.run(main, json.loads(sys.argv[1])), sys.stdout)
