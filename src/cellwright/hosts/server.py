"""The host: owns kernels and what they run, numbers and journals what they say, and answers its engine.

It lives in a process of its own and outlives its engines; the newest one to attach is the engine. It knows no
notebooks and no sessions (see ``engine``). How a kernel's work is ordered stands in ``jobs`` and ``runner``.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.abc
import msgspec

import cellwright
from cellwright.errors import CellwrightError, HostError, KernelGone, KernelStartError, LimitReached
from cellwright.hosts import jobs, protocol
from cellwright.hosts.attachment import Attachment
from cellwright.hosts.eventlog import EventLog
from cellwright.hosts.launchers import Launchers
from cellwright.hosts.memory import memory_fraction
from cellwright.hosts.runner import KernelRunner
from cellwright.hosts.watching import Usage, Watch
from cellwright.kernels import Kernel, KernelLaunch, OutputLimits, adopt_orphans, reap_strangers
from cellwright.sandbox.places import Place, without_overlay
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.storage import prepare_storage
from cellwright.sandbox.tiers import LOSSES, NO_DOOR, SOFT_CPUS, Finding

__all__ = ["Host"]

_log = logging.getLogger(__name__)
_WATCH_S = 0.25
_LIMITS_WATCH_S = 0.1
_IDLE_LOOKS = 20
_IDLE_CHECK_SHARE = 4


class Host:
    """All kernels of one machine or allocation, for one storage directory."""

    def __init__(self, *, incarnation: str, journal: Path, runtime: Path, cache: Path) -> None:
        self.incarnation = incarnation
        self._log = EventLog(journal)
        self._runtime = runtime
        self._cache = cache
        self._options: protocol.HostOptions | None = None
        self._runners: dict[str, KernelRunner] = {}
        self._engine: Attachment | None = None
        self._kernel_count = 0
        # By the session's own directory: what a kernel wrote before it died is not there for the next one to begin with.
        self._found: dict[str, Usage] = {}
        self._last_needed = time.monotonic()
        self._stopped = anyio.Event()
        self._limiter = anyio.CapacityLimiter(1)

    async def serve(self, listener: anyio.abc.SocketListener) -> None:
        """Answer engines until told to stop, or until idle for as long as the options say."""
        adopt_orphans()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._launchers = Launchers(tasks, runtime=self._runtime, cache=self._cache)
            tasks.start_soon(listener.serve, self._serve_connection)
            tasks.start_soon(self._watch)
            tasks.start_soon(self._watch_limits)
            tasks.start_soon(self._end_when_idle)
            await self._stopped.wait()
            await self._stop_kernels()
            tasks.cancel_scope.cancel()
        self._log.close()

    def stop(self) -> None:
        self._stopped.set()

    # Connections -------------------------------------------------------------------------------------------------

    async def _serve_connection(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            connection = Attachment(stream, self._log)
            try:
                async with anyio.create_task_group() as calls:
                    await connection.serve(lambda call: self._take(connection, call, calls))
                    calls.cancel_scope.cancel()
            finally:
                if self._engine is connection:
                    self._engine = None
                    self._last_needed = time.monotonic()

    def _take(self, connection: Attachment, call: protocol.Call, calls: anyio.abc.TaskGroup) -> None:
        """Begin a call. Executions are queued right here, so that their order is the order they came in."""
        if isinstance(call.request, protocol.Execute | protocol.Cancel | protocol.Interrupt):
            try:
                self._control(call.request)
            except CellwrightError as error:
                calls.start_soon(connection.send, _refusal(call.id, error))
            else:
                calls.start_soon(connection.send, _reply(call.id, None))
        else:
            calls.start_soon(self._answer, connection, call, calls)

    async def _answer(self, connection: Attachment, call: protocol.Call, calls: anyio.abc.TaskGroup) -> None:
        try:
            result = await self._do(connection, call.request, calls)
        except (CellwrightError, TimeoutError) as error:
            await connection.send(_refusal(call.id, error))
        except Exception as error:  # noqa: BLE001  # boundary: a defect in one request must not end everybody's kernels
            _log.exception("request_failed kind=%s", type(call.request).__name__)
            await connection.send(_refusal(call.id, HostError(f"The host failed: {error!r}")))
        else:
            await connection.send(_reply(call.id, result))

    # Requests ----------------------------------------------------------------------------------------------------

    def _control(self, request: protocol.Request) -> None:
        match request:
            case protocol.Execute(kernel_id, runs):
                self._refuse_when_memory_is_short()
                runner = self._runner(kernel_id)
                for run in runs:
                    runner.happened(jobs.Submitted(run))
            case protocol.Cancel(kernel_id, execution_id):
                self._runner(kernel_id).happened(jobs.Cancelled(execution_id))
            case protocol.Interrupt(kernel_id):
                self._runner(kernel_id).happened(jobs.Interrupted())
            case _:
                raise HostError(f"{type(request).__name__} is not a control request")

    async def _do(
        self, connection: Attachment, request: protocol.Request, calls: anyio.abc.TaskGroup
    ) -> object:
        result: object = None
        match request:
            case protocol.Attach():
                result = self._attach(connection, request, calls)
            case protocol.StartKernel():
                result = await self._start_kernel(request)
            case protocol.StopKernel(kernel_id):
                if kernel_id in self._runners:
                    await self._runners[kernel_id].stop()
            case protocol.Ask(kernel_id, kind, content, timeout_s):
                result = await self._runner(kernel_id).ask(kind, content, timeout_s=timeout_s)
            case protocol.AddLayers(kernel_id, layers):
                seen = await self._launchers.seen_layers(layers, self._required_options())
                await self._runner(kernel_id).kernel.add_layers(seen)
            case protocol.Acknowledge(seq):
                self._log.forget(seq, keep=connection.cursor)
            case protocol.Status() | protocol.Ping():
                result = self._attached()
            case protocol.Stop():
                self._stopped.set()
            case _:
                raise HostError(f"{type(request).__name__} is not a request the host answers")
        return result

    def _attach(
        self, connection: Attachment, request: protocol.Attach, calls: anyio.abc.TaskGroup
    ) -> protocol.Attached:
        if request.protocol != protocol.PROTOCOL_VERSION:
            raise HostError(
                f"This host speaks protocol {protocol.PROTOCOL_VERSION}, the engine {request.protocol}",
                hint="Stop the host by ending its sessions, then try again",
            )
        if self._engine is not None and self._engine is not connection:
            self._engine.close()
        self._engine = connection
        self._options = request.options
        self._limiter.total_tokens = request.options.max_concurrent_starts
        since = request.since if request.incarnation == self.incarnation else 0
        calls.start_soon(connection.follow, since)
        self._tasks.start_soon(self._warm_up, request)
        return self._attached()

    def _attached(self) -> protocol.Attached:
        return protocol.Attached(
            incarnation=self.incarnation,
            last_seq=self._log.last_seq,
            pid=os.getpid(),
            version=cellwright.__version__,
            protocol=protocol.PROTOCOL_VERSION,
            kernels=tuple(runner.status() for runner in self._runners.values()),
        )

    async def _warm_up(self, attach: protocol.Attach) -> None:
        try:
            await self._launchers.fork_server(None, attach.environment, attach.options)
        except CellwrightError as error:  # the first session will meet it again and be told
            _log.warning("warm_up_failed %s", error)

    async def _start_kernel(self, request: protocol.StartKernel) -> protocol.KernelReady:
        if request.kernel_id in self._runners:
            raise HostError(f"Kernel {request.kernel_id} is already running here")
        self._refuse_when_memory_is_short()
        options = self._required_options()
        async with self._limiter:
            self._kernel_count += 1
            # Before anything is waited for: starts at the same time must not share a directory.
            directory = self._runtime / f"k{self._kernel_count}"
            place = await self._place(request, options)
            launch = KernelLaunch(
                kernel_id=request.kernel_id,
                directory=directory,
                cwd=Path(place.cwd if place is not None else request.cwd),
                environment=request.environment,
                limits=OutputLimits(options.max_output_bytes, options.max_output_messages),
                place=place,
                layers=await self._launchers.seen_layers(request.layers, options),
                policy=request.policy,
            )
            kernel, interpreter = await self._launchers.launch(request.kind, launch, options)
        watch = None
        if launch.place is not None and options.policy is not None:
            kernel.process.policy = policy = request.policy or options.policy
            session = launch.place.storage
            found = self._found.get(session)
            watch = await anyio.to_thread.run_sync(Watch, kernel, launch.place, policy, found)
            self._found[session] = watch.found
        runner = KernelRunner(request.kernel_id, kernel, self._required_options, self._report, watch=watch)
        self._runners[request.kernel_id] = runner
        # Shielded: an engine that goes away now must leave a kernel that is known, or none.
        with anyio.CancelScope(shield=True):
            await self._tasks.start(self._run_kernel, runner)
        finding = await self._launchers.finding(options) if options.policy is not None else None
        return protocol.KernelReady(
            pid=kernel.process.pid,
            started_by=kernel.started_by,
            interpreter=str(interpreter.python) if interpreter is not None else None,
            language=kernel.info.get("language_info", {}),
            tier=finding.tier if finding is not None else "none",
            losses=_losses(finding, options, request.policy, kernel),
            mode=_mode(request, launch.place),
            cwd=str(launch.cwd),
            python_version=interpreter.version if interpreter is not None else "",
            search_path=interpreter.search_path if interpreter is not None else (),
        )

    async def _place(self, request: protocol.StartKernel, options: protocol.HostOptions) -> Place | None:
        if options.policy is None:
            if request.place is not None and request.place.mode == "private":
                prepare_storage(request.place)
            return None
        if request.place is None:
            raise KernelStartError("A confined kernel needs a place to work in")
        found = await self._launchers.finding(options)
        place = replace(request.place, hidden=(*request.place.hidden, str(self._runtime)))
        if place.mode == "overlay" and found.tier == "C":
            place = without_overlay(place)
        prepare_storage(place)
        return place

    async def _run_kernel(
        self, runner: KernelRunner, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            await runner.run(task_status=task_status)
        finally:
            self._runners.pop(runner.kernel_id, None)
            self._last_needed = time.monotonic()
            with anyio.CancelScope(shield=True):
                async with self._launchers.trying:
                    kernels = {other.kernel.process.pid for other in self._runners.values()}
                    reap_strangers(kernels | self._launchers.pids)

    # State -------------------------------------------------------------------------------------------------------

    def _report(self, kernel_id: str, body: protocol.EventBody) -> None:
        self._log.append(kernel_id, body, time=time.time())
        if self._engine is not None:
            self._engine.log_grew()

    def _runner(self, kernel_id: str) -> KernelRunner:
        if kernel_id not in self._runners:
            raise KernelGone(f"Kernel {kernel_id} is not running here", hint="Run a cell to start a new one")
        return self._runners[kernel_id]

    def _required_options(self) -> protocol.HostOptions:
        if self._options is None:
            raise HostError("No engine has attached to this host yet", hint="Attach first")
        return self._options

    def _refuse_when_memory_is_short(self) -> None:
        limit = self._required_options().max_memory_fraction
        used = memory_fraction()
        if used > limit:
            raise LimitReached(
                f"{used:.0%} of the machine's memory is in use, over the limit of {limit:.0%}",
                setting="max_memory_fraction",
                hint="Suspend sessions or free memory, or raise CELLWRIGHT_MAX_MEMORY_FRACTION",
            )

    # Watching ----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(_WATCH_S)
            self._guard_memory()
            if self._log.retry() and self._engine is not None:
                self._engine.log_grew()

    async def _watch_limits(self) -> None:
        idle_looks = 0
        while True:
            await anyio.sleep(_LIMITS_WATCH_S)
            idle_looks = (idle_looks + 1) % _IDLE_LOOKS
            for runner in list(self._runners.values()):
                # Threads and daemons of a kernel may go on when no cell runs, but hardly ever do.
                if runner.watch is not None and (runner.busy or idle_looks == 0):
                    hit = await anyio.to_thread.run_sync(runner.watch.look)
                    if hit is not None:
                        runner.kernel.process.kill_tree(hit)

    def _guard_memory(self) -> None:
        busy = [runner for runner in self._runners.values() if runner.busy]
        if not busy or any(runner.stopping for runner in busy):
            return
        if memory_fraction() > self._required_options().max_memory_fraction:
            largest = max(busy, key=lambda runner: runner.kernel.process.memory_bytes())
            largest.happened(jobs.MemoryShort())

    async def _end_when_idle(self) -> None:
        while True:
            idle_s = self._options.idle_s if self._options is not None else 60.0
            await anyio.sleep(idle_s / _IDLE_CHECK_SHARE)
            if self._engine is not None or any(runner.has_work for runner in self._runners.values()):
                self._last_needed = time.monotonic()
            elif time.monotonic() - self._last_needed >= idle_s:
                _log.info("idle_for_s=%s, ending", idle_s)
                self.stop()

    async def _stop_kernels(self) -> None:
        with anyio.move_on_after(10, shield=True):
            async with anyio.create_task_group() as stopping:
                for runner in list(self._runners.values()):
                    stopping.start_soon(runner.stop)


def _losses(
    finding: Finding | None, options: protocol.HostOptions, narrowed: Policy | None, kernel: Kernel
) -> tuple[str, ...]:
    """What a session does without, beyond its tier's."""
    if finding is None:
        return LOSSES["none"]
    losses = finding.losses
    policy = narrowed or options.policy
    if (
        options.opening is not None
        and kernel.door is None
        and (narrowed is None or narrowed.network != "off")
    ):
        losses = (*losses, NO_DOOR)
    if policy is not None and policy.cpus is not None and not finding.shares_processors:
        losses = (*losses, SOFT_CPUS)
    return losses


def _mode(request: protocol.StartKernel, place: Place | None) -> Mode:
    if place is not None:
        return place.mode
    # Nothing is confined: a folder of its own can be had, a view of the project cannot.
    return "private" if request.place is not None and request.place.mode == "private" else "direct"


def _reply(call_id: int, result: object) -> protocol.Reply:
    return protocol.Reply(call_id, msgspec.Raw(msgspec.msgpack.encode(result)))


def _refusal(call_id: int, error: CellwrightError | TimeoutError) -> protocol.Refusal:
    if isinstance(error, CellwrightError):
        setting = error.setting if isinstance(error, LimitReached) else None
        return protocol.Refusal(call_id, error.code, error.message, error.hint, setting)
    return protocol.Refusal(
        call_id, "timeout", "The kernel did not answer in time", "Try again, or interrupt it"
    )
