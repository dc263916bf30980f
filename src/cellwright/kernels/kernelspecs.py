"""Starts any kernel that Jupyter knows by name, from cold. The second way, for other languages (see forkserver).

Such a kernel runs none of our code: its output is not capped at its source, and it cannot be inspected.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import zmq.asyncio
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

import cellwright_kernel
from cellwright.errors import KernelStartError
from cellwright.kernels.allotments import Allotment, Allotter
from cellwright.kernels.boxes import Isolation
from cellwright.kernels.boxlines import BoxLine
from cellwright.kernels.client import KernelClient, new_context
from cellwright.kernels.connections import INSIDE, Connection, create_connection
from cellwright.kernels.kernel import Beginning, Kernel, KernelLaunch, tend
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.lodgings import Lodging
from cellwright.kernels.processes import KernelProcess, raise_file_limit, wanted
from cellwright.sandbox.doors import DOOR, Door
from cellwright.sandbox.plans import SOCKETS

__all__ = ["KernelspecLauncher", "installed_kernelspecs"]

INSTALL_COMMANDS = {
    "python3": "python -m pip install ipykernel && python -m ipykernel install --user",
    "ir": "R -e 'install.packages(\"IRkernel\"); IRkernel::installspec()'",
    "deno": "deno jupyter --install",
    "julia": "julia -e 'using Pkg; Pkg.add(\"IJulia\")'",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What kernels of one program need that others do not."""

    tcp_only: bool = False
    """It cannot listen on unix sockets (see ``cellwright_kernel.ferry``)."""
    own_memory: int | None = None
    """Bytes that it reserves for itself; they come on top of the limit of each process."""


# V8 reserves the places of its heaps and of compiled code before it uses them.
NEEDS = {"deno": Needs(tcp_only=True, own_memory=1 << 30)}
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")


def installed_kernelspecs() -> dict[str, Path]:
    """The names of installed kernels and where each is described."""
    return {name: Path(where) for name, where in KernelSpecManager().find_kernel_specs().items()}


class KernelspecLauncher:
    """Spawns kernels of one installed kernelspec; their tasks live in ``run``."""

    def __init__(
        self,
        name: str,
        *,
        environment: Mapping[str, str],
        start_timeout_s: float,
        isolation: Isolation | None = None,
    ) -> None:
        self.name = name
        self._isolation = isolation
        self._allotter = Allotter(isolation)
        self._environment = dict(environment)
        self._start_timeout_s = start_timeout_s
        self._context: zmq.asyncio.Context
        self._living: set[int] = set()
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def pids(self) -> frozenset[int]:
        """The kernels' processes, from their start on; children of this one."""
        return frozenset(self._living)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the kernels' tasks until cancelled; then every kernel ends."""
        raise_file_limit()
        self._context = new_context()
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._context.term()

    async def launch(self, launch: KernelLaunch) -> Kernel:
        """A new kernel, started from cold. Output limits are the engine's to keep."""
        if self._tasks is None:
            raise KernelStartError(f"The launcher of {self.name!r} does not run")
        spec, isolation = _find_spec(self.name), self._isolation
        if isolation is not None:
            isolation = isolation.under(launch.policy)
            launch = replace(launch, directory=isolation.directory(launch.directory))
        door = isolation.door() if isolation is not None else None
        if door is not None:
            launch.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._tasks.start(door.serve, launch.directory / DOOR)
        allotment = await self._allotter.next(launch.policy)
        try:
            beginning, lodging = self._spawn(spec, launch, allotment, door)
        except BaseException:
            if door is not None:
                await door.close()
            await allotment.remove()
            raise
        finally:
            allotment.handed_over()
        self._tasks.start_soon(lodging.run)
        kernel: Kernel = await self._tasks.start(self._tend, beginning)
        if kernel.line is not None and self._isolation is not None and self._isolation.stands_by:
            await kernel.line.settle([])
        return kernel

    async def _tend(self, beginning: Beginning, *, task_status: anyio.abc.TaskStatus[Kernel]) -> None:
        try:
            with wanted(beginning.process.pid):
                await tend(beginning, task_status=task_status)
        finally:
            self._living.discard(beginning.process.pid)

    def _spawn(
        self, spec: Any, launch: KernelLaunch, allotment: Allotment, door: Door | None
    ) -> tuple[Beginning, Lodging]:
        confined = self._isolation is not None
        start = self._confined(spec, launch, allotment) if confined else self._bare(spec, launch)
        last_words = LastWords()
        process = self._run(start, allotment, last_words)
        self._living.add(process.pid)
        lodging = Lodging(launch.directory, start.line, door, allotment.group)
        beginning = Beginning(
            process=KernelProcess(
                process.pid,
                os.pidfd_open(process.pid),
                status=partial(_status, process),
                last_words=last_words,
                depth=start.depth,
                group=allotment.group,
            ),
            client=KernelClient(start.connection, self._context),
            directory=launch.directory,
            started_by="spawn",
            ready=start.ready,
            start_timeout_s=self._start_timeout_s,
            interrupt_by="message" if spec.interrupt_mode == "message" else "signal",
            ours=False,
            line=start.line,
            door=door,
            home=lodging,
        )
        return beginning, lodging

    def _run(self, start: _Start, allotment: Allotment, last_words: LastWords) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                start.command,
                cwd=start.cwd,
                env=start.environment,
                stdin=subprocess.DEVNULL if start.request is None else subprocess.PIPE,
                stdout=last_words.write_fd,
                stderr=last_words.write_fd,
                pass_fds=[start.line.fd, *allotment.fds, *start.fds] if start.line is not None else [],
                start_new_session=start.request is None,  # one that is confined sees to it itself
            )
        except OSError as error:
            last_words.close()
            if start.line is not None:
                start.line.abandon()
            raise KernelStartError(f"Kernel {self.name!r} could not be started: {error}") from error
        if process.stdin is not None and start.line is not None:
            start.line.handed_over()
            with (
                process.stdin,
                contextlib.suppress(BrokenPipeError),
            ):  # its end is noticed and explained elsewhere
                process.stdin.write(msgspec.json.encode(start.request))
        last_words.handed_over()
        return process

    def _bare(self, spec: Any, launch: KernelLaunch) -> _Start:
        connection = create_connection(launch.directory)
        values = {"connection_file": str(connection.file), "resource_dir": spec.resource_dir}
        program = _command(spec.argv, values)
        if _needs(program).tcp_only:
            program = [
                sys.executable,
                "-I",
                "-S",
                _own("__main__.py"),
                "--ferry",
                values["connection_file"],
                *program,
            ]
        command = [sys.executable, "-I", "-S", _own("spawn.py"), str(os.getpid()), *program]
        environment = {**self._environment, **spec.env, **launch.environment}
        return _Start(command, connection, environment, launch.cwd)

    def _confined(self, spec: Any, launch: KernelLaunch, allotment: Allotment) -> _Start:
        place = launch.place
        if self._isolation is None or place is None:
            raise KernelStartError("A confined kernel needs a place to work in")
        isolation = self._isolation.under(launch.policy)
        boxed = isolation.stands_by
        if _needs(spec.argv).tcp_only and not boxed:
            raise KernelStartError(
                f"Kernel {self.name!r} needs a network of its own to listen on, which isolation tier {isolation.tier} "
                "has not",
                hint="Run `cellwright doctor` to see what would lift the tier",
            )
        connection = create_connection(launch.directory, seen_at=SOCKETS if boxed else None)
        file = f"{SOCKETS}/{INSIDE}" if boxed else str(connection.file)
        program = _command(spec.argv, {"connection_file": file, "resource_dir": spec.resource_dir})
        environment = {**launch.environment, **spec.env}
        paths = [
            *_program_paths(program[0]),
            *environment.get("PYTHONPATH", "").split(":"),
            spec.resource_dir,
        ]
        readable = isolation.readable([path for path in paths if Path(path).is_absolute()])
        plan = isolation.plan(
            readable, environment, launch.directory, place, known=True, shared=launch.shared
        )
        plan["environment"] |= spec.env
        needs = _needs(program)
        if needs.own_memory is not None:
            plan["limits"]["own_memory"] = needs.own_memory
        request = {
            "plan": plan,
            "tcp_only": needs.tcp_only,
            "connection_file": file,
            "directory": str(launch.directory),
            "cwd": str(launch.cwd),
            "host": os.getpid(),
            "group_fd": allotment.entrance_fd,
            "processors": allotment.processors,
        }
        line = BoxLine(Path(place.written))
        command = [sys.executable, "-I", "-S", _own("__main__.py"), "--confine", str(line.fd), *program]
        given = (launch.shared.mount_fd,) if launch.shared is not None and boxed else ()
        return _Start(command, connection, {}, Path("/"), line, request, depth=2 if boxed else 1, fds=given)


