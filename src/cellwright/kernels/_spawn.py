"""Starts programs that are kernels from cold, confined or not. What is started is each launcher's own: an installed
kernelspec (``kernelspecs``) or Deno with our driver (``deno``). Forked kernels are ``forkserver``'s.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
import msgspec

from cellwright.errors import KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._monitor import MonitorChannel
from cellwright.kernels._pipe_client import Pipes
from cellwright.kernels._resources import KernelCgroup, KernelCgroups, KernelResources, NpmDirectory
from cellwright.kernels.client import Client
from cellwright.kernels.kernel import Kernel, KernelLaunch, StartingKernel, tend
from cellwright.kernels.processes import ExitOutput, KernelProcess, expected_child
from cellwright.kernels.programs import LOCAL_PROGRAMS, NO_INPUT, Program, Programs, Started, own_script
from cellwright.rlimits import raise_file_limit
from cellwright.sandbox.proxy import PROXY_SOCKET, ProxySocket

__all__ = ["KernelStart", "Spawner", "Start", "confined_start", "refuse_without_network", "watched"]
STANDBY_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Start:
    """What a process is started with; ``request`` goes to its standard input."""

    command: list[str]
    environment: Mapping[str, str]
    cwd: Path
    line: MonitorChannel | None = None
    request: dict[str, Any] | None = None
    depth: int = 0
    pipes: Pipes | None = None
    """What becomes its standard input and output, where it is spoken to by them."""
    exit_output: ExitOutput = field(default_factory=ExitOutput)
    given: tuple[int, ...] = ()
    """Descriptors of what another kernel shares with it; the caller's to close."""
    entrance: Entrance | None = None
    """The process itself, where it was started before anybody knew what for."""

    async def ready(self) -> None:
        """Show the program its files; that it listens is seen when it answers."""
        if self.line is not None and self.request is not None:
            await self.line.furnish(self.request["plan"])

    async def open(self, cgroup: KernelCgroup, programs: Programs = LOCAL_PROGRAMS) -> Started:
        """Start the process; whatever it is given is let go of here.

        Raises:
            OSError: it could not be started, and nothing is left open.
            KernelStartError: the same, and why.
        """
        request = self.request | programs.tie if self.request is not None else None
        if self.entrance is not None:
            self.entrance.telling.tell(request)
            return self.entrance.process
        telling = StartRequestPipe() if request is not None else None
        try:
            process = await programs.open(self._program(cgroup, programs, telling))
        except BaseException:
            self._let_go()
            raise
        finally:
            if telling is not None:
                telling.handed_over()
                telling.tell(request)
        if self.line is not None:
            self.line.handed_over()
        self.exit_output.handed_over()
        if self.pipes is not None:
            self.pipes.handed_over()
        return process

    def _let_go(self) -> None:
        self.exit_output.close()
        if self.pipes is not None:
            self.pipes.close()
        if self.line is not None:
            self.line.abandon()

    def _program(self, cgroup: KernelCgroup, programs: Programs, telling: StartRequestPipe | None) -> Program:
        streams = self.pipes.theirs if self.pipes is not None else []
        words = self.exit_output.write_fd
        if telling is not None and self.line is not None:
            # It is told on its standard input what it may do, and takes other streams of its own afterwards.
            fds = [self.line.fd, *cgroup.fds, *streams, *self.given, *programs.tie_fds]
            return Program(
                self.command,
                self.environment,
                self.cwd,
                stdin=telling.fd,
                stdout=words,
                stderr=words,
                fds=fds,
                own_session=False,  # it sees to it itself
            )
        return Program(
            programs.tied(self.command),
            self.environment,
            self.cwd,
            stdin=streams[0] if streams else NO_INPUT,
            stdout=streams[1] if streams else words,
            stderr=words,
        )


@dataclass(frozen=True, slots=True)
class KernelStart:
    """A start, and how what it starts is spoken to."""

    start: Start
    client: Client
    interrupt_by: Literal["message", "signal"] = "message"
    ours: bool = False
    npm: NpmDirectory | None = None
    """Where it finds npm packages; goes with it."""


