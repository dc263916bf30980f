"""Starts TypeScript and JavaScript kernels: Deno with a driver of ours, spoken to over its standard streams.

The driver is ``cellwright_kernel/deno``; what Deno lets code do is ``deno``'; how any program is started and
confined is ``spawn``'s.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import anyio

from cellwright.errors import KernelError, KernelGone, KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._pipe_client import PipeClient, Pipes
from cellwright.kernels._resources import NO_CGROUP, KernelCgroup, NpmDirectory
from cellwright.kernels._spawn import (
    KernelStart,
    Spawner,
    Start,
    confined_start,
    refuse_without_network,
    watched,
)
from cellwright.kernels._standby import Spares, spare_of
from cellwright.kernels.client import Message
from cellwright.kernels.kernel import Kernel, KernelLaunch, OutputLimits
from cellwright.kernels.processes import ExitOutput, expected_child
from cellwright.kernels.programs import LOCAL_PROGRAMS, Programs, own_script
from cellwright.sandbox.npm import CACHE, REGISTRY
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.workspace import Workspace

__all__ = ["DenoAccess", "DenoLauncher", "deno_flags", "find_deno", "heap_megabytes"]
# What Deno is told that code may do: its own wall inside the sandbox's, drawn along the same line. Pure.


_MEGABYTE = 1 << 20

# What Deno itself takes beside V8's heap, so that the heap's own limit is met first and explained as what it is.
_BESIDE_HEAP = 96 * _MEGABYTE

_PLAIN = (
    "--no-prompt",
    "--no-config",
    "--no-lock",
    "--node-modules-dir=none",
    "--inspect-publish-uid=stderr",
)


@dataclass(frozen=True, slots=True)
class DenoAccess:
    """What code may reach, in paths as it sees them."""

    read: Sequence[str] = ()
    write: Sequence[str] = ()
    """May be read as well."""
    network: bool = False
    """Whether there is a way out, which then knows by itself how far it goes (see ``sandbox.proxy``)."""
    inspector: str = "127.0.0.1:0"
    """Where V8's inspector listens, by which the driver has cells evaluated and torn off."""


def deno_flags(policy: Policy | None, access: DenoAccess) -> list[str]:
    """The flags of ``deno run``. Without a policy nothing is confined, and Deno does not confine either."""
    flags = [*_PLAIN, f"--inspect={access.inspector}"]
    heap = heap_megabytes(policy)
    if heap is not None:
        flags.append(f"--v8-flags=--max-old-space-size={heap}")
    if policy is None:
        return [*flags, "--allow-all"]
    flags += [
        _allowed("read", [*access.read, *access.write]),
        _allowed("write", access.write),
        "--allow-env",  # what the sandbox shows
        "--allow-sys",
    ]
    if access.network:
        # Everything goes by way of the proxy, in Node's modules too.
        return [*flags, "--allow-net", "--allow-import", "--use-env-proxy"]
    # The driver needs it once, and gives it back before any code runs.
    return [*flags, f"--allow-net={access.inspector}", "--no-remote", "--cached-only"]


