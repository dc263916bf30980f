"""Starts Python kernels by forking a warm process, and keeps some standing by.

Owns the fork server's process and, in ``run``, the tasks of every kernel it launched. Replaces nothing that died:
its owner hears of that by ``died`` and builds another. The process itself is ``cellwright_kernel._forkserver``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cellwright.errors import KernelGone, KernelStartError
from cellwright.kernels._checkpoint_group import CheckpointGroup, CheckpointGroups
from cellwright.kernels._checkpoints import KernelChannel
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._fork_channel import ForkChannel
from cellwright.kernels._interpreters import LIBRARIES, Interpreter, LibraryCaches
from cellwright.kernels._monitor import MonitorChannel
from cellwright.kernels._resources import (
    INSIDE,
    KernelCgroup,
    KernelCgroups,
    KernelResources,
    create_connection,
)
from cellwright.kernels._standby import Standby
from cellwright.kernels.client import KernelClient, refusal_in
from cellwright.kernels.kernel import Kernel, KernelLaunch, OutputLimits, StartedBy, StartingKernel, tend
from cellwright.kernels.processes import ExitOutput, KernelProcess, expected_child
from cellwright.kernels.programs import LOCAL_PROGRAMS, Program, Programs, SharedLimit, Started, own_script
from cellwright.rlimits import raise_file_limit
from cellwright.sandbox.policy import SOCKETS
from cellwright.sandbox.proxy import PROXY_SOCKET, ProxySocket
from cellwright.sandbox.workspace import SharedWorkspace, needs_own_fork

__all__ = ["ForkServer"]


class ForkServer:
    """One warm interpreter and the kernels forked from it."""

    def __init__(  # noqa: PLR0913  # all that tells one from another
        self,
        interpreter: Interpreter,
        *,
        preload: Sequence[str],
        environment: Mapping[str, str],
        standby: int,
        directory: Path,
        limits: OutputLimits,
        start_timeout_s: float,
        isolation: Isolation | None = None,
        programs: Programs = LOCAL_PROGRAMS,
        single: bool = False,
        caches: LibraryCaches | None = None,
    ) -> None:
        """``single``: one launch, then the end. ``caches`` go to confined kernels; with standbys it makes them."""
        self.interpreter = interpreter
        self.isolation = isolation
        """How its kernels are confined; None where they are not."""
        self.pid: int | None = None
        self.died = anyio.Event()
        """Set when the process is gone: nothing more can be launched, kernels that live go on."""

        self._programs = programs
        self._single = single
        self._shared_limit: SharedLimit | None = None
        self._cgroups = KernelCgroups(isolation)
        self._preload = tuple(preload)
        self._caches = caches if isolation is not None else None
        self._keeps_standby = standby > 0
        self._prepared: tuple[Path, ...] = ()
        """Where caches of the interpreter's libraries are, or will be."""
        self._environment = dict(environment)
        self._standby = Standby(
            standby if isolation is None or isolation.stands_by else 0, self._fork_standby
        )
        self._directory = directory
        self._limits = limits
        self._start_timeout_s = start_timeout_s
        self._numbers = count(1)
        self._living: Counter[int] = Counter()
        self._one_ended = anyio.Event()
        self._exit_output: ExitOutput
        self._channel: ForkChannel
        self._tasks: anyio.abc.TaskGroup
        self._checkpoint_groups: CheckpointGroups
        self._lifeline: tuple[int, int]

    @property
    def preload_failures(self) -> Mapping[str, str]:
        """Modules that could not be preloaded, each with the reason; kernels run without them."""
        return self._channel.preload_failures

    @property
    def standing_by(self) -> int:
        """Kernels that wait, ready, for the next launch."""
        return len(self._standby)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, or until the process has died and its last kernel has ended.

        Raises:
            KernelStartError: (to the starter) it could not fork within the start's deadline.
        """
        raise_file_limit()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._exit_output = ExitOutput()
        process, host_end = await self._spawn()
        with expected_child(process.pid):
            await self._run(process, host_end, task_status)

    async def _run(
        self,
        process: Started,
        host_end: socket.socket,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        self._channel = ForkChannel(host_end)
        self._lifeline = os.pipe2(os.O_CLOEXEC)
        can_fork = False
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks, self._checkpoint_groups = tasks, self._new_checkpoint_groups(tasks)
                tasks.start_soon(self._exit_output.run)
                tasks.start_soon(self._listen)
                with anyio.move_on_after(self._start_timeout_s):
                    # The first kernel waits for no warming: that is for those that stand by and those to come.
                    await self._channel.ready.wait()
                    can_fork = not self._channel.closed.is_set()
                if can_fork:
                    self.interpreter = replace(
                        self.interpreter,
                        version=self._channel.version,
                        search_path=tuple(self._channel.search),
                    )
                    await self._find_caches()
                    task_status.started()
                    await self._serve(tasks)
                tasks.cancel_scope.cancel()
            if not can_fork:
                raise self._start_error()
        finally:
            await self._clean_up(process, host_end)

    async def launch(self, launch: KernelLaunch) -> Kernel:
        """A kernel for a session: one that stood by, or a new fork."""
        self._require_alive()
        try:
            with self._standby.launching():
                return await self._give_standby(launch) or await self._give_fork(launch)
        except TimeoutError:
            raise KernelStartError(
                f"A kernel of {self.interpreter.python} did not enter its session "
                f"within {self._start_timeout_s:g} s",
                hint="Raise the setting start_timeout_s",
            ) from None
        except KernelGone as error:
            raise KernelStartError(f"The kernel ended before its session began: {error.message}") from error

    async def _spawn(self) -> tuple[Started, socket.socket]:
        process, host_end = await start_fork_server(
            self.interpreter,
            self._preload,
            self._environment,
            self._directory,
            self._exit_output,
            self._programs,
            at_once=self._single or self._keeps_standby,
            single=self._single,
        )
        self.pid, self._shared_limit = process.pid, process.shared_limit
        return process, host_end

    async def _find_caches(self) -> None:
        if self._caches is None:
            return
        python, search_path = self.interpreter.python, self.interpreter.search_path
        self._prepared = await self._caches.find(search_path)
        # Nobody waits: a kernel that plots before they are made fills a cache of its own. Where nobody types, as in a
        # run that ends with its notebook, completion needs none.
        libraries = LIBRARIES if self._keeps_standby else ("matplotlib",)
        self._tasks.start_soon(self._caches.make, python, search_path, libraries)

    async def _listen(self) -> None:
        try:
            await self._channel.run()
        finally:
            self.died.set()

    async def _serve(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self._keep_standby)
        async with anyio.create_task_group() as either:
            either.start_soon(_then_cancel, self.died, either.cancel_scope)
            if self._single:
                either.start_soon(self._one_launch, either.cancel_scope)
        self.died.set()
        self._standby.dismiss("its fork server ended")
        await self._all_ended()

    async def _keep_standby(self) -> None:
        # Nobody waits for these: they can have all that is done beforehand.
        await self._channel.warm.wait()
        await self._standby.keep()

    async def _one_launch(self, done: anyio.CancelScope) -> None:
        """Return when the only launch, whatever came of it, is over with all that lives of it."""
        await self._standby.launched.wait()
        self._standby.dismiss("its session has a kernel of its own")
        await self._all_ended()
        done.cancel()

    async def _all_ended(self) -> None:
        while self._living:
            self._one_ended = anyio.Event()
            await self._one_ended.wait()

    async def _give_standby(self, launch: KernelLaunch) -> Kernel | None:
        # One that stands by was confined as everybody is: what its session narrows, a fork of its own keeps.
        own = launch.policy is not None or launch.shared is not None
        own = own or (launch.workspace is not None and needs_own_fork(launch.workspace))
        while not own and (kernel := self._standby.take()) is not None:
            # One that died while it waited, or dies now, is no reason to fail: there are others.
            with contextlib.suppress(KernelGone):
                await self._adopt(kernel, launch)
                return kernel
        return None

    async def _fork_standby(self) -> Kernel:
        return await self._fork(self._directory / f"s{next(self._numbers)}", "standby")

    async def _give_fork(self, launch: KernelLaunch) -> Kernel:
        kernel = await self._fork(launch.directory, "fork", launch)
        await self._adopt(kernel, launch)
        return kernel

    async def _fork(self, directory: Path, by: StartedBy, launch: KernelLaunch | None = None) -> Kernel:
        if self.isolation is not None:
            directory = self.isolation.directory(directory)
        confined = self._confinement(directory, launch)
        sandboxed = self.isolation is not None and self.isolation.stands_by
        connection = create_connection(directory, seen_at=SOCKETS if sandboxed else None)
        proxy_socket = await self._open_proxy_socket(directory, launch)
        workspace = launch.workspace if launch is not None else None
        saved = Path(workspace.written) if workspace is not None else None
        cgroup = await self._cgroups.next(launch.policy if launch is not None else None)
        given = launch.shared if launch is not None and sandboxed else None
        wiring = Wiring(cgroup, proxy_socket, plan=confined.get("plan"), saved=saved, given=given)
        request = {
            "connection_file": f"{SOCKETS}/{INSIDE}" if sandboxed else str(connection.file),
            "max_bytes": self._limits.max_bytes,
            "max_messages": self._limits.max_messages,
            "group": wiring.cgroup.group is not None,
            "given": given is not None,
            "processors": wiring.cgroup.processors,
        }
        fds = wiring.fds(self._lifeline[0])
        try:
            forked = await self._channel.fork(request | confined, fds, timeout_s=self._start_timeout_s)
        except BaseException:
            wiring.handed_over()
            await wiring.drop()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        wiring.handed_over()
        resources = KernelResources(directory, wiring.line, proxy_socket, wiring.cgroup.group)
        starting_kernel = StartingKernel(
            process=KernelProcess(
                forked.pid,
                forked.pidfd,
                status=partial(self._channel.status_of, forked.pid),
                exit_output=wiring.exit_output,
                group=wiring.cgroup.group,
            ),
            client=KernelClient(connection),
            directory=directory,
            started_by=by,
            ready=wiring.ready,
            start_timeout_s=self._start_timeout_s,
            line=wiring.line,
            proxy_socket=proxy_socket,
            owner=self._checkpoint_groups.found(resources, wiring.line, forked.pid),
            kernel_channel=wiring.kernel_channel,
        )
        kernel: Kernel = await self._tasks.start(self._tend, starting_kernel)
        return kernel

    def _new_checkpoint_groups(self, tasks: anyio.abc.TaskGroup) -> CheckpointGroups:
        return CheckpointGroups(
            tasks,
            bring_up=partial(tasks.start, self._tend),
            lives=self._lives,
            isolation=self.isolation,
            readable=lambda: self._readable,
            directory=self._directory,
            lifeline_fd=self._lifeline[0],
            start_timeout_s=self._start_timeout_s,
        )

    def _isolation_of(self, launch: KernelLaunch | None) -> Isolation | None:
        return self.isolation.under(launch.policy if launch else None) if self.isolation else None

    async def _open_proxy_socket(self, directory: Path, launch: KernelLaunch | None) -> ProxySocket | None:
        """The kernel's way to the network, which must be there before the kernel is."""
        proxy_socket = isolation.proxy_socket() if (isolation := self._isolation_of(launch)) else None
        if proxy_socket is not None:
            await self._tasks.start(proxy_socket.serve, directory / PROXY_SOCKET)
        return proxy_socket

    def _confinement(self, directory: Path, launch: KernelLaunch | None) -> dict[str, Any]:
        """What a fork is asked for beyond the kernel itself."""
        isolation, workspace = self._isolation_of(launch), launch.workspace if launch is not None else None
        if isolation is None:
            return {}
        shared = launch.shared if launch is not None else None
        plan = isolation.plan(self._readable, self._environment, directory, workspace, shared=shared)
        return {"plan": plan, "directory": str(directory), "profile": isolation.profile(directory)}

    @property
    def _readable(self) -> list[str]:
        return self.isolation.readable(self._channel.paths) if self.isolation is not None else []

    async def _tend(
        self, starting_kernel: StartingKernel, *, task_status: anyio.abc.TaskStatus[Kernel]
    ) -> None:
        starting_kernel.process.shared_limit = self._shared_limit
        with self._lives(starting_kernel.process.pid):
            await tend(starting_kernel, task_status=task_status)

    @contextlib.contextmanager
    def _lives(self, pid: int) -> Iterator[None]:
        # A kernel and the sandbox that outlives it may have the same.
        self._living[pid] += 1
        try:
            yield
        finally:
            self._living -= Counter([pid])
            self._one_ended.set()

    async def _adopt(self, kernel: Kernel, launch: KernelLaunch) -> None:
        environment, approved = dict(launch.environment), None
        caches: tuple[str, ...] = ()
        if (isolation := self._isolation_of(launch)) is not None:
            environment = isolation.environment(environment, kernel.directory)
            caches = isolation.seen_caches(self._prepared)
            approved = dict(isolation.approved_imports)
        content = {
            "cwd": str(launch.cwd),
            "environment": environment,
            "max_bytes": launch.limits.max_bytes,
            "max_messages": launch.limits.max_messages,
            "layers": launch.layers,
            "caches": caches,
            "approved": approved,
            "digests": dict(launch.digests),
        }
        try:
            if self.isolation is not None and self.isolation.stands_by:
                await self._settle(kernel, launch)
            reply = await kernel.client.request(
                "cellwright_adopt_request", content, timeout_s=self._start_timeout_s
            )
        except BaseException:
            kernel.process.kill_tree("its session did not come to be")
            raise
        if (refusal := refusal_in(reply)) is not None:
            kernel.process.kill_tree("its session could not be set up")
            raise KernelStartError(f"The kernel could not enter its session: {refusal}")

    async def _settle(self, kernel: Kernel, launch: KernelLaunch) -> None:
        if self.isolation is None or kernel.line is None or launch.workspace is None:
            raise KernelStartError("A confined kernel needs a workspace")
        mounts = (
            []
            if launch.shared is not None
            else self._checkpoint_groups.mounts(launch.workspace, launch.policy)
        )
        await kernel.line.settle(mounts, saved=Path(launch.workspace.written))
        if isinstance(kernel.owner, CheckpointGroup):
            kernel.owner.settled(launch.workspace, mounts)

    def _require_alive(self) -> None:
        if self.died.is_set() or self.pid is None:
            raise KernelStartError(
                f"The fork server of {self.interpreter.python} has ended", hint="Try again"
            )

    def _start_error(self) -> KernelStartError:
        words = self._exit_output.text
        how = "ended" if self.died.is_set() else f"took more than {self._start_timeout_s:g} s"
        return KernelStartError(
            f"The fork server of {self.interpreter.python} {how} before it could fork"
            + (f"\nIt printed last:\n{words}" if words else ""),
            hint="Run `cellwright doctor` to check the interpreter",
        )

    async def _clean_up(self, process: Started, host_end: socket.socket) -> None:
        """End the process: without its channel it ends by itself, with everything it forked."""
        host_end.close()
        for fd in self._lifeline:
            os.close(fd)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(process.finish, END_GRACE_S)
        self._exit_output.close()
        shutil.rmtree(self._directory, ignore_errors=True)


