"""Keeps one launcher per way of starting a kernel: fork servers by interpreter and environment, kernelspecs by name, Deno,
Jupyter servers.

Made on first need, replaced when they die. It does not know what kernels are for (see ``server``).
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol, TypeAlias

import anyio
import anyio.abc

from cellwright.errors import CellwrightError, KernelStartError
from cellwright.hosts.protocol import (
    DenoKernel,
    HostOptions,
    JupyterKernel,
    JupyterServer,
    KernelKind,
    KernelspecKernel,
)
from cellwright.kernels import (
    LOCAL_PROGRAMS,
    DenoLauncher,
    ForkServer,
    Interpreter,
    Isolation,
    Kernel,
    KernelLaunch,
    KernelspecLauncher,
    LibraryCaches,
    OutputLimits,
    Programs,
    TypeChecker,
    prepare_interpreter,
)
from cellwright.sandbox.gpus import find_gpus
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.probe import try_isolation
from cellwright.sandbox.proxy import Opening
from cellwright.sandbox.tiers import Finding, Tier
from cellwright.settings import paths

__all__ = ["Launchers", "start_environment"]
# What an interpreter or a library reads once, when it starts; everything else a kernel can be given later.
_START_PREFIXES = ("OMP_", "OPENBLAS_", "MKL_", "NUMEXPR_", "CUDA_", "GOMP_", "MALLOC_")

# Those that Python itself knows: code can read with what its fork server was started, and other names that begin like
# these may hold anything.
_PYTHON_NAMES = """
PYTHONASYNCIODEBUG PYTHONBREAKPOINT PYTHONCASEOK PYTHONCOERCECLOCALE PYTHONDEBUG PYTHONDEVMODE PYTHONDONTWRITEBYTECODE
PYTHONEXECUTABLE PYTHONFAULTHANDLER PYTHONHASHSEED PYTHONHOME PYTHONINTMAXSTRDIGITS PYTHONIOENCODING PYTHONMALLOC
PYTHONMALLOCSTATS PYTHONNODEBUGRANGES PYTHONNOUSERSITE PYTHONOPTIMIZE PYTHONPATH PYTHONPERFSUPPORT PYTHONPLATLIBDIR
PYTHONPROFILEIMPORTTIME PYTHONPYCACHEPREFIX PYTHONSAFEPATH PYTHONTRACEMALLOC PYTHONUNBUFFERED PYTHONUSERBASE PYTHONUTF8
PYTHONVERBOSE PYTHONWARNDEFAULTENCODING PYTHONWARNINGS PYTHON_COLORS PYTHON_CPU_COUNT PYTHON_FROZEN_MODULES PYTHON_GIL
"""

_START_NAMES = frozenset(
    {"VIRTUAL_ENV", "HOME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD"}
    | set(_PYTHON_NAMES.split())
)

_LAYER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_Confinement: TypeAlias = tuple[
    Policy | None, Opening | None, str, bool, tuple[str, ...], tuple[str, ...], str
]

_Key: TypeAlias = tuple[str | None, tuple[str, ...], tuple[tuple[str, str], ...], _Confinement]


def _confinement(options: HostOptions) -> _Confinement:
    """All that kernels are confined by: an engine that confines in another way gets launchers of its own."""
    return (
        options.policy,
        options.opening,
        options.connections,
        options.namespaces,
        options.secret,
        options.passed_environment,
        options.packages,
    )


def start_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that tells one fork server from another."""
    return {
        name: value
        for name, value in environment.items()
        if name in _START_NAMES or name.startswith(_START_PREFIXES)
    }


def _key(python: str | None, environment: Mapping[str, str], options: HostOptions) -> _Key:
    start = start_environment(environment)
    return python, options.preload, tuple(sorted(start.items())), _confinement(options)


class JobSteps(Protocol):
    """Starts programs as steps of a job, each with memory of its own. A port: ``slurm.steps`` implements it."""

    def memory_for(self, session_bytes: int | None) -> int | None:
        """How much memory the step of a session has that may have so much; None where the job limits nothing."""
        ...

    def sized(self, memory: int | None) -> Programs:
        """What starts programs in steps of that size."""
        ...


