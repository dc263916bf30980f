"""Starts, stops and queries a session's kernel, and installs packages into it. What runs on it is ``execution_queue``'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import anyio
from msgspec.structs import replace

from cellwright.engine._checkpoints import Checkpoints
from cellwright.engine._context import SessionContext
from cellwright.engine.approvals import Matter
from cellwright.engine.digests import registered_digests
from cellwright.engine.lineage import lost_with, new_lineage, returned
from cellwright.engine.options import PackageOptions
from cellwright.engine.placement import HostName, refuse_foreign
from cellwright.engine.records import Batch, SessionRecord
from cellwright.engine.workspace import SessionWorkspace
from cellwright.errors import (
    CellwrightError,
    HostError,
    HostLost,
    HostUnreachable,
    KernelGone,
    PackageRefused,
)
from cellwright.hosts import protocol
from cellwright.hosts.protocol import DenoKernel, KernelKind, KernelspecKernel, PythonKernel
from cellwright.kernels import find_deno, find_project_python
from cellwright.notebook import Document
from cellwright.notebook.languages import OnDeno, OnKernelspec, OnPython, Runtime, find_language
from cellwright.plugins.registry import when_replaced
from cellwright.sandbox.npm import install_npm, is_npm_layer
from cellwright.sandbox.packages import InstallResult, PythonTarget, install, installed_in
from cellwright.sandbox.workspace import refuse_too_open

__all__ = ["SessionKernel", "kernel_environment", "named_language", "runtime_of"]

# The first completion reads in all of Python's own names: two seconds of processor time, on a busy machine many more.
_ASK_TIMEOUT_S = 30.0

# Nobody has warmed a kernel on a server: its first completion imports what completes.
_COLD_TIMEOUT_S = 45.0

# Requests that only kernels of ours understand; others would not even refuse them.
_OURS = "cellwright_"


class SessionKernel:
    """The kernel of one session, or its absence for the time being."""

    def __init__(
        self, session: SessionContext, workspace: SessionWorkspace, checkpoints: Checkpoints
    ) -> None:
        self._session = session
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._services = session.services
        self._installing = anyio.Lock()

    @property
    def runs_python(self) -> bool:
        """Whether its main kernel is a Python one, which can be asked what others cannot."""
        return runtime_of(self._session.language) == "python"

    def secondary(self, language: str) -> protocol.Side | None:
        """The secondary kernel on which a language runs; None where the main one does."""
        runtime = runtime_of(language)
        if runtime == runtime_of(self._session.language):
            return None
        remote = self._services.hosts.remote_kernel(self._session.record, language, main=False)
        if remote is not None:
            return protocol.Side(runtime, remote, {})
        kind = kernel_kind(self._session.file.document, language, self._workspace.folder)
        environment = kernel_environment(self._services.environment, kind)
        return protocol.Side(
            runtime, kind, environment, self._session.record.layers if runtime in ("python", "deno") else ()
        )

    async def resume(self) -> None:
        """Have a live kernel; a new one starts empty, in a new generation."""
        async with self._session.turn:
            with anyio.CancelScope(shield=True):
                await self.ensure()

    async def suspend(self, *, reason: str | None = None) -> None:
        """Let the kernel go and keep everything else."""
        async with self._session.turn:
            with anyio.CancelScope(shield=True):
                await self._stop(reason)

    async def restart(self) -> None:
        """Replace the kernel by an empty one."""
        async with self._session.turn:
            with anyio.CancelScope(shield=True):
                await self.start_empty()

    async def wait_for_host(self, why: str) -> None:
        """Note that it has no kernel because its host waits for its turn; the next call tries again."""
        self._session.record = replace(self._session.record, reason=why)
        await self._session.record_state({"session": "suspended", "reason": why})

    async def prefer_host(self, host: HostName) -> None:
        """Let its next kernel live elsewhere.

        Raises:
            HostError: it has a kernel, and is somewhere else.
        """
        if str(host) == self._session.record.host:
            return
        if self._session.record.kernel_id is not None:
            raise HostError(
                f"Session {self._session.id} has a kernel on {self._session.record.on or self._session.record.host}",
                hint="Suspend it first, or take its state along with `notebook_replay` and its argument `host`",
            )
        batch = Batch()
        self._session.propose(batch, host=str(host), remote=None)
        await self._session.record_state({"session": self._session.state, "host": str(host)}, batch)

    async def reserve_host(self) -> None:
        """Have a host at hand on which its next kernel could start.

        Raises:
            HostPending: it waits for its turn.
        """
        await self._services.hosts.choose(self._session.record)

    async def start_empty(self, host: HostName | None = None) -> str:
        """Replace the kernel by an empty one, on ``host`` where given, for whoever has the session's turn."""
        await self._stop(None)
        if host is not None:
            await self.prefer_host(host)
        return await self.ensure(fresh=True)

    async def install(self, packages: Sequence[str]) -> InstallResult:
        """Install approved packages for this session; they can be imported at once, also after a restart.

        Raises:
            PackageRefused: a name is not approved; nothing was installed.
            PackageFailed: they cannot be found, or do not go with what is installed.
            LimitReached: it took too long or too much room.
            NotApproved: it is asked about first, and the answer was no.
        """
        refuse_foreign(self._session.record, "packages")
        if runtime_of(self._session.language) not in ("python", "deno"):
            raise PackageRefused(
                f"Packages are installed for Python, TypeScript and JavaScript, and this session is {self._session.language}",
                hint="Use what its kernel has, or create a session in one of those",
            )
        what = f"install {', '.join(packages)} for {self._session.record.name}"
        with suppress(PackageRefused):  # then nobody need be asked: it is refused below
            _judge(packages, self._session.record, self._services.options.packages)
            await self._services.approvals.require(Matter.of("packages", what, self._session.record))
        async with self._installing:
            await self.resume()
            with self._services.audit.outcome("install", session=self._session.id, asked=packages) as outcome:
                result = await install_packages(
                    packages, self._session.record, self._services.options.packages
                )
                outcome["installed"] = [str(pin) for pin in result.installed]
            if result.layer is not None:
                with anyio.CancelScope(shield=True):
                    await self._add_layer(result.layer.name, result)
        return result

    async def _add_layer(self, name: str, result: InstallResult) -> None:
        pins = tuple(str(pin) for pin in result.installed)
        layers = tuple(dict.fromkeys((*self._session.record.layers, name)))
        held = tuple(dict.fromkeys((*self._session.record.packages, *pins)))
        self._session.record = replace(self._session.record, layers=layers, packages=held)
        await self._session.record_state({"session": self._session.state, "packages": list(pins)})
        # A kernel that went away meanwhile gets them when it starts again.
        if self._session.record.kernel_id is not None:
            with suppress(HostLost, KernelGone):
                request = protocol.AddLayers(self._session.record.kernel_id, (name,))
                await self._session.host.call(request, type(None))

    async def ask(
        self,
        kind: str,
        content: dict[str, Any],
        *,
        timeout_s: float = _ASK_TIMEOUT_S,
        side: protocol.Side | None = None,
    ) -> dict[str, Any]:
        """Send a request of Jupyter's protocol, or of ours, to the main kernel or a secondary one; returns its reply.

        Raises:
            KernelBusy: a cell is running.
        """
        if kind.startswith(_OURS):
            refuse_foreign(self._session.record, "values")
        if self._session.record.is_foreign:
            timeout_s = max(timeout_s, _COLD_TIMEOUT_S)
        async with self._session.turn:
            with anyio.CancelScope(shield=True):
                kernel_id = await self.ensure()
        request = protocol.Ask(kernel_id, kind, content, timeout_s, side)
        return await self._session.host.call(request, dict[str, Any])

    async def ensure(self, *, fresh: bool = False) -> str:
        """Have a kernel, for whoever has the session's turn: the live one, a checkpoint's or a new one; returns its id."""
        await self._reach_host()
        if self._session.record.kernel_id is not None:
            return self._session.record.kernel_id
        async with self._services.admit(self._session.record):
            return await self._have_again() or await self._start(fresh=fresh)

    async def _have_again(self) -> str | None:
        """The kernel of the newest checkpoint, where the last one died and left some."""
        record = self._session.record
        if record.left_by is not None and record.checkpoints:
            await self._checkpoints.take_over()
        return self._session.record.kernel_id

    async def _start(self, *, fresh: bool) -> str:
        host = await self._services.hosts.choose(self._session.record)
        await self._services.hosts.reach(host)
        await self._workspace.look_again()
        request = self._start_request(fresh=fresh)
        try:
            ready = await host.call(request, protocol.KernelReady)
        except KernelGone:
            if self._session.record.remote is None:
                raise
            # Its server no longer has it: then what follows is a new one.
            self._session.record = replace(self._session.record, remote=None)
            request = self._start_request(fresh=fresh)
            ready = await host.call(request, protocol.KernelReady)
        await self._note_started(host.name, request.kernel_id, ready, fresh=fresh)
        return request.kernel_id

    def _start_request(self, *, fresh: bool = False) -> protocol.StartKernel:
        kernel_id, record = self._session.next_kernel, self._session.record
        remote = self._services.hosts.remote_kernel(record, record.language, main=True, fresh=fresh)
        if remote is not None:
            return protocol.StartKernel(kernel_id, remote, "", {})
        kind = kernel_kind(self._session.file.document, self._session.language, self._workspace.folder)
        place = self._workspace.place
        if self._workspace.banner is None:
            refuse_too_open(place, str(self._services.options.home), chosen=record.chosen)
        return protocol.StartKernel(
            kernel_id=kernel_id,
            kind=kind,
            cwd=str(self._workspace.cwd),
            environment=kernel_environment(self._services.environment, kind),
            place=place,
            layers=self._session.record.layers,
            policy=self._workspace.own_policy,
        )

    async def _note_started(
        self, host: str, kernel_id: str, ready: protocol.KernelReady, *, fresh: bool
    ) -> None:
        """Journal a kernel that was just started, or found again."""
        generation = self._session.generation + 1
        before = self._session.record
        found_again = before.remote is not None and ready.remote is not None and not fresh
        self._session.record = replace(
            self._session.record,
            generation=generation,
            kernel_id=kernel_id,
            python=ready.interpreter,
            reason=None,
            tier=ready.tier,
            losses=ready.losses,
            python_version=ready.python_version,
            search_path=ready.search_path,
            # What it works on when it is back here is not for a server to say.
            mode=ready.mode if ready.remote is None else before.mode,
            lineage=returned(before.lineage, generation) if found_again else new_lineage(generation),
            former=before.former if found_again else lost_with(before),
            on=host,
            expires_at=None,
            remote=ready.remote,
            remote_ours=ready.remote_ours,
            remote_languages=ready.remote_languages,
        )
        opening = self._services.options.opening
        if opening is not None and self._workspace.network != "off":
            self._services.audit.note(
                "network",
                session=self._session.id,
                kernel=kernel_id,
                opened=self._workspace.network,
                allow=opening.allow,
                deny=opening.deny,
            )
        data = {
            "session": "active",
            "host": host,
            "interpreter": ready.interpreter,
            "started_by": ready.started_by,
            "tier": ready.tier,
            "losses": list(ready.losses),
            "mode": self._workspace.mode,
            "cwd": ready.cwd,
            "banner": self._workspace.banner,
            "limits": self._workspace.limits,
        }
        await self._session.record_state(data)

    async def _reach_host(self) -> None:
        """Have the loss of a host settled before anything trusts a kernel of it.

        Raises:
            HostUnreachable: it lives, and so does the kernel, and cannot be reached.
        """
        if self._session.record.kernel_id is not None or self._session.record.left_by is not None:
            with suppress(HostLost):  # its loss was told
                await self._session.host.connect()

    async def _stop(self, reason: str | None) -> None:
        left_by = self._session.record.left_by
        await self._stop_main(reason)
        await self._checkpoints.release(left_by)

    async def _stop_main(self, reason: str | None) -> None:
        kernel_id = self._session.record.kernel_id or await self._kernel_left_elsewhere()
        if kernel_id is None:
            return
        # With a lost host its kernels went; in one out of reach, those that nobody has are ended when it is back.
        with suppress(HostLost, HostUnreachable):
            await self._session.host.call(protocol.StopKernel(kernel_id), type(None))
        self._session.record = replace(self._session.record, kernel_id=None, reason=reason, remote=None)
        await self._session.record_state({"session": "suspended", "reason": reason})

    async def _kernel_left_elsewhere(self) -> str | None:
        """A kernel that lives on on its server though we lost it, had back so that it can be ended there."""
        if (
            self._session.record.remote is None
            or not self._session.record.remote_ours
            or not self._session.record.is_foreign
        ):
            return None
        request = self._start_request()
        with suppress(CellwrightError):
            await self._session.host.call(request, protocol.KernelReady)
            return request.kernel_id
        return None


