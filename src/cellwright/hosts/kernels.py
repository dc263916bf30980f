"""Starts, finds and ends all kernels of a host, and follows them from checkpoint to checkpoint.

It answers no engine (see ``server``), orders no cells (see ``runner``) and decides nothing about which checkpoints are
kept (see ``_checkpoints``).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from cellwright.errors import CheckpointRefused, HostError, KernelGone, KernelStartError
from cellwright.hosts import protocol
from cellwright.hosts._checkpoints import CheckpointRing
from cellwright.hosts._runner import KernelRunner
from cellwright.hosts._secondary_kernels import SecondaryKernel
from cellwright.hosts._watchdog import Usage, Watch
from cellwright.hosts.launchers import Launchers
from cellwright.hosts.protocol import CheckTypes, Diagnostic, HostOptions
from cellwright.kernels import CheckpointGroup, Exit, Kernel, KernelLaunch, OutputLimits, reap_strangers
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.tiers import LOSSES, NO_DOOR, SOFT_CPUS, Finding
from cellwright.sandbox.workspace import (
    SharedWorkspace,
    Workspace,
    prepare_storage,
    refuse_unhidden,
    without_overlay,
    without_secrets,
)

__all__ = ["Ending", "Kernels"]
# What the files of all checkpoints of a session take on the disk, where no quota says how much it may write.
_CAPACITY = 1 << 30


# How long after a kernel its host may be told of the same end.
_SAME_END_S = 3.0


class Ending:
    """That the host itself is being ended, and why: who ends a job may end its kernels first."""

    def __init__(self, *, doubtful: bool = False) -> None:
        """``doubtful`` is an end of a kernel that may be the host's, where others end both at once."""
        self._doubtful = doubtful
        self._told = anyio.Event()
        self.why: str | None = None

    def tell(self, why: str) -> None:
        self.why = why
        self._told.set()

    async def explain(self, end: Exit) -> tuple[Exit, bool]:
        """A kernel's end as the host's, if that is what it is; and whether it is."""
        if self._doubtful and end.cause in ("signal", "unknown"):
            with anyio.move_on_after(_SAME_END_S):
                await self._told.wait()
            if self.why is not None:
                return replace(end, cause="killed", message=self.why), True
        return end, False