class RemoteLauncher(Protocol):
    """Starts kernels on one server. A port: an engine names what implements it (``HostOptions.remote_launcher``)."""

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Keep connections while this runs."""
        ...

    async def launch(self, wanted: JupyterKernel, directory: Path) -> Kernel:
        """A kernel that answers."""
        ...


class Launchers:
    """Finds or makes the launcher that a kernel needs."""

    def __init__(
        self, tasks: anyio.abc.TaskGroup, *, runtime: Path, cache: Path, steps: JobSteps | None = None
    ) -> None:
        """With ``steps`` every kernel is in one of its own, a Python kernel together with its fork server."""
        self._steps = steps
        self._pools: dict[tuple[_Key, int | None], ServerPool] = {}
        self._numbers = count()
        self._tasks = tasks
        self._runtime = runtime
        self._cache = cache
        # The user's: a run that is over at once has a storage directory of its own.
        self._caches = LibraryCaches(Path(paths.cache_base(), "libraries"))
        self._fork_servers: dict[_Key, ForkServer] = {}
        self._locks: dict[_Key, anyio.Lock] = {}
        self._interpreters: dict[str | None, Interpreter] = {}
        self._kernelspecs: dict[tuple[KernelspecKernel, _Confinement], KernelspecLauncher] = {}
        self._denos: dict[_Confinement, DenoLauncher] = {}
        self._remote: dict[JupyterServer, RemoteLauncher] = {}
        self._checkers: dict[_Confinement, TypeChecker] = {}
        self._servers: list[ForkServer] = []
        self._findings: dict[bool, Finding] = {}
        self.trying = anyio.Lock()
        """Held while a trial runs, whose processes are children of the host that nobody has a number of."""

    @property
    def pids(self) -> set[int]:
        """The processes that serve launchers; the host's own children, to be left alone."""
        servers = {server.pid for server in self._servers if server.pid is not None}
        spawners = (*self._kernelspecs.values(), *self._denos.values())
        return servers.union(*(spawner.pids for spawner in spawners))

    async def launch(
        self, kind: KernelKind, launch: KernelLaunch, options: HostOptions
    ) -> tuple[Kernel, Interpreter | None]:
        """Start a kernel of this kind; a fork server that died meanwhile is replaced once."""
        if isinstance(kind, KernelspecKernel):
            return await (await self._kernelspec(kind, options)).launch(launch), None
        if isinstance(kind, DenoKernel):
            return await (await self._deno(options)).launch(launch), None
        if isinstance(kind, JupyterKernel):
            return await self._on_server(kind, launch, options), None
        launch = replace(launch, digests=kind.digests)
        server = await self._server(kind.python, launch, options)
        try:
            return await server.launch(launch), server.interpreter
        except KernelStartError:
            if not server.died.is_set():
                raise
        server = await self._server(kind.python, launch, options)
        return await server.launch(launch), server.interpreter

    @property
    def tier(self) -> Tier | None:
        """How strongly kernels are confined here, as far as that was found out."""
        return next((finding.tier for finding in self._findings.values()), None)

    async def finding(self, options: HostOptions) -> Finding:
        """How well kernels can be confined here; found out once."""
        namespaces = options.namespaces
        async with self.trying:
            if namespaces not in self._findings:
                own = self._steps is None
                found = await anyio.to_thread.run_sync(
                    lambda: try_isolation(namespaces=namespaces, groups=own)
                )
                self._findings[namespaces] = found
        return self._findings[namespaces]

    async def isolation(self, options: HostOptions) -> Isolation | None:
        """How kernels are confined; None only where that was asked for in so many words.

        Raises:
            KernelStartError: this machine cannot confine them.
        """
        isolation = await self._isolation_without_gpus(options)
        if isolation is None:
            return None
        gpus = await anyio.to_thread.run_sync(find_gpus, isolation.policy.gpus, os.environ)
        return replace(isolation, gpus=gpus)

    async def _isolation_without_gpus(self, options: HostOptions) -> Isolation | None:
        """The same but for the devices: a driver may take milliseconds to describe one, and every start asks for this."""
        if options.policy is None:
            return None
        found = await self.finding(options)
        if found.tier == "none":
            raise KernelStartError(
                f"Code cannot be confined on this machine: {'; '.join(found.reasons)}",
                hint="; ".join((*found.remedies, "or run unconfined with --unsafe-no-sandbox")),
            )
        if options.packages:
            store = Path(options.packages)
            await anyio.to_thread.run_sync(lambda: store.mkdir(mode=0o711, parents=True, exist_ok=True))
        return Isolation(
            found.tier,
            options.policy,
            options.secret,
            options.passed_environment,
            packages=options.packages,
            approved_imports=options.approved_imports,
            caches=await anyio.to_thread.run_sync(self._caches.shown),
            opening=options.opening,
            connections=options.connections,
            groups=found.groups,
        )

    async def seen_layers(self, names: Sequence[str], options: HostOptions) -> tuple[str, ...]:
        """Layers of packages as kernels see them.

        Raises:
            KernelStartError: one is named as no layer is.
        """
        if any(not _LAYER.fullmatch(name) for name in names):
            raise KernelStartError(f"These are no names of layers: {', '.join(names)}")
        isolation = await self._isolation_without_gpus(options)
        if isolation is None:
            return tuple(f"{options.packages}/{name}" for name in names)
        return isolation.seen_layers(names)

    async def warm_up(self, environment: Mapping[str, str], options: HostOptions) -> None:
        """Make ready for the kernel that is wanted first.

        Raises:
            KernelStartError: that cannot be.
        """
        if self._steps is None:
            await self.fork_server(None, environment, options)
        else:
            self._pool(None, environment, options, self._step_memory(options.policy)).fill()

    async def _server(self, python: str | None, launch: KernelLaunch, options: HostOptions) -> ForkServer:
        if self._steps is None:
            return await self.fork_server(python, launch.environment, options)
        memory = self._step_memory(launch.policy or options.policy)
        if memory != self._step_memory(options.policy):
            # A session with a limit of its own has a step of its own size.
            return await self._start_in_step(python, launch.environment, options, memory)
        return await self._pool(python, launch.environment, options, memory).take()

    def _step_memory(self, policy: Policy | None) -> int | None:
        session_bytes = policy.memory_bytes if policy is not None else None
        return self._steps.memory_for(session_bytes) if self._steps is not None else None

    def _pool(
        self, python: str | None, environment: Mapping[str, str], options: HostOptions, memory: int | None
    ) -> ServerPool:
        key = (_key(python, environment, options), memory)
        if key not in self._pools:
            make = partial(self._start_in_step, python, environment, options, memory)
            self._pools[key] = ServerPool(self._tasks, options.standby_kernels, make)
        return self._pools[key]

    async def _start_in_step(
        self, python: str | None, environment: Mapping[str, str], options: HostOptions, memory: int | None
    ) -> ForkServer:
        return await self._start_fork_server(
            python, start_environment(environment), options, programs=self._programs(memory), single=True
        )

    def _programs(self, memory: int | None) -> Programs:
        return self._steps.sized(memory) if self._steps is not None else LOCAL_PROGRAMS

    async def fork_server(
        self, python: str | None, environment: Mapping[str, str], options: HostOptions
    ) -> ForkServer:
        """Return the live fork server for this interpreter, environment and preload, starting it if need be."""
        key = _key(python, environment, options)
        async with self._locks.setdefault(key, anyio.Lock()):
            server = self._fork_servers.get(key)
            if server is None or server.died.is_set():
                server = await self._start_fork_server(python, start_environment(environment), options)
                self._fork_servers[key] = server
        return server

    async def _start_fork_server(
        self,
        python: str | None,
        environment: dict[str, str],
        options: HostOptions,
        *,
        programs: Programs = LOCAL_PROGRAMS,
        single: bool = False,
    ) -> ForkServer:
        if python not in self._interpreters:
            wanted = Path(python) if python is not None else None
            self._interpreters[python] = await prepare_interpreter(wanted, cache=self._cache)
        server = ForkServer(
            interpreter=self._interpreters[python],
            preload=options.preload,
            environment=environment,
            standby=min(1, options.standby_kernels) if single else options.standby_kernels,
            directory=self._runtime / f"f{next(self._numbers)}",
            limits=OutputLimits(options.max_output_bytes, options.max_output_messages),
            start_timeout_s=options.start_timeout_s,
            isolation=await self.isolation(options),
            programs=programs,
            single=single,
            caches=self._caches,
        )
        await self._tasks.start(self._run_fork_server, server)
        return server

    async def _run_fork_server(
        self, server: ForkServer, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        self._servers.append(server)
        try:
            await server.run(task_status=task_status)
        finally:
            self._servers.remove(server)

    async def type_checker(self, options: HostOptions) -> TypeChecker:
        """What checks types, confined as kernels are."""
        key = _confinement(options)
        if key not in self._checkers:
            self._checkers[key] = TypeChecker(
                self._tasks, isolation=await self.isolation(options), timeout_s=options.start_timeout_s
            )
        return self._checkers[key]

    async def _deno(self, options: HostOptions) -> DenoLauncher:
        key = _confinement(options)
        if key not in self._denos:
            launcher = DenoLauncher(
                environment={},
                start_timeout_s=options.start_timeout_s,
                isolation=await self.isolation(options),
                programs=self._programs(self._step_memory(options.policy)),
                cache=self._cache,
                standby=options.standby_kernels if self._steps is None else 0,
            )
            await self._tasks.start(launcher.run)
            self._denos[key] = launcher
        return self._denos[key]

    async def _on_server(self, kind: JupyterKernel, launch: KernelLaunch, options: HostOptions) -> Kernel:
        """A kernel that lives elsewhere: nothing of the launch but its directory matters there."""
        if kind.server not in self._remote:
            module, _, name = options.remote_launcher.partition(":")
            if not name:
                raise KernelStartError(
                    "This host was not told how kernels on Jupyter servers are started",
                    hint="End it with `cellwright daemon stop --kernels`; the next call starts another",
                )
            make = getattr(importlib.import_module(module), name)
            launcher: RemoteLauncher = make(kind.server, start_timeout_s=options.start_timeout_s)
            await self._tasks.start(launcher.run)
            self._remote[kind.server] = launcher
        return await self._remote[kind.server].launch(kind, launch.directory)

    async def _kernelspec(self, kind: KernelspecKernel, options: HostOptions) -> KernelspecLauncher:
        key = (kind, _confinement(options))
        if key not in self._kernelspecs:
            # All of a kernel's environment comes with its launch.
            launcher = KernelspecLauncher(
                kind.name,
                kind.folder,
                caches=self._caches,
                environment={},
                start_timeout_s=options.start_timeout_s,
                isolation=await self.isolation(options),
                programs=self._programs(self._step_memory(options.policy)),
            )
            await self._tasks.start(launcher.run)
            self._kernelspecs[key] = launcher
        return self._kernelspecs[key]


# Fork servers that each serve one session, made before they are needed: where every kernel is a job step of
# its own.

_log = logging.getLogger(__name__)

# Whoever takes one needs the processor more than the next one does.
_REFILL_PAUSE_S = 1.0


@dataclass(slots=True)
class _Waiter:
    """Somebody who waits for the next one."""

    served: anyio.Event = field(default_factory=anyio.Event)
    server: ForkServer | None = None
    error: CellwrightError | None = None


class ServerPool:
    """Those of one kind: so many wait, and who finds none gets the next that is made."""

    def __init__(
        self, tasks: anyio.abc.TaskGroup, wanted: int, make: Callable[[], Awaitable[ForkServer]]
    ) -> None:
        self._tasks = tasks
        self._wanted = wanted
        self._make = make
        self._waiting: deque[ForkServer] = deque()
        self._takers: deque[_Waiter] = deque()
        self._coming = 0

    async def take(self) -> ForkServer:
        """One that stood by, or the next that is made.

        Raises:
            KernelStartError: there is none to be had.
        """
        while self._waiting:
            server = self._waiting.popleft()
            if not server.died.is_set():
                self.fill(after_s=_REFILL_PAUSE_S)
                return server
        taker = _Waiter()
        self._takers.append(taker)
        if self._coming < len(self._takers):
            self._begin(0)
        try:
            await taker.served.wait()
        finally:
            if taker in self._takers:
                self._takers.remove(taker)
        if taker.server is None:
            raise taker.error or KernelStartError("No fork server could be started")
        return taker.server

    def fill(self, *, after_s: float = 0) -> None:
        """Make what is missing, meanwhile: one after the other."""
        if not self._coming and len(self._waiting) < self._wanted:
            self._begin(after_s)

    def _begin(self, after_s: float) -> None:
        self._coming += 1
        self._tasks.start_soon(self._make_one, after_s)

    async def _make_one(self, after_s: float) -> None:
        try:
            await anyio.sleep(after_s)
            server = await self._make()
        except CellwrightError as error:
            # Told to who waits; otherwise the next launch meets it again.
            _log.warning("step_failed %s", error)
            if self._takers:
                self._serve(error=error)
            return
        finally:
            self._coming -= 1
        if self._takers:
            self._serve(server)
        else:
            self._waiting.append(server)
        self.fill(after_s=_REFILL_PAUSE_S)

    def _serve(self, server: ForkServer | None = None, error: CellwrightError | None = None) -> None:
        taker = self._takers.popleft()
        taker.server, taker.error = server, error
        taker.served.set()