class Spawner(ABC):
    """Spawns kernels of one kind; their tasks live in ``run``."""

    def __init__(
        self,
        name: str,
        *,
        environment: Mapping[str, str],
        start_timeout_s: float,
        isolation: Isolation | None = None,
        programs: Programs = LOCAL_PROGRAMS,
    ) -> None:
        self.name = name
        self._programs = programs
        self._isolation = isolation
        self._cgroups = KernelCgroups(isolation)
        self._environment = dict(environment)
        self._start_timeout_s = start_timeout_s
        self._living: set[int] = set()
        self._entrance: Entrance | None = None
        """A process that waits for the next launch."""
        self._tasks: anyio.abc.TaskGroup | None = None

    @abstractmethod
    async def _find(self) -> None:
        """Make sure of the program.

        Raises:
            KernelStartError: it is not installed.
        """

    @abstractmethod
    def _start(self, launch: KernelLaunch, isolation: Isolation | None, cgroup: KernelCgroup) -> KernelStart:
        """What a kernel's process is to be started with."""

    @property
    def pids(self) -> frozenset[int]:
        """The kernels' processes, from their start on; children of this one."""
        return frozenset(self._living)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the kernels' tasks until cancelled; then every kernel ends."""
        raise_file_limit()
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._let_entrance_go()

    async def launch(self, launch: KernelLaunch) -> Kernel:
        """A new kernel, started from cold."""
        kernel = await self._begin(launch)
        if kernel.line is not None and self._isolation is not None and self._isolation.stands_by:
            await kernel.line.settle([])
        return kernel

    async def _begin(self, launch: KernelLaunch) -> Kernel:
        """A new kernel that answers, and may still be given more to see."""
        if self._tasks is None:
            raise KernelStartError(f"The launcher of {self.name!r} does not run")
        await self._find()
        isolation = self._isolation
        if isolation is not None:
            isolation = isolation.under(launch.policy)
            launch = replace(launch, directory=isolation.directory(launch.directory))
        proxy_socket = isolation.proxy_socket() if isolation is not None else None
        if proxy_socket is not None:
            launch.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._tasks.start(proxy_socket.serve, launch.directory / PROXY_SOCKET)
        cgroup = await self._cgroups.next(launch.policy)
        try:
            recipe = self._start(launch, isolation, cgroup)
            starting_kernel, resources = await self._spawn(recipe, launch, cgroup, proxy_socket)
        except BaseException:
            if proxy_socket is not None:
                await proxy_socket.close()
            await cgroup.remove()
            raise
        finally:
            cgroup.handed_over()
        self._tasks.start_soon(resources.run)
        kernel: Kernel = await self._tasks.start(self._tend, starting_kernel, recipe)
        kernel.npm = recipe.npm
        return kernel

    async def _tend(
        self,
        starting_kernel: StartingKernel,
        recipe: KernelStart,
        *,
        task_status: anyio.abc.TaskStatus[Kernel],
    ) -> None:
        try:
            with expected_child(starting_kernel.process.pid):
                await tend(starting_kernel, task_status=task_status)
        finally:
            self._living.discard(starting_kernel.process.pid)
            if recipe.start.pipes is not None:
                recipe.start.pipes.close()
            if recipe.npm is not None:
                recipe.npm.clear()

    # One that stands by ------------------------------------------------------------------------------------------

    def _take_entrance(self, launch: KernelLaunch, cgroup: KernelCgroup) -> Entrance | None:
        """The process that waits, where it can become this kernel: it has none but its own descriptors."""
        entrance = self._entrance
        if entrance is None or launch.shared is not None or cgroup.fds or not entrance.is_waiting:
            return None
        self._entrance = None
        self._living.discard(entrance.process.pid)
        return entrance

    async def _stand_by(self, *, noise: re.Pattern[str] | None = None) -> None:
        """Have a process wait for the next launch; a little later, since whoever launched one needs the processor."""
        await anyio.sleep(STANDBY_PAUSE_S)
        if self._entrance is not None and self._entrance.is_waiting:
            return
        self._let_entrance_go()
        entrance = Entrance(noise=noise)
        with contextlib.suppress(OSError, KernelStartError):  # the next kernel is started from cold
            await entrance.open(self._programs)
            if self._entrance is not None:  # somebody else was quicker
                entrance.close()
                return
            self._living.add(entrance.process.pid)
            self._entrance = entrance

    def _let_entrance_go(self) -> None:
        entrance, self._entrance = self._entrance, None
        if entrance is not None:
            self._living.discard(entrance.process.pid)
            entrance.close()

    async def _spawn(
        self,
        recipe: KernelStart,
        launch: KernelLaunch,
        cgroup: KernelCgroup,
        proxy_socket: ProxySocket | None,
    ) -> tuple[StartingKernel, KernelResources]:
        start = recipe.start
        try:
            process = await start.open(cgroup, self._programs)
        except OSError as error:
            raise KernelStartError(f"Kernel {self.name!r} could not be started: {error}") from error
        self._living.add(process.pid)
        resources = KernelResources(launch.directory, start.line, proxy_socket, cgroup.group)
        starting_kernel = StartingKernel(
            process=watched(process, start, cgroup),
            client=recipe.client,
            directory=launch.directory,
            started_by="spawn",
            ready=start.ready,
            start_timeout_s=self._start_timeout_s,
            interrupt_by=recipe.interrupt_by,
            ours=recipe.ours,
            line=start.line,
            proxy_socket=proxy_socket,
            owner=resources,
        )
        return starting_kernel, resources


