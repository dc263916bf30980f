"""A running kernel: a process and a connection to it, kept together from first sign of life to last.

How one comes to be is a launcher's affair (``forkserver``, ``kernelspecs``); which cells it runs is the host's.
"""

from __future__ import annotations

import logging
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import anyio.abc

from cellwright.errors import KernelError, KernelStartError
from cellwright.kernels._checkpoints import KernelChannel
from cellwright.kernels._monitor import MonitorChannel
from cellwright.kernels._resources import NpmDirectory
from cellwright.kernels.client import Client, refusal_in
from cellwright.kernels.processes import Exit, KernelProcess, Lifetime, Survivors
from cellwright.sandbox.npm import is_npm_layer
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import ProxySocket
from cellwright.sandbox.workspace import SharedWorkspace, Workspace

__all__ = [
    "Kernel",
    "KernelLaunch",
    "KernelOwner",
    "Launcher",
    "OutputLimits",
    "StartedBy",
    "StartingKernel",
    "tend",
]

StartedBy = Literal["standby", "fork", "spawn", "checkpoint", "server", "attached"]

log = logging.getLogger(__name__)

END_GRACE_S = 10.0
CONTROL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """What one cell may put out; the middle of anything longer is dropped and counted in the kernel."""

    max_bytes: int
    max_messages: int


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """What a session wants of its kernel."""

    kernel_id: str
    directory: Path
    """For sockets; made by the launcher and removed with the kernel. A standby kernel has its own."""

    cwd: Path
    environment: Mapping[str, str]
    """Variables on top of the launcher's own."""

    limits: OutputLimits
    workspace: Workspace | None = None
    """Where it works, if it is confined; ``cwd`` is in it."""
    layers: tuple[str, ...] = ()
    """Directories of packages, as the kernel sees them, for the end of its path."""
    policy: Policy | None = None
    """What its code may do, where that is less than the launcher's kernels mostly may."""
    shared: SharedWorkspace | None = None
    """The place as another kernel has it, where it is started beside that."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Where a Python kernel finds digests besides our own, by type; an empty place takes one of ours out."""


class Launcher(Protocol):
    """Starts kernels in one way."""

    async def launch(self, launch: KernelLaunch) -> Kernel:
        """A kernel that answers; it lives in the launcher's tasks.

        Raises:
            KernelStartError: it could not be had; everything that was started has ended.
        """
        ...