async def _then_cancel(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


# What is opened for a forked kernel before its process is there, and closed again if it never is.


class Wiring:
    """The ends that stay here and the ends that go with the fork."""

    def __init__(
        self,
        cgroup: KernelCgroup,
        proxy_socket: ProxySocket | None,
        *,
        plan: dict[str, Any] | None,
        saved: Path | None,
        given: SharedWorkspace | None = None,
    ) -> None:
        """``plan`` is what a confined kernel is started with, ``saved`` where its files lie, if that is known yet.

        ``given`` is another kernel's workspace that it is to have.
        """
        self._given = given
        self.cgroup = cgroup
        self.proxy_socket = proxy_socket
        self.exit_output = ExitOutput()
        self.kernel_channel = KernelChannel()
        self.line = MonitorChannel(saved)
        self._plan = plan
        self._ready_read, self._ready_write = os.pipe2(os.O_CLOEXEC)

    def fds(self, lifeline_fd: int) -> list[int]:
        """What goes with the fork, in the order that ``cellwright_kernel._forkserver`` expects."""
        own = [
            self.exit_output.write_fd,
            self._ready_write,
            lifeline_fd,
            self.line.fd,
            self.kernel_channel.fd,
        ]
        given = [self._given.mount_fd] if self._given is not None else []
        return [*own, *given, *self.cgroup.fds]

    def handed_over(self) -> None:
        """Let go of the ends that went with the fork."""
        os.close(self._ready_write)
        self.cgroup.handed_over()
        self.exit_output.handed_over()
        self.line.handed_over()
        self.kernel_channel.handed_over()

    async def drop(self) -> None:
        """Close everything else too, where no process came to be; after ``handed_over``."""
        os.close(self._ready_read)
        self.exit_output.close()
        self.line.abandon()
        self.kernel_channel.close()
        if self.proxy_socket is not None:
            await self.proxy_socket.close()
        await self.cgroup.remove()

    async def ready(self) -> None:
        """Wait until the kernel listens, and show it its files where it is started with them."""
        try:
            if self._plan is not None:
                await self.line.furnish(self._plan)
            await self.kernel_channel.meet()
            await anyio.wait_readable(self._ready_read)
            if not os.read(self._ready_read, 1):
                # Its end is noticed and explained by whoever watches the process.
                await anyio.sleep_forever()
        finally:
            os.close(self._ready_read)


# Starts a fork server's process. What is said to it is ``fork_channel``'s, what for is ``forkserver``'s.

END_GRACE_S = 5.0


async def start_fork_server(
    interpreter: Interpreter,
    preload: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    exit_output: ExitOutput,
    programs: Programs,
    *,
    at_once: bool,
    single: bool,
) -> tuple[Started, socket.socket]:
    """The process, and this side's end of the channel to it.

    It warms up ``at_once``, or when nobody has wanted a kernel for a while.

    Raises:
        KernelStartError: the interpreter cannot be run.
    """
    host_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server_end:
        options = ["--at-once"] * at_once + ["--single"] * single
        for layer in interpreter.layers:
            options += ["--layer", str(layer)]
        for module in preload:
            options += ["--preload", module]
        channel = ["--channel", str(server_end.fileno())]
        program = Program(
            [str(interpreter.python), own_script("__main__.py"), *channel, *options],
            environment,
            directory,
            stdout=exit_output.write_fd,
            stderr=exit_output.write_fd,
            fds=[server_end.fileno()],
        )
        try:
            started = await programs.open(program)
        except BaseException as error:
            host_end.close()
            exit_output.close()
            if isinstance(error, OSError):
                raise KernelStartError(f"{interpreter.python} could not be started: {error}") from error
            raise
        finally:
            exit_output.handed_over()
    return started, host_end