def watched(process: Started, start: Start, cgroup: KernelCgroup) -> KernelProcess:
    """The process that came of a start, for whoever follows it to its end."""
    watched = KernelProcess(
        process.pid,
        os.pidfd_open(process.pid),
        status=process.status,
        exit_output=start.exit_output,
        depth=start.depth,
        group=cgroup.group,
    )
    watched.shared_limit = process.shared_limit
    return watched


def confined_start(
    start: Start, plan: dict[str, Any], launch: KernelLaunch, cgroup: KernelCgroup, **more: Any
) -> Start:
    """The same start behind the lockdown: its command is the program, which sees nothing but the plan."""
    request = {
        "plan": plan,
        "tcp_only": False,
        "connection_file": "",
        "copies": [],
        "links": [],
        "caches": (),
        "program": start.command,
        "streams": _streams(start),
        "directory": str(launch.directory),
        "cwd": str(launch.cwd),
        "group_fd": cgroup.entrance_fd,
        "processors": cgroup.processors,
        **more,
    }
    line, shared = start.entrance.line if start.entrance is not None else MonitorChannel(), launch.shared
    # A sandbox that is built without a place has nothing in it that would have to be saved.
    line.save_in(Path(launch.workspace.written) if launch.workspace is not None else None)
    return replace(
        start,
        command=entrance_command(line.fd) if start.entrance is None else [],
        environment={},
        cwd=Path("/"),
        line=line,
        request=request,
        depth=2 if plan["namespaces"] else 1,
        given=(shared.mount_fd,) if shared is not None and plan["namespaces"] else (),
    )


def _streams(start: Start) -> list[int]:
    if start.entrance is not None:
        return start.entrance.streams
    return start.pipes.theirs if start.pipes is not None else []


def refuse_without_network(name: str, isolation: Isolation) -> None:
    """Raise where a kernel could not listen on a loopback of its own."""
    if not isolation.stands_by:
        raise KernelStartError(
            f"Kernel {name!r} needs a network of its own to listen on, which isolation tier {isolation.tier} has not",
            hint="Run `cellwright doctor` to see what would lift the tier",
        )


# Ways into the lockdown for programs that are kernels: the command, and a process that waits there before it
# is needed.


class StartRequestPipe:
    """Standard input of a process that is told once what to do."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_CLOEXEC)

    def handed_over(self) -> None:
        """The process has its end by now."""
        os.close(self.fd)

    def tell(self, request: dict[str, Any] | None) -> None:
        """Say it, whatever became of the process: its end is noticed and explained elsewhere."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._write_fd, "wb") as written:
            written.write(msgspec.json.encode(request))
        self._write_fd = -1

    def close(self) -> None:
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1


class Entrance:
    """A process that waits to be told what to become, and as how confined: half of a kernel's start is over by then."""

    process: Started

    def __init__(self, *, noise: re.Pattern[str] | None = None) -> None:
        """``noise`` is what the program will always say and nobody wants to read."""
        self.line, self.pipes, self.exit_output = MonitorChannel(), Pipes(), ExitOutput(noise=noise)
        self.streams = self.pipes.theirs
        """What will be its standard input and output, by its own numbers."""
        self.telling = StartRequestPipe()

    async def open(self, programs: Programs) -> None:
        """Start it.

        Raises:
            OSError: it could not be started, and nothing is left open.
            KernelStartError: the same, and why.
        """
        try:
            self.process = await programs.open(
                Program(
                    entrance_command(self.line.fd),
                    {},
                    Path("/"),
                    stdin=self.telling.fd,
                    stdout=self.exit_output.write_fd,
                    stderr=self.exit_output.write_fd,
                    fds=[self.line.fd, *self.streams, *programs.tie_fds],
                    own_session=False,
                )
            )
        except BaseException:
            self.telling.handed_over()
            self._let_go()
            raise
        self.telling.handed_over()
        self.line.handed_over()
        self.pipes.handed_over()
        self.exit_output.handed_over()

    @property
    def is_waiting(self) -> bool:
        return self.process.is_running

    def close(self) -> None:
        """End it, where nobody had a use for it."""
        self.telling.close()
        self.process.kill()
        self.process.finish(0)
        self._let_go()

    def _let_go(self) -> None:
        self.telling.close()
        self.line.abandon()
        self.pipes.close()
        self.exit_output.close()


def entrance_command(control_fd: int) -> list[str]:
    """What to run in order to be told over standard input what to become."""
    return [sys.executable, "-I", "-S", own_script("__main__.py"), "--confine", str(control_fd)]