class Kernel:
    """One live kernel. Dies with its process; ``stop`` ends both."""

    def __init__(
        self,
        *,
        process: Lifetime,
        client: Client,
        info: dict[str, Any],
        started_by: StartedBy,
        directory: Path,
        interrupt_by: Literal["message", "signal"],
        ours: bool,
        line: MonitorChannel | None = None,
    ) -> None:
        self.process = process
        self.client = client
        told = info.get("language_info")
        self.language: dict[str, Any] = told if isinstance(told, dict) else {}
        """What it says of its language."""
        self.started_by = started_by
        self.directory = directory
        self._interrupt_by = interrupt_by
        self._ours = ours
        self.line = line
        """The way to whoever stays beside it; None where it was started without."""
        self.proxy_socket: ProxySocket | None = None
        """Its way to the network, if it has one."""
        self.kernel_channel: KernelChannel | None = None
        """The way to the kernel itself, which is asked for checkpoints over it; None where it cannot be."""
        self.npm: NpmDirectory | None = None
        """Where it finds npm packages, if it runs on Deno."""
        self.owner: KernelOwner
        """What it lives in, which may outlive it."""
        self.unburied: list[int] = []
        """Checkpoints of it that have ended and of whose end it has yet to take note; as it numbers them."""
        self.lost: tuple[str, ...] = ()
        """What did not come back with it, where it goes on from a checkpoint."""
        self.remote: tuple[str, str] | None = None
        """Its id on its Jupyter server and that of our connection, where it lives on one."""
        self.remote_ours = False
        """Whether it was started there for us."""
        self.remote_languages: tuple[str, ...] = ()
        """What kernels its server has besides, by language."""
        self.over = anyio.Event()
        """Set when the process has ended, its last message was handed on and its files are gone."""

    async def interrupt(self) -> None:
        """Interrupt the running cell and the subprocesses in the kernel's group."""
        if self._interrupt_by == "message":
            await self.client.interrupt(timeout_s=CONTROL_TIMEOUT_S)
        else:
            self.process.signal_group(signal.SIGINT)

    async def inspect(self, *, packages: bool = False, timeout_s: float) -> dict[str, Any]:
        """What lives in the namespace; see ``cellwright_kernel._inspection``.

        Raises:
            KernelError: this kernel is not one of ours, or could not look.
            KernelGone: it ended before it answered.
            TimeoutError: it is busy.
        """
        if not self._ours:
            raise KernelError("Only Python kernels of the fork server can be inspected")
        reply = await self.client.request(
            "cellwright_inspect_request", {"packages": packages}, timeout_s=timeout_s
        )
        if (refusal := refusal_in(reply)) is not None:
            raise KernelError(f"The namespace could not be inspected: {refusal}")
        del reply["status"]
        return reply

    async def enter(self, cwd: str, limits: OutputLimits) -> None:
        """Let it work in a directory, which may be another one by now under the same name.

        Raises:
            KernelError: this kernel is not one of ours, or could not.
            KernelGone: it ended before it answered.
            TimeoutError: it is busy.
        """
        content = {
            "cwd": cwd,
            "environment": {},
            "max_bytes": limits.max_bytes,
            "max_messages": limits.max_messages,
        }
        reply = await self.client.request("cellwright_adopt_request", content, timeout_s=CONTROL_TIMEOUT_S)
        if (refusal := refusal_in(reply)) is not None:
            raise KernelError(f"The kernel could not enter {cwd}: {refusal}")

    async def add_layers(self, layers: tuple[str, ...]) -> None:
        """Let it find these directories of packages, as it sees them; a running cell goes on. Others' are left out.

        Raises:
            KernelError: this kernel is not one of ours, or refused.
            KernelGone: it ended before it answered.
            TimeoutError: it does not answer.
        """
        if self.npm is not None:
            await anyio.to_thread.run_sync(self.npm.put, layers)
            return
        layers = tuple(layer for layer in layers if not is_npm_layer(layer))
        if not layers:
            return
        if not self._ours:
            raise KernelError("Only Python kernels of the fork server take packages")
        reply = await self.client.request(
            "cellwright_layers_request", {"layers": layers}, timeout_s=CONTROL_TIMEOUT_S, channel="control"
        )
        if (refusal := refusal_in(reply)) is not None:
            raise KernelError(f"The packages could not be added: {refusal}")

    async def stop(self, *, grace_s: float) -> Exit:
        """End the kernel and everything below it: asked first, killed after the grace. Safe to call again."""
        self.process.expect_end("it was stopped")
        # One whose sandbox outlives it has checkpoints among them, and the sandbox sees to the rest.
        below = Survivors([] if self.process.is_outlived else self.process.descendants())
        with anyio.move_on_after(grace_s):
            try:
                await self.client.shutdown_request(timeout_s=grace_s)
                await self.process.wait()
            except (KernelError, TimeoutError):  # code may answer anything in its name
                pass
        self.process.kill_tree("it was stopped")
        await self.process.wait()
        below.kill()
        return await self.wait()

    async def wait(self) -> Exit:
        """How the process ended, once everything about it is over."""
        await self.over.wait()
        return await self.process.wait()


class KernelOwner(Protocol):
    """Owns a kernel's directory, and is told when a kernel starts and ends there."""

    @property
    def directory(self) -> Path:
        """The directory, which is removed with its owner."""
        ...

    def joined(self) -> None:
        """Count a kernel that is about to start."""
        ...

    async def left(self, process: KernelProcess) -> None:
        """Take note that a kernel has ended, and close what no other kernel needs."""
        ...


@dataclass(frozen=True, slots=True)
class StartingKernel:
    """A kernel's process that was just started and has not answered yet."""

    process: KernelProcess
    client: Client
    directory: Path
    owner: KernelOwner
    started_by: StartedBy
    ready: Callable[[], Awaitable[None]]
    """Returns when the kernel listens."""

    start_timeout_s: float
    interrupt_by: Literal["message", "signal"] = "message"
    ours: bool = True
    line: MonitorChannel | None = None
    proxy_socket: ProxySocket | None = None
    kernel_channel: KernelChannel | None = None


