"""The host: owns kernels and what they run, numbers and journals what they say, and answers its engine.

It lives in a process of its own and outlives its engines; the newest one to attach is the engine. It knows no
notebooks and no sessions (see ``engine``). How a kernel's work is ordered stands in ``_cell_queue`` and ``_runner``.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TypeAlias

import anyio
import anyio.abc
import msgspec
import psutil

import cellwright
from cellwright.errors import CellwrightError, HostError, LimitReached
from cellwright.hosts import _cell_queue, protocol
from cellwright.hosts._event_log import Cursor, EventLog
from cellwright.hosts._gpu_use import GpuWatch
from cellwright.hosts._runner import KernelRunner
from cellwright.hosts.connection import FrameReader, frame
from cellwright.hosts.kernels import Ending, Kernels
from cellwright.hosts.launchers import JobSteps, Launchers
from cellwright.hosts.protocol import HostOptions, KernelStatus, Resources
from cellwright.kernels import adopt_orphans
from cellwright.sandbox.policy import Policy, memory_lost, memory_share, with_memory
from cellwright.sandbox.tiers import Tier

__all__ = [
    "V1",
    "V2",
    "GroupFiles",
    "Host",
    "HostEnvironment",
    "MemoryUse",
    "group_use",
    "machine_memory",
]
_log = logging.getLogger(__name__)

_WATCH_S = 0.25

_ENDING_LOOKS = 20

_LIMITS_WATCH_S = 0.1

_IDLE_LOOKS = 20

_IDLE_CHECK_SHARE = 4

_IDLE_CHECK_S = 4.0

_WIND_UP_S = 5.0

_STOP_S = 20.0

_WINDING_UP_S = 0.02

_WORDS = 500


# How much memory this machine has, or the container or service around this process, and how much of it is in use.
# Reads; decides nothing.

_CGROUP = Path("/sys/fs/cgroup")

GroupFiles: TypeAlias = tuple[str, str, str]
"""The names of a cgroup's limit, of what it uses, and of the part of that which is given back when asked."""

V1: GroupFiles = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")

