"""How a program is started that is a kernel or forks some: here as a child of this process, elsewhere as a job step.

What is started is ``forkserver``', ``spawn``'s and ``spawn``'; the other way is ``slurm.steps``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import cellwright_kernel
from cellwright.rlimits import unlimited_children
from cellwright.sandbox.exit_reasons import LimitHit

__all__ = [
    "LOCAL_PROGRAMS",
    "NO_INPUT",
    "LocalPrograms",
    "Program",
    "Programs",
    "SharedLimit",
    "Started",
    "own_script",
]

NO_INPUT = subprocess.DEVNULL


SharedLimit: TypeAlias = Callable[[int | None], LimitHit | None]
"""The limit of a kernel together with the process that forked it: takes an exit status, and says whether that limit
ended the process.
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and the descriptors that it finds under the numbers that they have here."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    stdout: int
    stderr: int
    stdin: int = NO_INPUT
    fds: Sequence[int] = ()
    own_session: bool = True


class Started(Protocol):
    """A program that was started."""

    @property
    def pid(self) -> int: ...

    @property
    def shared_limit(self) -> SharedLimit | None:
        """The limit of the program and all that it starts, where there is one."""
        ...

    @property
    def is_running(self) -> bool: ...

    async def status(self) -> int | None:
        """How it ended, once it has; None where nobody can tell."""
        ...

    def kill(self) -> None: ...

    def finish(self, grace_s: float) -> None:
        """Wait for its end, and kill it if that does not come. Blocking."""
        ...


class Programs(Protocol):
    """One way to start programs."""

    @property
    def tie(self) -> dict[str, Any]:
        """What a confined program is told, so that it ends with this process."""
        ...

    @property
    def tie_fds(self) -> list[int]:
        """What it must be given for that."""
        ...

    def tied(self, command: Sequence[str]) -> list[str]:
        """A command that runs another, which then ends with this process."""
        ...

    async def open(self, program: Program) -> Started:
        """Start a program; the descriptors stay the caller's.

        Raises:
            OSError: it could not be started.
            KernelStartError: it could not be started, and why.
        """
        ...


class LocalPrograms:
    """Starts programs as children of this process."""

    @property
    def tie(self) -> dict[str, Any]:
        return {"host": os.getpid()}

    @property
    def tie_fds(self) -> list[int]:
        return []

    def tied(self, command: Sequence[str]) -> list[str]:
        return [sys.executable, "-I", "-S", own_script("spawn.py"), str(os.getpid()), *command]

    async def open(self, program: Program) -> Started:
        with unlimited_children():
            process = subprocess.Popen(  # noqa: ASYNC220  # quick, and children must be known before anything else can run
                program.command,
                cwd=program.cwd,
                env=program.environment,
                stdin=program.stdin,
                stdout=program.stdout,
                stderr=program.stderr,
                pass_fds=list(program.fds),
                start_new_session=program.own_session,
            )
        return _Child(process)


LOCAL_PROGRAMS = LocalPrograms()


class _Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def shared_limit(self) -> None:
        return None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def status(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    def finish(self, grace_s: float) -> None:
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def own_script(name: str) -> str:
    """A script of the package that runs beside kernels."""
    return str(Path(cellwright_kernel.__file__).with_name(name))
