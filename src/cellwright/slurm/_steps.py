"""Starts programs as steps of a SLURM job, each with memory of its own. The other way to start one is ``programs``'.

``srun`` starts ``cellwright_kernel.step``, which connects to a socket of this process, is handed the program with its
descriptors, and becomes it. So everything above deals with an ordinary process on this node, whose number the socket
tells; only its end is ``srun``'s to report. How much memory a step has is decided below.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cellwright.errors import KernelStartError
from cellwright.kernels.processes import ExitOutput, expected_child
from cellwright.kernels.programs import Program, SharedLimit, Started, own_script
from cellwright.rlimits import unlimited_children
from cellwright.sandbox.exit_reasons import LimitHit
from cellwright_kernel.step import HEADER

__all__ = ["MEGABYTE", "ROOM", "StepMemory", "Steps", "step_command", "step_environment", "step_memory"]
log = logging.getLogger(__name__)

STATUS_S = 20.0

# One that finds no node ready waits for a minute before it asks again, and another that is started then does not.
ATTEMPT_S = 10.0

END_S = 5.0

KILLED = 128

# What a job sets for its own steps, and what would contradict what is asked for here.
_JOBS_OWN = re.compile(
    r"SLURM_(MEM_PER_|CPU_BIND|CPUS_PER_|TRES_|NTASKS|NPROCS|DISTRIBUTION|EXACT|OVERLAP|STEP_|TASKS_PER_|GTIDS|LOCALID|"
    r"PROCID|TASK_PID|NODEID|EXCLUSIVE|HINT|EXPORT_ENV|UNBUFFEREDIO|SRUN_)|SRUN_|PMI"
)


def step_command(socket_path: Path, number: int, memory: int | None, processors: int) -> list[str]:
    """What starts a step; it shares the job's processors and devices with all others, and its memory with none."""
    return [
        "srun",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={processors}",
        "--cpu-bind=none",
        f"--mem={0 if memory is None else memory // MEGABYTE}M",
        "--quiet",
        "--input=none",
        "--export=ALL",
        "--job-name=kernel",
        sys.executable,
        "-I",
        "-S",
        own_script("step.py"),
        str(socket_path),
        str(number),
    ]


def step_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What ``srun`` is started with inside a job."""
    return {name: value for name, value in environment.items() if not _JOBS_OWN.match(name)}


@dataclass(slots=True)
class _Expected:
    """A step that was asked for and has yet to connect."""

    connected: anyio.Event = field(default_factory=anyio.Event)
    line: socket.socket | None = None


class Steps:
    """Starts programs in steps of the job that this process runs in, while ``run`` does."""

    def __init__(
        self, directory: Path, *, memory: int | None, processors: int, start_timeout_s: float
    ) -> None:
        """``memory`` is the job's, as far as it is known; ``directory`` is private to this user."""
        self.memory = memory
        self.processors = processors
        self._start_timeout_s = start_timeout_s
        self._socket_path = directory / "steps.sock"
        self._numbers = count(1)
        self._expected: dict[int, _Expected] = {}
        self._tasks: anyio.abc.TaskGroup
        self._lifeline: tuple[int, int] = (-1, -1)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take up the lines of steps until cancelled."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener:
            listener.bind(str(self._socket_path))
            self._socket_path.chmod(0o600)
            listener.listen(128)
            self._lifeline = os.pipe2(os.O_CLOEXEC)
            try:
                async with anyio.create_task_group() as self._tasks:
                    task_status.started()
                    while True:
                        await anyio.wait_readable(listener)
                        with contextlib.suppress(BlockingIOError):
                            self._tasks.start_soon(self._meet, listener.accept()[0])
            finally:
                for fd in self._lifeline:
                    os.close(fd)

    def memory_for(self, session_bytes: int | None) -> int | None:
        """How much memory the step of a session has; see ``step_memory``."""
        return step_memory(session_bytes, self.memory)

    def sized(self, memory: int | None) -> SizedSteps:
        """The way to start programs in steps of so much memory; None is all that the job has."""
        return SizedSteps(self, memory)

    @property
    def lifeline_fd(self) -> int:
        """Readable once this process has ended."""
        return self._lifeline[0]

    async def start(self, program: Program, memory: int | None) -> Started:
        """Have a step become the program.

        Raises:
            KernelStartError: SLURM does not start it, or not in time; with what it says.
        """
        attempt_s, words = ATTEMPT_S, ""
        with anyio.move_on_after(self._start_timeout_s):
            while True:
                step, words = await self._try(program, memory, attempt_s)
                if step is not None:
                    return step
                if words:
                    break
                attempt_s *= 2
        raise KernelStartError(
            f"SLURM did not start a job step: {words or f'no answer within {self._start_timeout_s:g} s'}",
            hint="See whether the controller answers (`scontrol ping`), or raise the setting start_timeout_s",
        )

    async def _try(
        self, program: Program, memory: int | None, attempt_s: float
    ) -> tuple[Started | None, str]:
        """A step, or what ``srun`` said instead; nothing where it did not come in that time."""
        number = next(self._numbers)
        expected = self._expected[number] = _Expected()
        srun = _Srun(step_command(self._socket_path, number, memory, self.processors))
        self._tasks.start_soon(srun.follow)
        step: Step | None = None
        done = False
        try:
            line = await _connected(expected, srun, attempt_s)
            if line is not None:
                with line:
                    pid = _peer(line)
                    step = Step(pid, srun, StepMemory(pid, memory, srun.words))
                    await anyio.to_thread.run_sync(_hand_over, line, program)
            done = step is not None
            return step, "" if done else srun.words.text
        finally:
            del self._expected[number]
            if not done:
                let_go = srun.cancel if step is None else partial(step.finish, 0)
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(let_go)

    async def _meet(self, line: socket.socket) -> None:
        """Find out which step it is that connected."""
        line.setblocking(False)
        with anyio.move_on_after(self._start_timeout_s):
            await anyio.wait_readable(line)
            told = line.recv(4)
            expected = self._expected.get(struct.unpack("!I", told)[0]) if len(told) == 4 else None
            if expected is not None and expected.line is None and _is_ours(line):
                expected.line = line
                expected.connected.set()
                return
        line.close()


