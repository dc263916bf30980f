"""A session's kernel: had when it is needed, let go, asked, given packages. What runs on it stands in ``sessions``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import anyio
from msgspec.structs import replace

from cellwright.engine.books import Services
from cellwright.engine.document import Keeper
from cellwright.engine.environment import (
    install_packages,
    kernel_environment,
    kernel_kind,
    named_language,
    runtime_of,
)
from cellwright.engine.introspection import (
    DIAGNOSE_REQUEST,
    FINGERPRINTS_REQUEST,
    INPUTS_REQUEST,
    INSPECT_REQUEST,
    PROFILE_REQUEST,
    Completion,
    Diagnosis,
    Fingerprint,
    Inputs,
    Inspection,
    Profile,
    completion_of,
    diagnosis_of,
    fingerprints_of,
    inputs_of,
    inspection_of,
    named_in,
    profile_of,
)
from cellwright.engine.jupyter_sessions import (
    inspect_content,
    inspect_reply,
    is_elsewhere,
    kernel_elsewhere,
    refuse_elsewhere,
)
from cellwright.engine.lineage import lost_with, new_lineage, returned
from cellwright.engine.listening import Listener
from cellwright.engine.placement import HostName
from cellwright.engine.records import Batch, SessionRecord, put_session
from cellwright.errors import (
    CellwrightError,
    HostError,
    HostLost,
    HostUnreachable,
    KernelError,
    KernelGone,
    PackageRefused,
)
from cellwright.hosts import protocol
from cellwright.sandbox.packages import InstallResult
from cellwright.sandbox.workspace import refuse_too_open

__all__ = ["Kernelled"]

# The first completion reads in all of Python's own names: two seconds of processor time, on a busy machine many more.
_ASK_TIMEOUT_S = 30.0
# A gigabyte on a slow disk.
_HASHING_TIMEOUT_S = 60.0
# Nobody has warmed a kernel on a server: its first completion imports what completes.
_COLD_TIMEOUT_S = 45.0
# Requests that only kernels of ours understand; others would not even refuse them.
_OURS = "cellwright_"


class Kernelled(Listener):
    """A notebook with a kernel, or without one for the time being."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self._submitting = anyio.Lock()
        self._installing = anyio.Lock()

    @property
    def runs_python(self) -> bool:
        """Whether its main kernel is a Python one, which can be asked what others cannot."""
        return runtime_of(self.language) == "python"

    def _side(self, language: str) -> protocol.Side | None:
        """The kernel beside the main one on which a language runs; None where the main one does."""
        runtime = runtime_of(language)
        if runtime == runtime_of(self.language):
            return None
        if is_elsewhere(self.record):
            elsewhere = kernel_elsewhere(self.record, self._services.settings, language, main=False)
            return protocol.Side(runtime, elsewhere, {})
        kind = kernel_kind(self.keeper.document, language, self.folder)
        environment = kernel_environment(self._services.environment, kind)
        return protocol.Side(
            runtime, kind, environment, self.record.layers if runtime in ("python", "deno") else ()
        )

    async def resume(self) -> None:
        """Have a live kernel; a new one starts empty, in a new generation."""
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                await self._ensure_kernel()

    async def suspend(self, *, reason: str | None = None) -> None:
        """Let the kernel go and keep everything else."""
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                await self._let_kernel_go(reason)

    async def restart(self) -> None:
        """Replace the kernel by an empty one."""
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                await self._empty_kernel()

    async def wait_for_host(self, why: str) -> None:
        """Note that it has no kernel because its host waits for its turn; the next call tries again."""
        self.record = replace(self.record, reason=why)
        await self._record_state({"session": "suspended", "reason": why})

    async def prefer_host(self, wanted: HostName) -> None:
        """Let its next kernel live elsewhere.

        Raises:
            HostError: it has a kernel, and is somewhere else.
        """
        if str(wanted) == self.record.host:
            return
        if self.record.kernel_id is not None:
            raise HostError(
                f"Session {self.id} has a kernel on {self.record.on or self.record.host}",
                hint="Suspend it first, or take its state along with `notebook_replay` and its argument `host`",
            )
        batch = Batch()
        self._propose_record(batch, host=str(wanted), remote=None)
        await self._record_state({"session": self.state, "host": str(wanted)}, batch)

    async def reserve_host(self) -> None:
        """Have a host at hand on which its next kernel could start.

        Raises:
            HostPending: it waits for its turn.
        """
        await self._services.hosts.choose(self.record)

    async def _empty_kernel(self, host: HostName | None = None) -> str:
        await self._let_kernel_go(None)
        if host is not None:
            await self.prefer_host(host)
        return await self._ensure_kernel(fresh=True)

    async def inspect(self, *, packages: bool = False) -> Inspection:
        """What the live kernel holds: variables, functions, modules, and where it runs.

        Raises:
            KernelBusy: a cell is running.
        """
        elsewhere = is_elsewhere(self.record)
        if runtime_of(self.language) not in (("python",) if elsewhere else ("python", "deno")):
            raise KernelError(
                f"A kernel of {self.language} cannot be inspected", hint="Run code that shows it"
            )
        if elsewhere:
            answer = await self._ask("execute_request", inspect_content(packages=packages))
            return inspection_of(inspect_reply(answer))
        return inspection_of(await self._ask(INSPECT_REQUEST, {"packages": packages}))

    async def diagnose(self) -> Diagnosis | None:
        """What the last execution in the live kernel raised; None if nothing, or where nobody can be asked.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: it ended before it answered.
        """
        if not self.runs_python or self.record.kernel_id is None or is_elsewhere(self.record):
            return None
        return diagnosis_of(await self._ask(DIAGNOSE_REQUEST, {"project": self.record.project}))

    async def watch_inputs(self) -> None:
        """Have the kernel note from now on which files its code reads; nothing where it cannot."""
        await self.inputs(watch=True)

    async def inputs(self, source: str = "", *, watch: bool = False, packages: bool = False) -> Inputs:
        """Which files were read since this was last asked, and with ``packages`` what the code imported so far.

        ``source`` is what ran meanwhile: files that it names count too. Of files nothing is known unless somebody let
        it ``watch``, and of packages only those that ``source`` imports; nor anything of other languages than Python.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self.runs_python or is_elsewhere(self.record):
            return Inputs()
        roots = dict.fromkeys(one for one in (str(self.cwd), self.record.project) if one is not None)
        content = {"watch": watch, "roots": list(roots), "packages": packages, **named_in(source)}
        return inputs_of(await self._ask(INPUTS_REQUEST, content, timeout_s=_HASHING_TIMEOUT_S))

    async def measure_next(self, cell_id: str, *, lines: bool = False) -> None:
        """Have the next execution measured, with ``lines`` where its time goes; nothing where the kernel cannot."""
        if self.runs_python and not is_elsewhere(self.record):
            await self._ask(PROFILE_REQUEST, {"arm": {"cell": cell_id, "lines": lines}})

    async def profile(self) -> Profile:
        """What the last execution cost, where it was measured, and what the namespace holds.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self.runs_python or is_elsewhere(self.record):
            return Profile()
        return profile_of(await self._ask(PROFILE_REQUEST, {}, timeout_s=_HASHING_TIMEOUT_S))

    async def fingerprints(self) -> dict[str, Fingerprint]:
        """What the kernel's variables can be compared by with those of another kernel.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self.runs_python or is_elsewhere(self.record):
            return {}
        return fingerprints_of(await self._ask(FINGERPRINTS_REQUEST, {}, timeout_s=_HASHING_TIMEOUT_S))

    async def complete(
        self, code: str, cursor: int | None = None, *, language: str | None = None
    ) -> Completion:
        """What could stand at the cursor, in the notebook's language or another."""
        language = language or self.language
        content: dict[str, Any] = {"code": code, "cursor_pos": len(code) if cursor is None else cursor}
        if (named := named_language(language)) is not None and not is_elsewhere(self.record):
            content["language"] = named
        return completion_of(await self._ask("complete_request", content, side=self._side(language)))

    async def relay(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Pass a question of Jupyter's protocol to the main kernel, and its answer back.

        Raises:
            KernelBusy: a cell is running.
        """
        return await self._ask(kind, content)

    async def install(self, packages: Sequence[str]) -> InstallResult:
        """Install approved packages for this session; they can be imported at once, also after a restart.

        Raises:
            PackageRefused: a name is not approved; nothing was installed.
            PackageFailed: they cannot be found, or do not go with what is installed.
            LimitReached: it took too long or too much room.
        """
        refuse_elsewhere(self.record, "packages")
        if runtime_of(self.language) not in ("python", "deno"):
            raise PackageRefused(
                f"Packages are installed for Python, TypeScript and JavaScript, and this session is {self.language}",
                hint="Use what its kernel has, or create a session in one of those",
            )
        async with self._installing:
            await self.resume()
            with self._services.audit.outcome("install", session=self.id, asked=packages) as told:
                result = await install_packages(packages, self.record, self._services.settings)
                told["installed"] = [str(pin) for pin in result.installed]
            if result.layer is not None:
                with anyio.CancelScope(shield=True):
                    await self._add_layer(result.layer.name, result)
        return result

    async def _add_layer(self, name: str, result: InstallResult) -> None:
        pins = tuple(str(pin) for pin in result.installed)
        layers = tuple(dict.fromkeys((*self.record.layers, name)))
        held = tuple(dict.fromkeys((*self.record.packages, *pins)))
        self.record = replace(self.record, layers=layers, packages=held)
        await self._record_state({"session": self.state, "packages": list(pins)})
        # A kernel that went away meanwhile gets them when it starts again.
        if self.record.kernel_id is not None:
            with suppress(HostLost, KernelGone):
                request = protocol.AddLayers(self.record.kernel_id, (name,))
                await self.host.call(request, type(None))

    async def _ask(
        self,
        kind: str,
        content: dict[str, Any],
        *,
        timeout_s: float = _ASK_TIMEOUT_S,
        side: protocol.Side | None = None,
    ) -> dict[str, Any]:
        if kind.startswith(_OURS):
            refuse_elsewhere(self.record, "values")
        if is_elsewhere(self.record):
            timeout_s = max(timeout_s, _COLD_TIMEOUT_S)
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                kernel_id = await self._ensure_kernel()
        request = protocol.Ask(kernel_id, kind, content, timeout_s, side)
        return await self.host.call(request, dict[str, Any])

    async def _ensure_kernel(self, *, fresh: bool = False) -> str:
        await self._reach_host()
        if self.record.kernel_id is not None:
            return self.record.kernel_id
        self._services.admit(self)
        host = await self._services.hosts.choose(self.record)
        await self._services.hosts.reach(host)
        request = self._start_request(fresh=fresh)
        try:
            ready = await host.call(request, protocol.KernelReady)
        except KernelGone:
            if self.record.remote is None:
                raise
            # Its server no longer has it: then what follows is a new one.
            self.record = replace(self.record, remote=None)
            request = self._start_request(fresh=fresh)
            ready = await host.call(request, protocol.KernelReady)
        await self._moved_in(host.name, request.kernel_id, ready, fresh=fresh)
        return request.kernel_id

    def _start_request(self, *, fresh: bool = False) -> protocol.StartKernel:
        kernel_id = f"{self.id}.{self.generation + 1}"
        if is_elsewhere(self.record):
            settings = self._services.settings
            elsewhere = kernel_elsewhere(self.record, settings, self.language, main=True, fresh=fresh)
            return protocol.StartKernel(kernel_id, elsewhere, "", {})
        kind = kernel_kind(self.keeper.document, self.language, self.folder)
        place = self.place
        if self.banner is None:
            refuse_too_open(place, str(self._services.home))
        return protocol.StartKernel(
            kernel_id=kernel_id,
            kind=kind,
            cwd=str(self.cwd),
            environment=kernel_environment(self._services.environment, kind),
            place=place,
            layers=self.record.layers,
            policy=self.own_policy,
        )

    async def _moved_in(self, host: str, kernel_id: str, ready: protocol.KernelReady, *, fresh: bool) -> None:
        """Journal a kernel that was just started, or found again."""
        generation = self.generation + 1
        before = self.record
        found_again = before.remote is not None and ready.remote is not None and not fresh
        self.record = replace(
            self.record,
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
        if self.network != "off":
            lists = self._services.settings
            self._services.audit.note(
                "network",
                session=self.id,
                kernel=kernel_id,
                opened=self.network,
                allow=lists.network_allow,
                deny=lists.network_deny,
            )
        data = {
            "session": "active",
            "host": host,
            "interpreter": ready.interpreter,
            "started_by": ready.started_by,
            "tier": ready.tier,
            "losses": list(ready.losses),
            "mode": self.mode,
            "cwd": ready.cwd,
            "banner": self.banner,
            "limits": self.limits,
        }
        await self._record_state(data)

    async def _reach_host(self) -> None:
        """Have the loss of a host settled before anything trusts a kernel of it.

        Raises:
            HostUnreachable: it lives, and so does the kernel, and cannot be reached.
        """
        if self.record.kernel_id is not None or self.record.left_by is not None:
            with suppress(HostLost):  # its loss was told
                await self.host.connect()

    async def _let_kernel_go(self, reason: str | None) -> None:
        kernel_id = self.record.kernel_id or await self._kernel_left_elsewhere()
        if kernel_id is None:
            return
        # With a lost host its kernels went; in one out of reach, those that nobody has are ended when it is back.
        with suppress(HostLost, HostUnreachable):
            await self.host.call(protocol.StopKernel(kernel_id), type(None))
        self.record = replace(self.record, kernel_id=None, reason=reason, remote=None)
        await self._record_state({"session": "suspended", "reason": reason})

    async def _kernel_left_elsewhere(self) -> str | None:
        """A kernel that lives on on its server though we lost it, had back so that it can be ended there."""
        if self.record.remote is None or not self.record.remote_ours or not is_elsewhere(self.record):
            return None
        request = self._start_request()
        with suppress(CellwrightError):
            await self.host.call(request, protocol.KernelReady)
            return request.kernel_id
        return None

    async def _record_state(self, data: dict[str, Any], batch: Batch | None = None) -> None:
        recorder, batch = self._services.recorder, batch or Batch()
        recorder.note(batch, "notebook.state.changed", self.record, data)
        batch.statements.append(put_session(self.record))
        self.last_active = time.monotonic()
        await recorder.commit(batch)