def heap_megabytes(policy: Policy | None) -> int | None:
    """How large V8's heap may grow; None leaves that to V8."""
    if policy is None or policy.memory_bytes is None:
        return None
    return max(policy.memory_bytes - _BESIDE_HEAP, policy.memory_bytes // 2) // _MEGABYTE


def _allowed(what: str, paths: Sequence[str]) -> str:
    return f"--allow-{what}={','.join(dict.fromkeys(map(_expressible, paths)))}"


def _expressible(path: str) -> str:
    """The path, or what is above the part of it with a comma, which Deno cannot be told; the sandbox's wall stays."""
    return path if "," not in path else str(PurePath(path[: path.index(",")]).parent)


OLDEST = (2, 9)

# Twice: a machine may stand still for as long once, and the answer takes a moment.
VERSION_TIMEOUT_S = 30

VERSION_TRIES = 2

INSTALL = "pip install 'cellwright[typescript]'"

# In a sandbox nobody else is on the loopback; elsewhere the system chooses a port.
BOXED_INSPECTOR = "127.0.0.1:9229"

FREE_INSPECTOR = "127.0.0.1:0"

INSPECTOR = re.compile(rb"Debugger listening on (ws://\S+)\n")

NOISE = re.compile(r"(Debugger listening on|Visit chrome://inspect|Debugger session) .*\n?")

CACHES = ".deno"

# What most programs use, so that it is compiled by the time that theirs comes.
WARMING = """__cellwright_script__(["import 'node:fs'; import 'node:path'; const one: number = 1;", "script.ts", []])"""

V8_MEMORY = 1536 << 20
"""What V8 reserves for its two threads before it uses it; about 1.1 GB, and the threads of a cell need some too."""

QUIET = {"DENO_NO_UPDATE_CHECK": "1", "DENO_NO_PROMPT": "1", "NO_COLOR": "1"}


def find_deno() -> Path:
    """The program deno: the one installed beside us, or else the one on the path.

    Raises:
        KernelStartError: there is none, or it is too old for the driver.
    """
    try:
        from deno import find_deno_bin  # type: ignore[import-untyped]  # an extra

        found: str | None = str(find_deno_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("deno")
    if found is None:
        raise KernelStartError(
            "TypeScript and JavaScript need Deno, which is not installed", hint=f"Run `{INSTALL}`"
        )
    told = _version_of(found)
    version = re.match(r"deno (\d+)\.(\d+)", told)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise KernelStartError(
            f"{found} is {told.splitlines()[0] if told else 'no Deno'}, and Deno {OLDEST[0]}.{OLDEST[1]} or newer is needed",
            hint=f"Run `{INSTALL}`",
        )
    return Path(found).resolve()


def _version_of(program: str) -> str:
    for _ in range(VERSION_TRIES):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return subprocess.run(
                [program, "--version"],
                capture_output=True,
                text=True,
                timeout=VERSION_TIMEOUT_S,
                check=False,
                env=QUIET,
            ).stdout
    return ""


class DenoLauncher(Spawner):
    """Spawns Deno kernels."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        start_timeout_s: float,
        isolation: Isolation | None = None,
        programs: Programs = LOCAL_PROGRAMS,
        cache: Path | None = None,
        standby: int = 0,
        driver: Path | None = None,
        flags: Callable[[Policy | None, DenoAccess], list[str]] = deno_flags,
    ) -> None:
        """``cache`` is a directory of the host's for what is compiled once for all kernels; ``standby`` is how many
        wait, started, for the next session like the last.

        ``driver`` and ``flags`` are others only where a wall is tried without the one before it.
        """
        super().__init__(
            "deno",
            environment=environment,
            start_timeout_s=start_timeout_s,
            isolation=isolation,
            programs=programs,
        )
        self._driver = driver or Path(own_script("deno")) / "driver.mjs"
        self._flags = flags
        self._cache = cache
        self._compiling: set[CompiledDriver] = set()
        self._deno: Path | None = None
        self._standby = standby
        self._spares = Spares(standby, self._begin_warm)

    async def launch(self, launch: KernelLaunch) -> Kernel:
        """A kernel that stood by, where one fits, else a new one."""
        if self._isolation is None:
            return await super().launch(launch)
        if launch.workspace is None:
            raise KernelStartError("A confined kernel needs a workspace")
        spare = spare_of(launch) if self._standby and self._isolation.stands_by else None
        if spare is None or self._tasks is None:
            return await super().launch(launch)
        pool = self._spares.pool(spare, self._tasks)
        with pool.launching():
            while (kernel := pool.take()) is not None:
                # One that died while it waited, or dies now, is no reason to fail: there are others.
                with contextlib.suppress(KernelGone):
                    return await self._adopt(
                        kernel, launch, launch.workspace, self._isolation.under(launch.policy)
                    )
            return await super().launch(launch)

    async def _begin_warm(self, launch: KernelLaunch) -> Kernel:
        """A kernel that has run something already: the first program of a process takes twice as long as the next."""
        kernel = await self._begin(launch)
        content = {"code": WARMING, "silent": True, "store_history": False}
        try:
            await kernel.client.request("execute_request", content, timeout_s=self._start_timeout_s)
        except (KernelError, TimeoutError) as error:
            kernel.process.kill_tree("it could not be warmed up")
            raise KernelStartError(f"A kernel that was to stand by did not run anything: {error}") from error
        return kernel

    async def _adopt(
        self, kernel: Kernel, launch: KernelLaunch, workspace: Workspace, isolation: Isolation
    ) -> Kernel:
        """Let a kernel that waited have its session."""
        if kernel.process.exit is not None or kernel.line is None:
            raise KernelGone("The kernel ended while it waited")
        try:
            if kernel.npm is not None and launch.layers:
                await anyio.to_thread.run_sync(kernel.npm.put, launch.layers)
            mounts = isolation.mounts(
                workspace, isolation.readable([str(self._deno), str(self._driver.parent)])
            )
            await kernel.line.settle(mounts, saved=Path(workspace.written))
            await kernel.enter(str(launch.cwd), launch.limits)
        except BaseException:
            kernel.process.kill_tree("its session did not come to be")
            raise
        kernel.started_by = "standby"
        return kernel

    async def _find(self) -> None:
        if self._deno is None or not self._deno.exists():
            self._deno = await anyio.to_thread.run_sync(find_deno)

    def _start(self, launch: KernelLaunch, isolation: Isolation | None, cgroup: KernelCgroup) -> KernelStart:
        launch.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        entrance = self._take_entrance(launch, cgroup) if isolation is not None else None
        pipes = entrance.pipes if entrance is not None else Pipes()
        exit_output = entrance.exit_output if entrance is not None else ExitOutput(noise=NOISE)
        blank = Start([], {}, launch.cwd, pipes=pipes, exit_output=exit_output, entrance=entrance)
        npm = _npm_directory(launch, isolation) if isolation is not None else None
        try:
            if isolation is None:
                start = self._bare(blank, launch)
            else:
                start = self._confined(blank, launch, isolation, cgroup, npm)
        except BaseException:
            if entrance is not None:
                entrance.close()
            pipes.close()
            exit_output.close()
            raise
        if isolation is not None and self._tasks is not None:
            self._tasks.start_soon(partial(self._stand_by, noise=NOISE))
        cwd = str(launch.cwd) if isolation is None or launch.workspace is not None else "/"
        client = PipeClient(pipes, partial(_greeting, launch.limits, cwd, exit_output))
        return KernelStart(start, client, ours=True, npm=npm)

    def _bare(self, blank: Start, launch: KernelLaunch) -> Start:
        temporary = launch.directory / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        environment = {**self._environment, **launch.environment, **own_environment(str(temporary))}
        command = self._command(self._flags(None, DenoAccess(inspector=FREE_INSPECTOR)))
        if (compiled := self._compiled(None, launch.limits)) is not None:
            shutil.copytree(compiled, temporary / CACHES, copy_function=shutil.copyfile)
        return replace(blank, command=command, environment=environment)

    def _confined(
        self,
        blank: Start,
        launch: KernelLaunch,
        isolation: Isolation,
        cgroup: KernelCgroup,
        npm: NpmDirectory | None,
    ) -> Start:
        # One that waits for its place is told where all of them are, of which it will see but one.
        workspace, above = launch.workspace, str(launch.cwd)
        # The driver has cells evaluated, and torn off, over V8's inspector, which is a socket on the loopback.
        refuse_without_network(self.name, isolation)
        driver = str(self._driver.parent)
        compiled = self._compiled(isolation.policy, launch.limits)
        given = [str(compiled)] if compiled is not None else []
        readable = isolation.readable([str(self._deno), driver, *given])
        plan = isolation.plan(
            readable, launch.environment, launch.directory, workspace, known=True, shared=launch.shared
        )
        temporary = plan["environment"]["TMPDIR"]
        plan["environment"] |= own_environment(temporary)
        plan["limits"]["own_memory"] = V8_MEMORY
        access = DenoAccess(
            read=[workspace.top if workspace is not None else above, *isolation.policy.read, driver],
            write=[workspace.cwd if workspace is not None else above, temporary, *isolation.policy.write],
            network=isolation.has_proxy,
            inspector=BOXED_INSPECTOR,
        )
        command = self._command(self._flags(isolation.policy, access))
        if npm is not None:
            plan["environment"]["NPM_CONFIG_REGISTRY"] = f"https://{REGISTRY}/"
        more = {
            "copies": [[path, f"{temporary}/{CACHES}"] for path in given],
            "links": [[npm.seen_at, f"{temporary}/{CACHES}/{CACHE}"]] if npm is not None else [],
            "cwd": str(launch.cwd) if workspace is not None else "/",
        }
        return confined_start(replace(blank, command=command), plan, launch, cgroup, **more)

    def _compiled(self, policy: Policy | None, limits: OutputLimits) -> Path | None:
        """Where the driver lies compiled; the first kernel does without, and it is made meanwhile."""
        if self._cache is None or self._deno is None or self._tasks is None:
            return None
        flags = self._flags(policy, DenoAccess())
        v8_flags = tuple(flag for flag in flags if flag.startswith("--v8-flags"))
        wanted = CompiledDriver(self._deno, self._driver, v8_flags, self._cache)
        if (found := wanted.found()) is None and wanted not in self._compiling:
            self._compiling.add(wanted)
            plain = [flag for flag in self._flags(None, DenoAccess()) if flag not in v8_flags]
            self._tasks.start_soon(wanted.make, plain, QUIET, partial(_greeting, limits, "/"))
        return found

    def _command(self, flags: list[str]) -> list[str]:
        return [str(self._deno), "run", *flags, str(self._driver)]


def _npm_directory(launch: KernelLaunch, isolation: Isolation) -> NpmDirectory | None:
    """Where the kernel finds packages; one that has a way to the network fetches its own, and needs room for them."""
    if not isolation.packages or isolation.has_proxy:
        return None
    name = f".npm-{launch.directory.name}"
    npm_directory = NpmDirectory(Path(isolation.packages, name), isolation.seen_layers([name])[0])
    npm_directory.clear()
    npm_directory.put(launch.layers)
    return npm_directory


async def _greeting(limits: OutputLimits, cwd: str, exit_output: ExitOutput) -> dict[str, Any]:
    """What the driver must know first. The inspector's address is a secret that Deno tells nobody but us."""
    return {
        "max_bytes": limits.max_bytes,
        "max_messages": limits.max_messages,
        "cwd": cwd,
        "inspector": (await exit_output.heard(INSPECTOR)).decode(),
    }


def own_environment(temporary: str) -> dict[str, str]:
    """What Deno is to find in its environment, whatever else is there."""
    return {**QUIET, "DENO_DIR": f"{temporary}/{CACHES}"}


# The driver as V8 has compiled it, made once and given to every Deno kernel: half of its start is spared.

# Nobody waits for it: only what hangs is to end.
DEADLINE_S = 120.0

KEPT = 4

CELL = "compiled"


@dataclass(frozen=True, slots=True)
class CompiledDriver:
    """One Deno, one driver and V8's flags, which compiled code must be made with."""

    deno: Path
    driver: Path
    v8_flags: tuple[str, ...]
    cache: Path
    """Where it is kept, below; never a directory that sessions can write."""

    @property
    def directory(self) -> Path:
        """Where it is, once it was made."""
        seen = hashlib.sha256()
        for path in (self.deno, *sorted(self.driver.parent.glob("*.mjs"))):
            status = path.stat()
            seen.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        seen.update("\0".join(self.v8_flags).encode())
        return self.cache / f"deno-{seen.hexdigest()[:32]}"

    def found(self) -> Path | None:
        """Where it is, if it was made."""
        directory = self.directory
        return directory if directory.is_dir() else None

    async def make(
        self,
        flags: Sequence[str],
        environment: Mapping[str, str],
        greeting: Callable[[ExitOutput], Awaitable[Mapping[str, Any]]],
    ) -> None:
        """Run the driver once and keep what Deno kept; ``greeting`` is made from what the process said.

        Whatever goes wrong is no harm: kernels start without.
        """
        await anyio.to_thread.run_sync(lambda: self.cache.mkdir(parents=True, exist_ok=True))
        scratch = Path(
            await anyio.to_thread.run_sync(lambda: tempfile.mkdtemp(prefix=".deno-", dir=self.cache))
        )
        try:
            home = scratch / "made"
            words, pipes = ExitOutput(), Pipes()
            command = [str(self.deno), "run", *flags, *self.v8_flags, str(self.driver)]
            told = {**environment, "DENO_DIR": str(home)}
            start = Start(command, told, scratch, pipes=pipes, exit_output=words)
            with contextlib.suppress(OSError, TimeoutError):
                await _run_once(start, PipeClient(pipes, lambda: greeting(words)))
                await anyio.to_thread.run_sync(self._keep, home)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _keep(self, made: Path) -> None:
        for left in made.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
        with contextlib.suppress(OSError):  # somebody else was quicker
            made.rename(self.directory)
        old = sorted(self.cache.glob("deno-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


async def _run_once(start: Start, client: PipeClient) -> None:
    """Start the driver, let it run a cell of ours, and wait for its end."""
    process = await start.open(NO_CGROUP)
    with expected_child(process.pid):
        try:
            async with anyio.create_task_group() as tasks:
                ending = watched(process, start, NO_CGROUP)
                tasks.start_soon(ending.watch)
                tasks.start_soon(start.exit_output.run)
                try:
                    with anyio.fail_after(DEADLINE_S):
                        await tasks.start(client.run)
                        await _run_cell(client)
                        await client.shutdown_request(timeout_s=DEADLINE_S)
                        await ending.wait()
                finally:
                    ending.kill_tree("it was only to compile the driver")
                    with anyio.CancelScope(shield=True):
                        await ending.wait()
                    tasks.cancel_scope.cancel()
        finally:
            start.exit_output.close()
            if start.pipes is not None:
                start.pipes.close()


async def _run_cell(client: PipeClient) -> None:
    idle = anyio.Event()

    def hear(message: Message) -> None:
        if message.kind == "status" and b'"idle"' in message.content and message.parent_id == CELL:
            idle.set()

    client.on_message = hear
    client.execute("const one: number = 1; one + one", message_id=CELL)
    await idle.wait()
