"""Starts any kernel that Jupyter knows by name, from cold. The second way, for other languages (see forkserver).

Such a kernel runs none of our code: its output is not capped at its source, and it cannot be inspected.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import zmq.asyncio
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

import cellwright_kernel
from cellwright.errors import KernelStartError
from cellwright.kernels.client import KernelClient, new_context
from cellwright.kernels.connections import create_connection
from cellwright.kernels.kernel import Beginning, Kernel, KernelLaunch, tend
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.processes import KernelProcess, raise_file_limit, wanted

__all__ = ["KernelspecLauncher", "installed_kernelspecs"]

INSTALL_COMMANDS = {
    "python3": "python -m pip install ipykernel && python -m ipykernel install --user",
    "ir": "R -e 'install.packages(\"IRkernel\"); IRkernel::installspec()'",
    "deno": "deno jupyter --install",
    "julia": "julia -e 'using Pkg; Pkg.add(\"IJulia\")'",
}
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")


def installed_kernelspecs() -> dict[str, Path]:
    """The names of installed kernels and where each is described."""
    return {name: Path(where) for name, where in KernelSpecManager().find_kernel_specs().items()}


class KernelspecLauncher:
    """Spawns kernels of one installed kernelspec; their tasks live in ``run``."""

    def __init__(self, name: str, *, environment: Mapping[str, str], start_timeout_s: float) -> None:
        self.name = name
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
        beginning = self._spawn(_find_spec(self.name), launch)
        kernel: Kernel = await self._tasks.start(self._tend, beginning)
        return kernel

    async def _tend(self, beginning: Beginning, *, task_status: anyio.abc.TaskStatus[Kernel]) -> None:
        try:
            with wanted(beginning.process.pid):
                await tend(beginning, task_status=task_status)
        finally:
            self._living.discard(beginning.process.pid)

    def _spawn(self, spec: Any, launch: KernelLaunch) -> Beginning:
        connection = create_connection(launch.directory)
        last_words = LastWords()
        values = {"connection_file": str(connection.file), "resource_dir": spec.resource_dir}
        guard = Path(cellwright_kernel.__file__).with_name("spawn.py")
        command = [sys.executable, "-I", "-S", str(guard), str(os.getpid()), *_command(spec.argv, values)]
        try:
            process = subprocess.Popen(
                command,
                cwd=launch.cwd,
                env={**self._environment, **spec.env, **launch.environment},
                stdin=subprocess.DEVNULL,
                stdout=last_words.write_fd,
                stderr=last_words.write_fd,
                start_new_session=True,
            )
        except OSError as error:
            last_words.close()
            raise KernelStartError(f"Kernel {self.name!r} could not be started: {error}") from error
        last_words.handed_over()
        self._living.add(process.pid)
        return Beginning(
            process=KernelProcess(
                process.pid,
                os.pidfd_open(process.pid),
                status=partial(_status, process),
                last_words=last_words,
            ),
            client=KernelClient(connection, self._context),
            directory=launch.directory,
            started_by="spawn",
            ready=anyio.lowlevel.checkpoint,
            start_timeout_s=self._start_timeout_s,
            interrupt_by="message" if spec.interrupt_mode == "message" else "signal",
            ours=False,
        )


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