@dataclass(frozen=True, slots=True)
class _Start:
    """What a process is started with; ``request`` goes to its standard input."""

    command: list[str]
    connection: Connection
    environment: Mapping[str, str]
    cwd: Path
    line: BoxLine | None = None
    request: dict[str, Any] | None = None
    depth: int = 0
    fds: tuple[int, ...] = ()
    """Descriptors that go with it, beside its line's."""

    async def ready(self) -> None:
        """Show the program its files; that it listens is seen when it answers."""
        if self.line is not None and self.request is not None:
            await self.line.furnish(self.request["plan"])


def _needs(program: list[str]) -> Needs:
    return NEEDS.get(Path(program[0]).name, Needs())


def _own(script: str) -> str:
    return str(Path(cellwright_kernel.__file__).with_name(script))


def _program_paths(program: str) -> list[str]:
    """What a program needs to see of itself where it is not one of the system's."""
    if program == sys.executable:
        return [sys.prefix, sys.base_prefix]
    found = shutil.which(program)
    if found is None:
        return []
    return [str(Path(path).parent.parent) for path in (found, os.path.realpath(found))]


def _find_spec(name: str) -> Any:
    try:
        return KernelSpecManager().get_kernel_spec(name)
    except NoSuchKernel:
        installed = ", ".join(sorted(installed_kernelspecs())) or "none"
        command = INSTALL_COMMANDS.get(name)
        raise KernelStartError(
            f"There is no kernel named {name!r}; installed are: {installed}",
            hint=f"Install it with `{command}`"
            if command
            else "See the kernel's own documentation to install it",
        ) from None


def _command(argv: list[str], values: Mapping[str, str]) -> list[str]:
    command = [
        PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group(0)), part) for part in argv
    ]
    # As Jupyter does: a kernelspec that says just "python" means the one it is installed in.
    if command and re.fullmatch(r"python(3(\.\d+)?)?", command[0]):
        command[0] = sys.executable
    return command


async def _status(process: subprocess.Popen[bytes]) -> int | None:
    return process.poll()