async def tend(starting_kernel: StartingKernel, *, task_status: anyio.abc.TaskStatus[Kernel]) -> None:
    """Bring a kernel up, tell it to the starter, and stay with it until its process has ended and was heard.

    Cancelled at any time, it ends the kernel's whole tree and removes its directory.

    Raises:
        KernelStartError: (to the starter) it ended, or was ended at its deadline, before it answered.
    """
    process, client = starting_kernel.process, starting_kernel.client
    kernel: Kernel | None = None
    starting_kernel.owner.joined()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.watch)
            tasks.start_soon(process.exit_output.run)
            try:
                kernel = await _bring_up(starting_kernel, tasks)
                if kernel is not None:
                    task_status.started(kernel)
                    ended = await process.wait()
                    if not process.end_expected:
                        await client.drain()
                    client.close(ended.message)
            finally:
                await _make_sure_it_ended(process)
                tasks.cancel_scope.cancel()
    finally:
        process.exit_output.close()
        if starting_kernel.kernel_channel is not None:
            starting_kernel.kernel_channel.close()
        # A sandbox is mounted in its home's own directory, and may have other kernels after this one.
        if starting_kernel.directory != starting_kernel.owner.directory:
            shutil.rmtree(starting_kernel.directory, ignore_errors=True)
        with anyio.CancelScope(shield=True):
            await starting_kernel.owner.left(process)
        if kernel is not None:
            kernel.over.set()
    if kernel is None:
        raise _start_error(process)


async def _bring_up(starting_kernel: StartingKernel, tasks: anyio.abc.TaskGroup) -> Kernel | None:
    """The kernel, or None where its process or its time ended first."""
    process, client = starting_kernel.process, starting_kernel.client
    with anyio.move_on_after(starting_kernel.start_timeout_s) as starting:
        tasks.start_soon(_cancel_at_end, process, starting)
        try:
            await starting_kernel.ready()
        except KernelStartError as error:
            process.expect_end(error.message)
            return None
        info = await tasks.start(_receive, process, client)
        kernel = Kernel(
            process=process,
            client=client,
            info=info,
            started_by=starting_kernel.started_by,
            directory=starting_kernel.directory,
            interrupt_by=starting_kernel.interrupt_by,
            ours=starting_kernel.ours,
            line=starting_kernel.line,
        )
        kernel.proxy_socket, kernel.owner, kernel.kernel_channel = (
            starting_kernel.proxy_socket,
            starting_kernel.owner,
            starting_kernel.kernel_channel,
        )
        return kernel
    if process.exit is None:
        process.expect_end(f"it did not answer within {starting_kernel.start_timeout_s:g} s")
    return None


async def _receive(
    process: KernelProcess, client: Client, *, task_status: anyio.abc.TaskStatus[dict[str, Any]]
) -> None:
    """Receive the kernel's messages. Should that fail, this kernel ends, and no other."""
    try:
        await client.run(task_status=task_status)
    except Exception:  # boundary: nothing that one kernel says ends anything but that kernel
        log.exception("kernel_connection_failed", extra={"pid": process.pid})
        process.kill_tree("what it said could not be followed; the host's log has the reason")
        await anyio.sleep_forever()  # whoever waits for it waits for the process's end


async def _cancel_at_end(process: KernelProcess, scope: anyio.CancelScope) -> None:
    await process.wait()
    scope.cancel()


async def _make_sure_it_ended(process: KernelProcess) -> None:
    process.kill_tree("whoever started it let it go")
    with anyio.move_on_after(END_GRACE_S, shield=True):
        await process.wait()
    process.abandon()


def _start_error(process: KernelProcess) -> KernelStartError:
    told = process.exit.message if process.exit is not None else "it does not end"
    words = process.exit.exit_output if process.exit is not None else ""
    return KernelStartError(
        f"The kernel did not start. {told}" + (f"\nIt printed last:\n{words}" if words else ""),
        hint="Run `cellwright doctor`, or raise the setting start_timeout_s",
    )