async def _connected(expected: _Expected, srun: _Srun, attempt_s: float) -> socket.socket | None:
    """The line of a step; None where ``srun`` ended, or the time, before it came."""
    with anyio.move_on_after(attempt_s):
        async with anyio.create_task_group() as either:

            async def give_up() -> None:
                await srun.over.wait()
                either.cancel_scope.cancel()

            either.start_soon(give_up)
            await expected.connected.wait()
            either.cancel_scope.cancel()
    return expected.line


@dataclass(frozen=True, slots=True)
class SizedSteps:
    """Starts programs in steps of one size."""

    steps: Steps
    memory: int | None

    @property
    def tie(self) -> dict[str, Any]:
        return {"lifeline_fd": self.steps.lifeline_fd}

    @property
    def tie_fds(self) -> list[int]:
        return [self.steps.lifeline_fd]

    def tied(self, command: Sequence[str]) -> list[str]:
        # With its step's manager, that is: the job, and all its steps, end with the host.
        return [sys.executable, "-I", "-S", own_script("spawn.py"), "0", *command]

    async def open(self, program: Program) -> Started:
        return await self.steps.start(program, self.memory)


class _Srun:
    """The command that started a step, waits for its end and tells of it."""

    def __init__(self, command: list[str]) -> None:
        self.words = ExitOutput()
        try:
            with unlimited_children():
                self._process = subprocess.Popen(
                    command,
                    cwd="/",
                    env=step_environment(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self.words.write_fd,
                    start_new_session=True,
                )
        except OSError as error:
            self.words.close()
            raise KernelStartError(f"srun could not be run: {error}") from error
        self.words.handed_over()
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.over = anyio.Event()
        """Set when it has ended and was buried."""
        # Until it is buried, nobody may take it for a stranger.
        self._known = contextlib.ExitStack()
        self._known.enter_context(expected_child(self.pid))
        self._burying = threading.Lock()

    async def follow(self) -> None:
        """Stay with it to its end, and bury it; cancelled, end it. Run exactly once."""
        try:
            await anyio.wait_readable(self._pidfd)
        finally:
            os.close(self._pidfd)
            self.cancel()
            self.over.set()

    def status(self) -> int | None:
        """How the step's program ended, as far as it is told here; None while it has not."""
        code = self._process.poll()
        return code if code is None or code <= KILLED else KILLED - code

    def cancel(self) -> None:
        """End the step, if it lives, and bury the command."""
        with self._burying:
            if self._process.poll() is None:
                # Told once it ends the step in order; a second time at once.
                self._process.terminate()
                try:
                    self._process.wait(END_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._known.close()
            # What it said stays to be read.
            _ = self.words.text
            self.words.close()


class Step:
    """A program in a step of its own."""

    def __init__(self, pid: int, srun: _Srun, memory: StepMemory) -> None:
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._srun = srun
        self._memory = memory

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def shared_limit(self) -> SharedLimit:
        return self._memory.limit_behind

    @property
    def is_running(self) -> bool:
        return self._pidfd >= 0 and not _is_readable(self._pidfd)

    async def status(self) -> int | None:
        with anyio.move_on_after(STATUS_S):
            await self._srun.over.wait()
        return self._srun.status()

    def kill(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def finish(self, grace_s: float) -> None:
        if self._pidfd < 0:
            return
        if not _is_readable(self._pidfd, grace_s):
            self.kill()
        os.close(self._pidfd)
        self._pidfd = -1
        self._srun.cancel()


def _is_ours(line: socket.socket) -> bool:
    return _credentials(line)[1] == os.getuid()


def _peer(line: socket.socket) -> int:
    pid = _credentials(line)[0]
    if pid <= 0:
        raise KernelStartError("The job step runs where its processes cannot be seen from the host's")
    return pid


def _credentials(line: socket.socket) -> tuple[int, int, int]:
    told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", told)
    return pid, uid, gid


def _hand_over(line: socket.socket, program: Program) -> None:
    """Send the program with its descriptors. Blocking, for as long as the step takes to read."""
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        given = {
            0: null if program.stdin == subprocess.DEVNULL else program.stdin,
            1: program.stdout,
            2: program.stderr,
            **{fd: fd for fd in program.fds},
        }
        request = {
            "command": list(program.command),
            "environment": dict(program.environment),
            "cwd": str(program.cwd),
            "numbers": list(given),
            "own_session": program.own_session,
        }
        data = json.dumps(request).encode()
        line.settimeout(STATUS_S)
        socket.send_fds(line, [HEADER.pack(len(data), len(given))], list(given.values()))
        line.sendall(data)
    except OSError as error:
        raise KernelStartError(f"The job step ended before it had its program: {error}") from error
    finally:
        os.close(null)


def _is_readable(fd: int, timeout_s: float = 0) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(int(timeout_s * 1000)))


# How much memory a job step has, and whether somebody in it was ended for want of it. Starts none.

MEGABYTE = 1 << 20

ROOM = 256 * MEGABYTE
"""What a step has beyond its session's own limit: the fork server with what it preloaded, and who stays beside kernels."""

_OUT_OF_MEMORY = re.compile(r"Out Of Memory|oom-kill", re.IGNORECASE)


def step_memory(session_bytes: int | None, job_bytes: int | None) -> int | None:
    """The memory of a step for a session with this limit; None is all that the job has.

    The session's limit and room for the fork server, but no more than the job has: SLURM refuses a step that asks for
    more. Steps overlap, so that together they may ask for more than there is; then the job's own limit counts.
    """
    if session_bytes is None:
        return None
    wanted_bytes = session_bytes + ROOM
    return wanted_bytes if job_bytes is None or wanted_bytes < job_bytes else None


class StepMemory:
    """What a step's memory is limited to, and whether somebody was ended for it."""

    def __init__(self, pid: int, limit: int | None, words: ExitOutput) -> None:
        """``pid`` is a process in the step, ``words`` is what ``srun`` says."""
        self._limit = limit
        self._words = words
        self._counter = _oom_counter(Path(f"/proc/{pid}/cgroup"))
        self._before = self._kills()

    def limit_behind(self, status: int | None) -> LimitHit | None:
        """The step's memory, if a process of it was killed since it was last asked and this one could be it."""
        kills, before = self._kills(), self._before
        self._before = kills
        ended_by_itself = status is not None and status >= 0
        # What srun says is of its step's own program; the counter is of all that is in the step.
        if (kills <= before or ended_by_itself) and not _OUT_OF_MEMORY.search(self._words.text):
            return None
        told = f" {self._limit // MEGABYTE:,} MB" if self._limit is not None else ""
        return LimitHit(
            "max_session_memory",
            f"The kernel's job step ran out of its{told} of memory (max_session_memory, and room for its fork server)"
            if self._limit is not None
            else "The kernel ran out of the job's memory (slurm_mem)",
            "Use less at once (samples, chunks, fewer copies), or raise CELLWRIGHT_MAX_SESSION_MEMORY, in an allocation "
            "that has as much (CELLWRIGHT_SLURM_MEM); then run the cells again in a new kernel",
        )

    def _kills(self) -> int:
        if self._counter is None:
            return 0
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", self._counter.read_text(), re.MULTILINE)
            return int(found[1]) if found is not None else 0
        return 0


def _oom_counter(told: Path) -> Path | None:
    """The file that counts kills in the memory group of a process: of either version of cgroups."""
    with contextlib.suppress(OSError):
        for line in told.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return Path(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
            if not controllers and path != "/":
                return Path(f"/sys/fs/cgroup{path}/memory.events")
    return None
