"""Runs the type checker of Deno over a notebook, beside its kernel: in a process of its own, as confined as that one.

It runs nobody's code and writes nothing. What is checked, and how it is read, is ``typecheck``'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import msgspec

from cellwright.errors import KernelError, KernelStartError
from cellwright.kernels.allotments import Allotter
from cellwright.kernels.boxes import Isolation
from cellwright.kernels.deno import V8_MEMORY, find_deno, own_environment
from cellwright.kernels.kernel import KernelLaunch
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.lodgings import Lodging
from cellwright.kernels.processes import KernelProcess, wanted
from cellwright.kernels.programs import own_script
from cellwright.kernels.spawning import (
    Start,
    confined_start,
    refuse_without_network,
    watched,
)
from cellwright.kernels.typecheck import (
    CONFIG,
    GLOBALS,
    CellSource,
    Diagnostic,
    Program,
    config_of,
    diagnostics_of,
    join_cells,
)
from cellwright.sandbox.policy import SOCKETS
from cellwright.sandbox.safe_paths import components, open_beneath
from cellwright.sandbox.workspace import Place

__all__ = ["TypeChecker"]

FILES = "check"
LAYER = "/layer"
"""Where the check sees what a session on a view of a project wrote."""
KEPT_BYTES = 1 << 20
MAX_WRITTEN = 1_000
MODULES = (".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".json")
FLAGS = ["--no-lock", "--no-remote", "--cached-only", "--node-modules-dir=none"]


class TypeChecker:
    """Checks notebooks one by one, each in a box of its own that is gone afterwards."""

    def __init__(self, *, isolation: Isolation | None, timeout_s: float) -> None:
        self._isolation = isolation
        self._allotter = Allotter(isolation)
        self._timeout_s = timeout_s
        self._deno: Path | None = None

    async def check(
        self, launch: KernelLaunch, cells: Sequence[CellSource], tsconfig: Mapping[str, Any] | None = None
    ) -> list[Diagnostic]:
        """What is wrong with the types of these cells, where a kernel of theirs would be launched so.

        Raises:
            KernelStartError: there is no Deno, or it cannot be confined.
            KernelError: it ended without a word that can be understood.
            TimeoutError: it took too long.
        """
        self._deno = self._deno or await anyio.to_thread.run_sync(find_deno)
        isolation = self._isolation
        if isolation is not None:
            policy = replace(launch.policy or isolation.policy, network="off")
            isolation = isolation.under(policy)
            launch = replace(launch, directory=isolation.directory(launch.directory))
        program = join_cells(cells)
        seen_at = (
            f"{SOCKETS}/{FILES}"
            if isolation is not None and isolation.stands_by
            else f"{launch.directory}/{FILES}"
        )
        try:
            await anyio.to_thread.run_sync(_write, program, launch, tsconfig, seen_at)
            plan = _plan(str(self._deno), launch, isolation) if isolation is not None else None
            output, code = await self._run(self._command(program, seen_at), plan, launch)
        finally:
            shutil.rmtree(launch.directory, ignore_errors=True)
        found = diagnostics_of(output, program, seen_at=seen_at)
        if code and not found and "Type checking failed" not in output:
            raise KernelError(f"The type check did not get through: {output[-2_000:]}")
        return found

    def _command(self, program: Program, seen_at: str) -> list[str]:
        files = [f"{seen_at}/{name}" for name in program.files]
        return [str(self._deno), "check", *FLAGS, "--config", f"{seen_at}/{CONFIG}", *files]

    async def _run(
        self, command: list[str], plan: dict[str, Any] | None, launch: KernelLaunch
    ) -> tuple[str, int | None]:
        """What the process said, and its exit code."""
        allotment = await self._allotter.next(launch.policy)
        start = Start(command, {}, Path("/"), last_words=LastWords(kept_bytes=KEPT_BYTES))
        if plan is None:
            start = replace(start, environment=own_environment(str(launch.directory)))
        else:
            start = confined_start(start, plan, replace(launch, cwd=Path("/"), place=None), allotment)
        try:
            process = await start.open(allotment)
        except OSError as error:
            await allotment.remove()
            raise KernelStartError(f"The type check could not be started: {error}") from error
        finally:
            allotment.handed_over()
        lodging = Lodging(launch.directory, start.line, None, allotment.group)
        with wanted(process.pid):
            try:
                async with anyio.create_task_group() as tasks:
                    ending = watched(process, start, allotment)
                    tasks.start_soon(ending.watch)
                    tasks.start_soon(start.last_words.run)
                    tasks.start_soon(lodging.run)
                    try:
                        with anyio.fail_after(self._timeout_s):
                            await start.ready()
                            code = (await ending.wait()).code
                    finally:
                        await _end(ending)
                        tasks.cancel_scope.cancel()
                return start.last_words.text, code
            finally:
                start.last_words.close()
                await lodging.close()


async def _end(process: KernelProcess) -> None:
    process.kill_tree("the type check was given up")
    with anyio.CancelScope(shield=True):
        await process.wait()


def _plan(deno: str, launch: KernelLaunch, isolation: Isolation) -> dict[str, Any]:
    place = launch.place
    if place is None:
        raise KernelStartError("A confined check needs a place to look at")
    # No kernel could run such cells there either, and the place would have to be taken from the one that works in it.
    refuse_without_network("deno", isolation)
    plan = isolation.plan(isolation.readable([deno]), {}, launch.directory, None)
    # To read only: what the session sees there, and nothing of what is hidden from it. Its own layer lies in that.
    shown = [(place.written, place.cwd)] if place.mode == "private" else [(place.top, place.top)]
    shown += [(place.written, LAYER)] if place.mode == "overlay" else []
    plan["mounts"] += [
        {"kind": "bind", "from": path, "at": at, "write": False, "own": True, "plain": True}
        for path, at in shown
    ]
    plan["mounts"] += [
        {"kind": "tmpfs", "at": path, "bytes": 4096, "inodes": 2, "write": False}
        for path in place.hidden
        if Path(path).is_relative_to(place.top) and path != place.cwd
    ]
    plan["rules"]["READ"] += [at for _, at in shown]
    plan["environment"] |= own_environment(plan["environment"]["TMPDIR"])
    plan["limits"]["own_memory"] = V8_MEMORY
    return plan


def _write(program: Program, launch: KernelLaunch, tsconfig: Mapping[str, Any] | None, seen_at: str) -> None:
    """Put what is checked where the process will see it."""
    top = launch.directory / FILES
    written = _written(launch.place) if launch.place is not None else {}
    config = config_of(program, tsconfig, seen_at=seen_at, cwd=str(launch.cwd), written=written)
    known = Path(own_script("deno"), GLOBALS).read_text(encoding="utf-8")
    for name, text in {**program.files, GLOBALS: known, CONFIG: msgspec.json.encode(config).decode()}.items():
        file = top / name
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "replace"))
    launch.directory.chmod(0o700)


def _written(place: Place) -> dict[str, str]:
    """The modules that a session on a view of a project wrote there, by their names in its working directory."""
    if place.mode != "overlay":
        return {}
    below = os.path.relpath(place.cwd, place.top)
    found: dict[str, str] = {}
    # Code may have put links where its directories were: none is followed.
    with contextlib.ExitStack() as held:
        try:
            layer = os.open(place.written, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, layer)
            top = open_beneath(layer, components(below), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, top)
        except OSError:  # it wrote nothing there
            return {}
        for directory, _, names, fd in os.fwalk(".", dir_fd=top):
            for name in names:
                if name.endswith(MODULES) and stat.S_ISREG(_mode(name, fd)):
                    path = os.path.normpath(f"{directory}/{name}")
                    found[path] = os.path.normpath(f"{LAYER}/{below}/{path}")
                if len(found) == MAX_WRITTEN:
                    return found
    return found


def _mode(name: str, directory: int) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:  # it went meanwhile
        return 0