# Which kernel runs a language, and what it finds in its environment. Pure; starts nothing.

# Ours, and one that makes every import in a kernel four times as slow.
_LEFT_OUT_PREFIX = "CELLWRIGHT_"

_LEFT_OUT = frozenset({"PYTHONDONTWRITEBYTECODE"})


def runtime_of(language: str) -> str:
    """What the kernel that runs a language is called; languages that share one have the same."""
    match _runs(language):
        case OnPython():
            return "python"
        case OnDeno():
            return "deno"
        case OnKernelspec():
            return language


def named_language(language: str) -> str | None:
    """What a kernel has to be told of a run's language; nothing where it knows."""
    match _runs(language):
        case OnPython(cells):
            return cells or None
        case OnDeno(dialect):
            return dialect or None
        case OnKernelspec():
            return None


def kernel_kind(document: Document, language: str, directory: Path) -> KernelKind:
    """How to start the kernel for a language: Python from the project's interpreter, others by kernelspec."""
    match _runs(language):
        case OnPython():
            python = find_project_python(directory)
            return PythonKernel(str(python) if python is not None else None, registered_digests())
        case OnDeno():
            return DenoKernel()
        case OnKernelspec(name, folder):
            if folder is not None:
                return KernelspecKernel(name, str(folder))
            return KernelspecKernel(_own_kernelspec(document, language) or name)