V2: GroupFiles = ("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory that there is, and the part that runs have taken and cannot give back, in bytes."""

    total: int
    used: int
    around: float = 0.0
    """The part in use of a container or machine around it, where that is fuller than it is itself."""

    @property
    def fraction(self) -> float:
        """The part in use, here or around it, whichever is fuller: where either is full nothing more fits."""
        return max(self.around, self.used / self.total if self.total else 0.0)


def machine_memory() -> MemoryUse:
    """The memory of this machine, or of that container or service around this process which leaves the least.

    It counts as full as the fullest of them is.
    """
    machine = psutil.virtual_memory()
    whole = MemoryUse(machine.total, machine.total - machine.available)
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return whole
    found = (group_use(*place, below=whole.total) for place in _groups_around(own, _CGROUP))
    limited = [_within(use, whole) for use in found if use is not None]
    least, fullest = min(limited, default=whole, key=_left), max(limited, default=whole, key=_fraction)
    return replace(least, around=fullest.fraction) if fullest.fraction > least.fraction else least


def _within(container: MemoryUse, machine: MemoryUse) -> MemoryUse:
    """A container's memory, which is as full as the machine is where that is fuller."""
    used = int(container.total * max(container.fraction, machine.fraction))
    return MemoryUse(container.total, used)


def _left(use: MemoryUse) -> int:
    return use.total - use.used


def _fraction(use: MemoryUse) -> float:
    return use.fraction


@lru_cache(maxsize=1)
def _groups_around(own: str, mounted: Path) -> tuple[tuple[str, GroupFiles], ...]:
    """The cgroups that a process is in, by what ``/proc`` says of it, each with the names of its files."""
    found: list[tuple[str, GroupFiles]] = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (mounted / "memory", V1) if controllers else (mounted, V2)
        # Inside a container the path is the machine's, or starts where the container does: all that is there counts.
        inside = PurePath(path.lstrip("/"))
        found += [(str(top / part), names) for part in dict.fromkeys((inside, *inside.parents))]
    return tuple(found)


def group_use(directory: str, names: GroupFiles, *, below: int) -> MemoryUse | None:
    """What a cgroup may have and has, by the names of its files; None where it has no limit below this one.

    A host asks before each cell: what tells nothing is not read.
    """
    limit_name, used_name, cache_name = names
    try:
        limit = int(_content(f"{directory}/{limit_name}"))
        if limit >= below:
            return None
        used = int(_content(f"{directory}/{used_name}"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return MemoryUse(limit, max(0, used - _cached(f"{directory}/memory.stat", cache_name)))


def _cached(path: str, name: str) -> int:
    try:
        found = re.search(rf"^{name} (\d+)$", _content(path), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found is not None else 0


def _content(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


# Before anybody has said how long.
_IDLE_S = 60.0


def idle_here(options: HostOptions | None) -> float | None:
    """How long a host on this machine stays when nobody needs it."""
    return options.idle_s if options is not None else _IDLE_S


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """The limits and the end of the machine or job that a host runs in; by default all of this machine."""

    idle_s: Callable[[HostOptions | None], float | None] = idle_here
    """How long the host stays when nobody needs it; None is for good."""
    memory: Callable[[], MemoryUse] = machine_memory
    """The memory that it has, and how much of it is used."""
    steps: JobSteps | None = None
    """How each kernel gets a job step of its own, where there are such."""
    ending: Ending = field(default_factory=Ending)


class Host:
    """All kernels of one machine or allocation, for one storage directory."""

    def __init__(
        self,
        *,
        incarnation: str,
        journal: Path,
        runtime: Path,
        cache: Path,
        host_environment: HostEnvironment | None = None,
    ) -> None:
        self.incarnation = incarnation
        self._host_environment = host_environment or HostEnvironment()
        self._log = EventLog(journal)
        self._runtime = runtime
        self._cache = cache
        self._options: protocol.HostOptions | None = None
        self._session_memory: int | None = None
        self._gpus = GpuWatch(self._gpu_choice)
        self._engine: Attachment | None = None
        self._last_needed = time.monotonic()
        self._short_looks = 0
        """How many looks in a row found too little memory."""
        self._stopped = anyio.Event()
        self._serving = anyio.Event()

    async def serve(self, listener: anyio.abc.Listener[anyio.abc.ByteStream]) -> None:
        """Answer engines until told to stop, or until idle for as long as the options say."""
        adopt_orphans()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._launchers = Launchers(
                tasks, runtime=self._runtime, cache=self._cache, steps=self._host_environment.steps
            )
            self._kernels = Kernels(
                tasks,
                self._launchers,
                runtime=self._runtime,
                options=self._required_options,
                report=self._report,
                ending=self._host_environment.ending,
            )
            self._serving.set()
            tasks.start_soon(listener.serve, self._serve_connection)
            tasks.start_soon(self._watch)
            tasks.start_soon(self._watch_limits)
            tasks.start_soon(self._end_when_idle)
            await self._stopped.wait()
            await self._stop_kernels()
            tasks.cancel_scope.cancel()
        self._log.close()

    def stop(self, why: str | None = None) -> None:
        """End all kernels and the host; ``why`` is for those whose work is cut short by it."""
        if why is not None:
            self._host_environment.ending.tell(why)
        self._stopped.set()

    async def expire(self, ends_at: float) -> None:
        """Tell every kernel, and those to come, when the host will be ended."""
        await self._serving.wait()
        self._kernels.expire(ends_at)

    async def expect(self, environment: Mapping[str, str], options: protocol.HostOptions) -> None:
        """Make ready for an engine that will attach and want this."""
        await self._serving.wait()
        await self._warm_up(environment, self._with_own_memory(options))

    # Connections -------------------------------------------------------------------------------------------------

    async def _serve_connection(self, stream: anyio.abc.ByteStream) -> None:
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
        if isinstance(
            call.request, protocol.Execute | protocol.Cancel | protocol.Interrupt | protocol.AnswerInput
        ):
            try:
                self._control(call.request)
                answer: protocol.Reply | protocol.Refusal = _reply(call.id, None)
            except Exception as error:  # noqa: BLE001  # boundary: as in ``_answer``
                answer = _refused(call, error)
            calls.start_soon(connection.send, answer)
        else:
            calls.start_soon(self._answer, connection, call, calls)

    async def _answer(self, connection: Attachment, call: protocol.Call, calls: anyio.abc.TaskGroup) -> None:
        try:
            result = await self._do(connection, call.request, calls)
            # What a kernel answered may be more than can be written.
            answer: protocol.Reply | protocol.Refusal = _reply(call.id, result)
        except Exception as error:  # noqa: BLE001  # boundary: a defect in one request must not end everybody's kernels
            answer = _refused(call, error)
        await connection.send(answer)

    # Requests ----------------------------------------------------------------------------------------------------

    def _control(self, request: protocol.Request) -> None:
        match request:
            case protocol.Execute(kernel_id, runs):
                self._refuse_when_memory_is_short()
                runner = self._kernels.runner(kernel_id)
                for run in runs:
                    runner.handle(_cell_queue.Submitted(run))
            case protocol.Cancel(kernel_id, execution_id):
                self._kernels.runner(kernel_id).handle(_cell_queue.Cancelled(execution_id))
            case protocol.Interrupt(kernel_id):
                self._kernels.runner(kernel_id).handle(_cell_queue.Interrupted())
            case protocol.AnswerInput(kernel_id):
                self._kernels.runner(kernel_id).questions.answer(request)
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
                result = await self._start(request)
            case protocol.StopKernel(kernel_id):
                await self._kernels.stop(kernel_id)
            case (
                protocol.Freeze() | protocol.DropCheckpoint() | protocol.RollBack() | protocol.BranchKernel()
            ):
                result = await self._do_with_kernel(request)
            case protocol.Transfer():
                await self._kernels.transfer(request)
            case protocol.Acknowledge(seq):
                self._log.forget(seq, keep=connection.cursor)
            case protocol.Status():
                result = self._attached(await self._gpus.seen(self._tasks))
            case protocol.Ping():
                pass
            case protocol.Stop():
                self._stopped.set()
            case _:
                result = await self._do_with_kernel(request)
        return result

    async def _start(self, request: protocol.StartKernel) -> protocol.KernelReady:
        self._refuse_when_memory_is_short()
        policy = self._under_own_memory(request.policy)
        ready = await self._kernels.start(msgspec.structs.replace(request, policy=policy))
        # One on a Jupyter server takes nothing of this machine's.
        lost = memory_lost(request.policy, policy) if ready.remote is None else ()
        return msgspec.structs.replace(ready, losses=(*ready.losses, *lost))

    async def _do_with_kernel(self, request: protocol.Request) -> object:
        result: object = None
        match request:
            case protocol.Ask(kernel_id, kind, content, timeout_s, side):
                runner = self._kernels.runner(kernel_id)
                result = await runner.ask(kind, content, timeout_s=timeout_s, side=side)
            case protocol.AddLayers(kernel_id, layers):
                seen = await self._launchers.seen_layers(layers, self._required_options())
                for kernel in self._kernels.runner(kernel_id).kernels:
                    await kernel.add_layers(seen)
            case protocol.Freeze(kernel_id, checkpoint_id, name):
                result = await self._kernels.runner(kernel_id).freeze(checkpoint_id, name)
            case protocol.DropCheckpoint(kernel_id, checkpoint_id):
                await self._kernels.ring(kernel_id).drop(checkpoint_id)
            case protocol.RollBack():
                result = await self._kernels.roll_back(request)
            case protocol.BranchKernel():
                self._refuse_when_memory_is_short()
                result = await self._kernels.branch(request)
            case protocol.CheckTypes():
                policy = self._under_own_memory(request.policy)
                result = await self._kernels.check_types(msgspec.structs.replace(request, policy=policy))
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
        self._options = self._with_own_memory(request.options)
        self._kernels.limiter.total_tokens = request.options.max_concurrent_starts
        since = request.since if request.incarnation == self.incarnation else 0
        calls.start_soon(connection.follow, since)
        self._tasks.start_soon(self._warm_up, request.environment, self._options)
        return self._attached()

    def _attached(self, gpus: tuple[protocol.GpuUse, ...] = ()) -> protocol.Attached:
        kernels = tuple(runner.status() for runner in self._kernels)
        return protocol.Attached(
            incarnation=self.incarnation,
            last_seq=self._log.last_seq,
            pid=os.getpid(),
            version=cellwright.__version__,
            protocol=protocol.PROTOCOL_VERSION,
            kernels=kernels,
            resources=resources(os.environ, kernels, self._launchers.tier, gpus),
        )

    async def _warm_up(self, environment: Mapping[str, str], options: protocol.HostOptions) -> None:
        try:
            await self._launchers.warm_up(environment, options)
        except CellwrightError as error:  # the first session will meet it again and be told
            _log.warning("warm_up_failed %s", error)

    # State -------------------------------------------------------------------------------------------------------

    def _report(self, kernel_id: str, body: protocol.EventBody) -> None:
        self._log.append(kernel_id, body, time=time.time())
        if self._engine is not None:
            self._engine.log_grew()

    def _required_options(self) -> protocol.HostOptions:
        if self._options is None:
            raise HostError("No engine has attached to this host yet", hint="Attach first")
        return self._options

    def _gpu_choice(self) -> str:
        """The setting ``gpus``; code that nothing confines uses what there is."""
        policy = self._options.policy if self._options is not None else None
        return policy.gpus if policy is not None else "auto"

    def _with_own_memory(self, options: protocol.HostOptions) -> protocol.HostOptions:
        return msgspec.structs.replace(options, policy=self._under_own_memory(options.policy))

    def _under_own_memory(self, policy: Policy | None) -> Policy | None:
        """The policy with this host's share of memory, where that is what it says."""
        if policy is None or not policy.memory_auto:
            return policy
        if self._session_memory is None:
            # Once: kernels that stand by were confined with it.
            self._session_memory = self._share()
        return with_memory(policy, self._session_memory)

    def _share(self) -> int:
        use = self._host_environment.memory()
        return memory_share(use.total, use.used)

    def _refuse_when_memory_is_short(self) -> None:
        limit = self._required_options().max_memory_fraction
        used = self._host_environment.memory().fraction
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
            for runner in self._kernels:
                # Threads and daemons of a kernel may go on when no cell runs, but hardly ever do.
                if runner.busy or idle_looks == 0:
                    await self._keep_limits(runner)

    async def _keep_limits(self, runner: KernelRunner) -> None:
        try:
            await runner.keep_limits()
        except Exception:  # noqa: BLE001  # boundary: what one kernel's processes and files are like must not end the others
            _log.exception("limits_not_kept kernel=%s", runner.kernel_id)
            runner.kernel.process.kill_tree("its limits could not be kept; the host's log has the reason")

    def _guard_memory(self) -> None:
        # One on a Jupyter server takes nothing of this machine's.
        busy = [runner for runner in self._kernels if runner.busy and runner.kernel.remote is None]
        if not busy or any(runner.stopping for runner in busy):
            return
        if not self._is_memory_short():
            self._short_looks = 0
            return
        self._short_looks += 1
        sizes = {runner: runner.status().memory_bytes for runner in busy}
        # What a process had that ends just now is in use still and nobody's: another must not pay for that. Code can
        # have a process end for ever, so it is waited for only so long.
        ending = any(kernel.process.is_ending for runner in busy for kernel in runner.kernels)
        if ending and self._short_looks <= _ENDING_LOOKS:
            return
        # Looked at again, since somebody may have ended before the sizes were taken.
        if self._is_memory_short():
            max(busy, key=sizes.__getitem__).handle(_cell_queue.MemoryShort())

    def _is_memory_short(self) -> bool:
        return self._host_environment.memory().fraction > self._required_options().max_memory_fraction

    async def _end_when_idle(self) -> None:
        while True:
            idle_s = self._host_environment.idle_s(self._options)
            await anyio.sleep((idle_s or _IDLE_CHECK_S) / _IDLE_CHECK_SHARE)
            if idle_s is None or self._engine is not None or any(runner.has_work for runner in self._kernels):
                self._last_needed = time.monotonic()
            elif time.monotonic() - max(self._last_needed, self._kernels.last_ended) >= idle_s:
                _log.info("idle_for_s=%s, ending", idle_s)
                self.stop()

    async def _stop_kernels(self) -> None:
        with anyio.move_on_after(_STOP_S, shield=True):
            if (why := self._host_environment.ending.why) is not None:
                await self._wind_up(why)
            await self._kernels.stop_all()

    async def _wind_up(self, why: str) -> None:
        """Have all work stop, so that what it has put out is heard to the end; what does not stop is left."""
        for runner in self._kernels:
            runner.handle(_cell_queue.HostEnds(why))
        with anyio.move_on_after(_WIND_UP_S):
            while any(runner.busy for runner in self._kernels):  # several at once have no event
                await anyio.sleep(_WINDING_UP_S)


def _reply(call_id: int, result: object) -> protocol.Reply:
    return protocol.Reply(call_id, msgspec.Raw(msgspec.msgpack.encode(result)))


def _refused(call: protocol.Call, error: Exception) -> protocol.Refusal:
    if isinstance(error, CellwrightError | TimeoutError):
        return _refusal(call.id, error)
    _log.error("request_failed kind=%s", type(call.request).__name__, exc_info=error)
    return _refusal(call.id, HostError(f"The host failed: {error!r}"[:_WORDS]))


def _refusal(call_id: int, error: CellwrightError | TimeoutError) -> protocol.Refusal:
    if isinstance(error, CellwrightError):
        setting = error.setting if isinstance(error, LimitReached) else None
        return protocol.Refusal(call_id, error.code, error.message, error.hint, setting)
    return protocol.Refusal(
        call_id, "timeout", "The kernel did not answer in time", "Try again, or interrupt it"
    )


# One engine's connection, as the host sees it: calls in, answers and events out.


class Attachment:
    def __init__(self, stream: anyio.abc.ByteStream, log: EventLog) -> None:
        self._stream = stream
        self._log = log
        self._sending = anyio.Lock()
        self._grew = anyio.Event()
        self._scope = anyio.CancelScope()
        self.cursor: Cursor | None = None

    async def serve(self, take: Callable[[protocol.Call], None]) -> None:
        """Hand over calls until the engine goes away, is replaced, or says something that is not a call."""
        reader = FrameReader()
        with self._scope:
            while True:
                try:
                    payloads = reader.feed(await self._stream.receive())
                    calls = [protocol.decode_from_engine(payload) for payload in payloads]
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
                except (ValueError, msgspec.DecodeError, RecursionError) as error:
                    await self.send(protocol.Refusal(0, "protocol", f"Not a call: {error}"))
                    return
                for call in calls:
                    take(call)

    async def send(self, message: protocol.Reply | protocol.Refusal) -> None:
        await self._send(frame(message))

    async def follow(self, since: int) -> None:
        """Send every event after ``since``, now and as they come."""
        self.cursor = self._log.cursor(since)
        while True:
            grew = self._grew
            if data := self._log.read(self.cursor):
                await self._send(data)
            else:
                await grew.wait()

    def log_grew(self) -> None:
        self._grew.set()
        self._grew = anyio.Event()

    def close(self) -> None:
        self._scope.cancel()

    async def _send(self, data: bytes) -> None:
        try:
            async with self._sending:
                await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.close()


# What the machine, or the allocation, of a host has and how much of it is in use.

_MIB = 1024 * 1024


def resources(
    environment: Mapping[str, str],
    kernels: tuple[KernelStatus, ...],
    tier: Tier | None,
    gpus: tuple[protocol.GpuUse, ...] = (),
) -> Resources:
    """What there is: in a job of SLURM's the job's share, else the whole machine."""
    node, cpus = socket.gethostname(), float(len(os.sched_getaffinity(0)))
    load = os.getloadavg()[0]
    megabytes = environment.get("SLURM_MEM_PER_NODE", "")
    if megabytes.isdigit():
        own = int(environment.get("SLURM_CPUS_ON_NODE", "") or cpus)
        used = sum(kernel.memory_bytes for kernel in kernels)
        return Resources(node, float(own), load, int(megabytes) * _MIB, used, tier, gpus)
    memory = psutil.virtual_memory()
    return Resources(node, cpus, load, memory.total, memory.total - memory.available, tier, gpus)
