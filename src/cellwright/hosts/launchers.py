"""Keeps one launcher per way of starting a kernel: fork servers by interpreter and environment, kernelspecs by name, Deno.

Made on first need, replaced when they die. It does not know what kernels are for (see ``server``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.abc

from cellwright.errors import KernelStartError
from cellwright.hosts.protocol import DenoKernel, HostOptions, KernelKind, KernelspecKernel
from cellwright.kernels import (
    DenoLauncher,
    ForkServer,
    Interpreter,
    Isolation,
    Kernel,
    KernelLaunch,
    KernelspecLauncher,
    OutputLimits,
    TypeChecker,
    prepare_interpreter,
)
from cellwright.sandbox.doors import Opening
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.tiers import Finding
from cellwright.sandbox.trials import try_isolation

__all__ = ["Launchers", "start_environment"]

# What an interpreter or a library reads once, when it starts; everything else a kernel can be given later.
_START_PREFIXES = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_", "NUMEXPR_", "CUDA_", "GOMP_", "MALLOC_")
_START_NAMES = frozenset({"VIRTUAL_ENV", "HOME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"})

_LAYER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_Confinement: TypeAlias = tuple[Policy | None, Opening | None, bool, tuple[str, ...], tuple[str, ...], str]
_Key: TypeAlias = tuple[str | None, tuple[str, ...], tuple[tuple[str, str], ...], _Confinement]


def _confinement(options: HostOptions) -> _Confinement:
    """All that kernels are confined by: an engine that confines in another way gets launchers of its own."""
    return (
        options.policy,
        options.opening,
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


class Launchers:
    """Finds or makes the launcher that a kernel needs."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, runtime: Path, cache: Path) -> None:
        self._tasks = tasks
        self._runtime = runtime
        self._cache = cache
        self._fork_servers: dict[_Key, ForkServer] = {}
        self._locks: dict[_Key, anyio.Lock] = {}
        self._interpreters: dict[str | None, Interpreter] = {}
        self._kernelspecs: dict[tuple[str, _Confinement], KernelspecLauncher] = {}
        self._denos: dict[_Confinement, DenoLauncher] = {}
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
            return await (await self._kernelspec(kind.name, options)).launch(launch), None
        if isinstance(kind, DenoKernel):
            return await (await self._deno(options)).launch(launch), None
        server = await self.fork_server(kind.python, launch.environment, options)
        try:
            return await server.launch(launch), server.interpreter
        except KernelStartError:
            if not server.died.is_set():
                raise
        server = await self.fork_server(kind.python, launch.environment, options)
        return await server.launch(launch), server.interpreter

    async def finding(self, options: HostOptions) -> Finding:
        """How well kernels can be confined here; found out once."""
        namespaces = options.namespaces
        async with self.trying:
            if namespaces not in self._findings:
                found = await anyio.to_thread.run_sync(lambda: try_isolation(namespaces=namespaces))
                self._findings[namespaces] = found
        return self._findings[namespaces]

    async def isolation(self, options: HostOptions) -> Isolation | None:
        """How kernels are confined; None only where that was asked for in so many words.

        Raises:
            KernelStartError: this machine cannot confine them.
        """
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
            opening=options.opening,
            groups=found.groups,
        )

    async def seen_layers(self, names: Sequence[str], options: HostOptions) -> tuple[str, ...]:
        """Layers of packages as kernels see them.

        Raises:
            KernelStartError: one is named as no layer is.
        """
        if any(not _LAYER.fullmatch(name) for name in names):
            raise KernelStartError(f"These are no names of layers: {', '.join(names)}")
        isolation = await self.isolation(options)
        if isolation is None:
            return tuple(f"{options.packages}/{name}" for name in names)
        return isolation.seen_layers(names)

    async def fork_server(
        self, python: str | None, environment: Mapping[str, str], options: HostOptions
    ) -> ForkServer:
        """Return the live fork server for this interpreter, environment and preload, starting it if need be."""
        start = start_environment(environment)
        key = (python, options.preload, tuple(sorted(start.items())), _confinement(options))
        async with self._locks.setdefault(key, anyio.Lock()):
            server = self._fork_servers.get(key)
            if server is None or server.died.is_set():
                server = await self._start_fork_server(python, start, options)
                self._fork_servers[key] = server
        return server

    async def _start_fork_server(
        self, python: str | None, environment: dict[str, str], options: HostOptions
    ) -> ForkServer:
        if python not in self._interpreters:
            wanted = Path(python) if python is not None else None
            self._interpreters[python] = await prepare_interpreter(wanted, cache=self._cache)
        server = ForkServer(
            interpreter=self._interpreters[python],
            preload=options.preload,
            environment=environment,
            standby=options.standby_kernels,
            directory=self._runtime / f"f{len(self._servers)}",
            limits=OutputLimits(options.max_output_bytes, options.max_output_messages),
            start_timeout_s=options.start_timeout_s,
            isolation=await self.isolation(options),
        )
        self._servers.append(server)
        await self._tasks.start(server.run)
        return server

    async def type_checker(self, options: HostOptions) -> TypeChecker:
        """What checks types, confined as kernels are."""
        key = _confinement(options)
        if key not in self._checkers:
            self._checkers[key] = TypeChecker(
                isolation=await self.isolation(options), timeout_s=options.start_timeout_s
            )
        return self._checkers[key]

    async def _deno(self, options: HostOptions) -> DenoLauncher:
        key = _confinement(options)
        if key not in self._denos:
            launcher = DenoLauncher(
                environment={},
                start_timeout_s=options.start_timeout_s,
                isolation=await self.isolation(options),
                cache=self._cache,
            )
            await self._tasks.start(launcher.run)
            self._denos[key] = launcher
        return self._denos[key]

    async def _kernelspec(self, name: str, options: HostOptions) -> KernelspecLauncher:
        key = (name, _confinement(options))
        if key not in self._kernelspecs:
            # All of a kernel's environment comes with its launch.
            launcher = KernelspecLauncher(
                name,
                environment={},
                start_timeout_s=options.start_timeout_s,
                isolation=await self.isolation(options),
            )
            await self._tasks.start(launcher.run)
            self._kernelspecs[key] = launcher
        return self._kernelspecs[key]