@lru_cache(maxsize=64)
def _runs(language: str) -> Runtime:
    """What runs a language; one that nobody registered is taken as the name of a kernelspec."""
    # Kept, since every cell asks.
    when_replaced(_runs.cache_clear)
    known = find_language(language)
    return (known.runs if known is not None else None) or OnKernelspec(language)


def _own_kernelspec(document: Document, language: str) -> str | None:
    """The kernelspec that a notebook in this language names."""
    spec = document.metadata.get("kernelspec") or {}
    if spec.get("name") and str(spec.get("language", language)).lower() == language:
        return str(spec["name"])
    return None


def kernel_environment(environment: Mapping[str, str], kind: KernelKind) -> dict[str, str]:
    """The environment of a kernel: the engine's, less what is the engine's own, with the project's venv first."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_LEFT_OUT_PREFIX) and name not in _LEFT_OUT
    }
    if isinstance(kind, PythonKernel) and kind.python is not None:
        scripts = Path(kind.python).parent
        kept["VIRTUAL_ENV"] = str(scripts.parent)
        kept["PATH"] = f"{scripts}:{kept['PATH']}" if kept.get("PATH") else str(scripts)
    return kept


# Packages for one session: chooses what the installer (``sandbox.packages``) is asked for. Keeps nothing
# itself.

_NPM = "npm:"


async def install_packages(
    names: Sequence[str], record: SessionRecord, options: PackageOptions
) -> InstallResult:
    """Make a layer of what a session asks for and its interpreter, and its earlier layers, do not have.

    In a TypeScript or JavaScript session names are npm's; elsewhere those are that say so (``npm:lodash``).
    """
    if _judge(names, record, options) == "npm":
        return await _install_npm(names, record, options)
    layers = [options.store / layer for layer in record.layers if not is_npm_layer(layer)]
    places = [*map(Path, record.search_path), *layers]
    return await install(
        names,
        target=PythonTarget(record.python_version),
        store=options.store,
        approved=options.approved,
        installed=await anyio.to_thread.run_sync(installed_in, places),
        limits=options.limits,
    )


def _judge(names: Sequence[str], record: SessionRecord, options: PackageOptions) -> Literal["npm", "python"]:
    """Whose packages they are.

    Raises:
        PackageRefused: one is not approved, or some are of each kind.
    """
    from_npm = [name.startswith(_NPM) for name in names]
    if runtime_of(record.language) == "deno" or all(from_npm):
        options.approved_npm.judge(names)
        return "npm"
    if any(from_npm):
        raise PackageRefused(
            "npm packages and Python's were asked for at once", hint="Ask for each kind by itself"
        )
    options.approved.judge(names)
    return "python"


async def _install_npm(names: Sequence[str], record: SessionRecord, options: PackageOptions) -> InstallResult:
    before = [options.store / layer for layer in record.layers if is_npm_layer(layer)]
    return await install_npm(
        names,
        deno=await anyio.to_thread.run_sync(find_deno),
        store=options.store,
        approved=options.approved_npm,
        before=before[-1] if before else None,
        limits=options.limits,
    )