class Kernels:
    """The runners of one host, by kernel, and what dead kernels left to go on from."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        launchers: Launchers,
        *,
        runtime: Path,
        options: Callable[[], protocol.HostOptions],
        report: Callable[[str, protocol.EventBody], None],
        ending: Ending,
    ) -> None:
        self._tasks = tasks
        self._launchers = launchers
        self._runtime = runtime
        self._options = options
        self._report = report
        self._ending = ending
        self.ends_at: float | None = None
        """When all of them will be ended by whoever gave the host its time, as far as that is near."""
        self._runners: dict[str, KernelRunner] = {}
        self._left: dict[str, CheckpointRing] = {}
        """Checkpoints of kernels that died."""
        # By the session's own directory: what a kernel wrote before it died is not there for the next one to begin with.
        self._found: dict[str, Usage] = {}
        self._count = 0
        self.limiter = anyio.CapacityLimiter(1)
        """How many start at the same time."""
        self._checks = TypeChecks(launchers, runtime)
        self.last_ended = time.monotonic()

    def __iter__(self) -> Iterator[KernelRunner]:
        return iter(list(self._runners.values()))

    def runner(self, kernel_id: str) -> KernelRunner:
        """The runner of a kernel that lives.

        Raises:
            KernelGone: there is none.
        """
        if kernel_id not in self._runners:
            raise KernelGone(f"Kernel {kernel_id} is not running here", hint="Run a cell to start a new one")
        return self._runners[kernel_id]

    # Beginnings --------------------------------------------------------------------------------------------------

    async def start(self, request: protocol.StartKernel) -> protocol.KernelReady:
        """Start a kernel.

        Raises:
            KernelStartError: it could not be had.
        """
        if request.kernel_id in self._runners:
            raise HostError(f"Kernel {request.kernel_id} is already running here")
        if isinstance(request.kind, protocol.JupyterKernel):
            return await self._start_elsewhere(request, request.kind)
        options = self._options()
        async with self.limiter:
            self._count += 1
            # Before anything is waited for: starts at the same time must not share a directory.
            directory = self._runtime / f"k{self._count}"
            workspace = await find_workspace(request.place, options, self._launchers, self._runtime)
            launch = KernelLaunch(
                kernel_id=request.kernel_id,
                directory=directory,
                cwd=Path(workspace.cwd if workspace is not None else request.cwd),
                environment=request.environment,
                limits=self._output_limits(),
                workspace=workspace,
                layers=await self._launchers.seen_layers(request.layers, options),
                policy=request.policy,
            )
            kernel, interpreter = await self._launchers.launch(request.kind, launch, options)
        finding = await self._launchers.finding(options) if options.policy is not None else None
        ready = protocol.KernelReady(
            pid=kernel.process.pid,
            started_by=kernel.started_by,
            interpreter=str(interpreter.python) if interpreter is not None else None,
            language=kernel.language,
            tier=finding.tier if finding is not None else "none",
            losses=losses(finding, options, request.policy, kernel),
            mode=mode_of(request, launch.workspace),
            cwd=str(launch.cwd),
            python_version=interpreter.version if interpreter is not None else "",
            search_path=interpreter.search_path if interpreter is not None else (),
        )
        policy = (request.policy or options.policy) if launch.workspace is not None else None
        # Where nothing is confined, files are where the session asked to work.
        at = workspace or Workspace(
            "direct", request.cwd, None, str(self._runtime / f"{directory.name}-kept")
        )
        ring = self._ring(kernel, at, ready, policy)
        await self._follow(request.kernel_id, kernel, ring, launch.workspace, policy, cwd=str(launch.cwd))
        return ready

    def _ring(
        self, kernel: Kernel, workspace: Workspace, ready: protocol.KernelReady, policy: Policy | None
    ) -> CheckpointRing | None:
        """The checkpoints of a kernel that was just started; None where it cannot have any."""
        if not isinstance(kernel.owner, CheckpointGroup):
            return None
        capacity = policy.disk_bytes if policy is not None else _CAPACITY
        return CheckpointRing(
            kernel.owner, workspace, self._options, ready=ready, policy=policy, capacity=capacity
        )

    async def _start_elsewhere(
        self, request: protocol.StartKernel, kind: protocol.JupyterKernel
    ) -> protocol.KernelReady:
        kernel = await self._launch_elsewhere(request.kernel_id, kind)
        await self._follow(request.kernel_id, kernel, None, None, None)
        return ready_elsewhere(kernel)

    async def _launch_elsewhere(self, kernel_id: str, kind: protocol.JupyterKernel) -> Kernel:
        """A kernel on a server: none of this machine's places and limits are its own."""
        async with self.limiter:
            self._count += 1
            launch = KernelLaunch(
                kernel_id=kernel_id,
                directory=self._runtime / f"k{self._count}",
                cwd=self._runtime,
                environment={},
                limits=self._output_limits(),
            )
            kernel, _ = await self._launchers.launch(kind, launch, self._options())
            return kernel

    async def check_types(self, request: protocol.CheckTypes) -> list[protocol.Diagnostic]:
        """What is wrong with the types of a notebook's cells; its kernels go on meanwhile.

        Raises:
            KernelError: the check did not get through.
        """
        self._count += 1
        return await self._checks.check(request, self._options(), self._runtime / f"c{self._count}")

    async def roll_back(self, request: protocol.RollBack) -> protocol.KernelReady:
        """Let a checkpoint take the place of a kernel, dead or alive, with the files that it had.

        Raises:
            UnknownCheckpoint: it is not kept.
            FileFailed: the files cannot be put back. The kernel has ended, and its checkpoints are kept.
        """
        ring = self.ring(request.kernel_id)
        kept = ring.get(request.checkpoint_id)
        runner = self._runners.get(request.kernel_id)
        ended_beside = runner.secondary.names if runner is not None else ()
        with anyio.CancelScope(shield=True):
            if runner is not None:
                await runner.make_way()
            # As long as nothing follows, they are what a kernel has left.
            self._left[request.kernel_id] = ring
            lost = await ring.put_files_back(kept)
            kernel = await ring.checkpoint_group.spawn(kept.frozen, self._output_limits())
            del self._left[request.kernel_id]
            await self._follow(request.new_kernel_id, kernel, ring, self._watched(ring), ring.policy)
        beside = [f"the variables of the {name} kernel, which ended" for name in ended_beside]
        return succeeding(ring.ready, kernel, [*lost, *beside])

    async def branch(self, request: protocol.BranchKernel) -> protocol.KernelReady:
        """Let a checkpoint go on as a second kernel, in a sandbox of its own.

        Raises:
            CheckpointRefused: it cannot have one.
            UnknownCheckpoint: it is not kept.
        """
        ring = self.ring(request.kernel_id)
        kept = ring.get(request.checkpoint_id)
        if ring.policy is None:
            raise CheckpointRefused("a branch needs a sandbox of its own, and there is none here")
        workspace = replace(request.place, hidden=(*request.place.hidden, str(self._runtime)))
        async with self.limiter:
            await anyio.to_thread.run_sync(prepare_storage, workspace)
            lost = await ring.copy_files(kept, workspace)
            with anyio.CancelScope(shield=True):
                checkpoint_group, kernel = await ring.checkpoint_group.grow(
                    kept.frozen, self._output_limits(), workspace, ring.policy
                )
                ready = msgspec.structs.replace(ring.ready, mode=workspace.mode, cwd=workspace.cwd)
                own = CheckpointRing(
                    checkpoint_group,
                    workspace,
                    self._options,
                    ready=ready,
                    policy=ring.policy,
                    capacity=ring.capacity,
                )
                await self._follow(request.new_kernel_id, kernel, own, workspace, ring.policy)
        runner = self._runners.get(request.kernel_id)
        names = runner.secondary.names if runner is not None else ()
        beside = [f"the variables of the {name} kernel, which cannot be copied" for name in names]
        return succeeding(ready, kernel, [*lost, *beside])

    async def transfer(self, request: protocol.Transfer) -> None:
        """Know a kernel by another id; whoever had that one has ended."""
        if request.new_kernel_id in self._runners:
            raise HostError(f"Kernel {request.new_kernel_id} is already running here")
        runner = self.runner(request.kernel_id)
        workspace = replace(request.place, hidden=(*request.place.hidden, str(self._runtime)))
        # They see the files where they were.
        await runner.secondary.stop(grace_s=0)
        if runner.ring is not None:
            await runner.ring.move(runner.kernel, workspace, self._output_limits())
        del self._runners[request.kernel_id]
        runner.kernel_id = request.new_kernel_id
        self._runners[request.new_kernel_id] = runner

    # Ends --------------------------------------------------------------------------------------------------------

    async def stop(self, kernel_id: str) -> None:
        """End a kernel, if it lives, and let go of its checkpoints."""
        if kernel_id in self._runners:
            await self._runners[kernel_id].stop()
        if kernel_id in self._left:
            await self._left.pop(kernel_id).close()

    def expire(self, ends_at: float) -> None:
        """Tell all kernels, and those to come, when they will be ended."""
        self.ends_at = ends_at
        for kernel_id in self._runners:
            self._report(kernel_id, protocol.Expiring(ends_at))

    async def stop_all(self) -> None:
        """End everything."""
        async with anyio.create_task_group() as stopping:
            for kernel_id in {*self._runners, *self._left}:
                stopping.start_soon(self.stop, kernel_id)

    # What all of them have in common -----------------------------------------------------------------------------

    def ring(self, kernel_id: str) -> CheckpointRing:
        """The checkpoints of a kernel, dead or alive.

        Raises:
            CheckpointRefused: its kind has none.
        """
        runner = self._runners.get(kernel_id)
        ring = runner.ring if runner is not None else self._left.get(kernel_id)
        if ring is None:
            raise CheckpointRefused("only Python kernels of our own have checkpoints")
        return ring

    def _output_limits(self) -> OutputLimits:
        options = self._options()
        return OutputLimits(options.max_output_bytes, options.max_output_messages)

    @staticmethod
    def _watched(ring: CheckpointRing) -> Workspace | None:
        return ring.workspace if ring.policy is not None else None

    async def _follow(
        self,
        kernel_id: str,
        kernel: Kernel,
        ring: CheckpointRing | None,
        workspace: Workspace | None,
        policy: Policy | None,
        *,
        cwd: str = "",
    ) -> None:
        """Look after a kernel from now on; ``cwd`` is where it works if neither place nor ring tells."""
        watch = None
        if workspace is not None and policy is not None:
            kernel.process.policy = policy
            watch = await self._watch(kernel, workspace, policy)
            self._found[workspace.storage] = watch.found

        def where() -> Workspace | None:
            return ring.workspace if ring is not None and workspace is not None else workspace

        async def start_secondary(side: protocol.Side) -> SecondaryKernel:
            at = where()
            working = cwd or (ring.ready.cwd if ring is not None else "")
            return await self._start_secondary(
                kernel, side, at, policy, at.cwd if at is not None else working
            )

        runner = KernelRunner(
            kernel_id,
            kernel,
            self._options,
            self._report,
            watch=watch,
            ring=ring,
            start_secondary=start_secondary,
            explain=self._ending.explain,
        )
        self._runners[kernel_id] = runner
        if self.ends_at is not None:
            self._report(kernel_id, protocol.Expiring(self.ends_at))
        # Shielded: an engine that goes away now must leave a kernel that is known, or none.
        with anyio.CancelScope(shield=True):
            await self._tasks.start(self._run, runner)

    async def _start_secondary(
        self, main: Kernel, side: protocol.Side, workspace: Workspace | None, policy: Policy | None, cwd: str
    ) -> SecondaryKernel:
        """A kernel in the place of another.

        Raises:
            KernelStartError: it could not be had.
        """
        if isinstance(side.kind, protocol.JupyterKernel):
            name = f"{main.directory.name}+{side.name}"
            return SecondaryKernel(await self._launch_elsewhere(name, side.kind))
        options = self._options()
        async with self.limiter:
            self._count += 1
            directory = self._runtime / f"k{self._count}"
            layers = await self._launchers.seen_layers(side.layers, options)
            isolation = await self._launchers.isolation(options)
            sandboxed = isolation is not None and isolation.stands_by
            async with shared_workspace(main, workspace, sandboxed=sandboxed) as shared:
                launch = KernelLaunch(
                    kernel_id=f"{main.directory.name}+{side.name}",
                    directory=directory,
                    cwd=Path(cwd),
                    environment=side.environment,
                    limits=self._output_limits(),
                    workspace=workspace,
                    layers=layers,
                    policy=policy,
                    shared=shared,
                )
                kernel, _ = await self._launchers.launch(side.kind, launch, options)
        if workspace is None or policy is None:
            return SecondaryKernel(kernel)
        kernel.process.policy = policy
        return SecondaryKernel(kernel, await self._watch(kernel, workspace, policy, main))

    async def _watch(
        self, kernel: Kernel, workspace: Workspace, policy: Policy, holder: Kernel | None = None
    ) -> Watch:
        """Whoever looks after what a kernel takes; ``holder`` holds what is written, where that is another one."""
        if kernel.line is not None and not kernel.process.in_group:
            await kernel.line.borrow_diagnostics()
        found = self._found.get(workspace.storage)
        return await anyio.to_thread.run_sync(Watch, kernel, workspace, policy, found, holder)

    async def _run(
        self, runner: KernelRunner, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            await runner.run(task_status=task_status)
        finally:
            self._runners.pop(runner.kernel_id, None)
            self.last_ended = time.monotonic()
            with anyio.CancelScope(shield=True):
                await self._keep_what_is_left(runner)
                async with self._launchers.trying:
                    kernels = {kernel.process.pid for other in self for kernel in other.kernels}
                    reap_strangers(kernels | self._launchers.pids)

    async def _keep_what_is_left(self, runner: KernelRunner) -> None:
        ring = runner.ring
        if ring is None or runner.made_way:
            return
        if ring and not runner.was_stopped:
            self._left[runner.kernel_id] = ring
        else:
            await ring.close()


# What is told of a kernel that is ready: how strongly it is confined, what is missing there, where it works.
# Pure.


def ready_elsewhere(kernel: Kernel) -> protocol.KernelReady:
    """What is told of a kernel on a Jupyter server."""
    return protocol.KernelReady(
        pid=kernel.process.pid,
        started_by=kernel.started_by,
        interpreter=None,
        language=kernel.language,
        tier="remote",
        losses=LOSSES["remote"],
        remote=kernel.remote,
        remote_ours=kernel.remote_ours,
        remote_languages=kernel.remote_languages,
    )


def succeeding(ready: protocol.KernelReady, kernel: Kernel, lost: list[str]) -> protocol.KernelReady:
    """What is told of a kernel that goes on from a checkpoint: as of the one before it, but for what is its own."""
    own = {"pid": kernel.process.pid, "started_by": kernel.started_by, "lost": (*kernel.lost, *lost)}
    return msgspec.structs.replace(ready, **own)


def losses(
    finding: Finding | None, options: protocol.HostOptions, narrowed: Policy | None, kernel: Kernel
) -> tuple[str, ...]:
    """What a session does without, beyond its tier's."""
    if finding is None:
        return LOSSES["none"]
    lost = finding.losses
    policy = narrowed or options.policy
    if (
        options.opening is not None
        and kernel.proxy_socket is None
        and (narrowed is None or narrowed.network != "off")
    ):
        lost = (*lost, NO_DOOR)
    if policy is not None and policy.cpus is not None and not finding.shares_processors:
        lost = (*lost, SOFT_CPUS)
    return lost


def mode_of(request: protocol.StartKernel, workspace: Workspace | None) -> Mode:
    if workspace is not None:
        return workspace.mode
    # Nothing is confined: a folder of its own can be had, a view of the project cannot.
    return "private" if request.place is not None and request.place.mode == "private" else "direct"


# Checks of a notebook's types, one at a time, beside whatever its kernels do. How one is made is
# ``kernels.typecheck``'s.


class TypeChecks:
    """All checks of one host."""

    def __init__(self, launchers: Launchers, runtime: Path) -> None:
        self._launchers = launchers
        self._runtime = runtime
        # Each takes a processor for a second, and cells come first.
        self._limiter = anyio.CapacityLimiter(1)

    async def check(self, request: CheckTypes, options: HostOptions, directory: Path) -> list[Diagnostic]:
        """What is wrong with the types of a notebook's cells; ``directory`` is made, and gone afterwards.

        Raises:
            KernelError: the check did not get through.
            TimeoutError: it took too long.
        """
        workspace = await find_workspace(request.place, options, self._launchers, self._runtime)
        launch = KernelLaunch(
            kernel_id="",
            directory=directory,
            cwd=Path(workspace.cwd if workspace is not None else request.cwd),
            environment={},
            limits=OutputLimits(options.max_output_bytes, options.max_output_messages),
            workspace=workspace,
            policy=request.policy,
        )
        checker = await self._launchers.type_checker(options)
        async with self._limiter:
            return await checker.check(launch, request.cells, request.tsconfig)


# Where a session works on this machine: the place that was asked for, as far as it can be had here, made
# ready.


async def find_workspace(
    wanted: Workspace | None, options: HostOptions, launchers: Launchers, runtime: Path
) -> Workspace | None:
    """The place of a session; None where nothing is confined. ``runtime`` is the host's own, and never seen there.

    Raises:
        KernelStartError: what is confined needs a place, and there is none.
    """
    if options.policy is None:
        if wanted is not None and wanted.mode == "private":
            prepare_storage(wanted)
        return None
    if wanted is None:
        raise KernelStartError("A confined kernel needs a workspace")
    found = await launchers.finding(options)
    workspace = replace(wanted, hidden=(*wanted.hidden, str(runtime)))
    if found.tier == "C":
        workspace = without_secrets(workspace)
        workspace = without_overlay(workspace) if workspace.mode == "overlay" else workspace
        refuse_unhidden(workspace)
    prepare_storage(workspace)
    return workspace


@contextlib.asynccontextmanager
async def shared_workspace(
    kernel: Kernel, workspace: Workspace | None, *, sandboxed: bool
) -> AsyncIterator[SharedWorkspace | None]:
    """A kernel's workspace, for as long as another one is started in it; None where nothing is confined."""
    if workspace is None or kernel.line is None:
        yield None
        return
    mount_fd = await kernel.line.share(workspace.top) if sandboxed else -1
    try:
        # In a sandbox its place is its user's, whoever has the files outside. Without one its sockets tell: the first
        # kernel's of its home, since one that goes on from a checkpoint has a directory that is the host's own.
        owner = os.fstat(mount_fd) if sandboxed else kernel.owner.directory.stat()
        yield SharedWorkspace(mount_fd, (owner.st_uid, owner.st_gid))
    finally:
        if mount_fd >= 0:
            os.close(mount_fd)
