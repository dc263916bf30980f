"""A session's kernel: had when it is needed, let go, asked, given packages. What runs on it stands in ``sessions``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import anyio
from msgspec.structs import replace

from cellwright.engine.books import Services
from cellwright.engine.diagnosis import DIAGNOSE_REQUEST, Diagnosis, diagnosis_of
from cellwright.engine.environment import kernel_environment, kernel_kind, named_language, runtime_of
from cellwright.engine.inputs import INPUTS_REQUEST, Inputs, inputs_of, named_in
from cellwright.engine.inspection import INSPECT_REQUEST, Completion, Inspection, completion_of, inspection_of
from cellwright.engine.installing import install_packages
from cellwright.engine.keeping import Keeper
from cellwright.engine.lineages import lost_with, new_lineage
from cellwright.engine.listening import Listener
from cellwright.engine.records import Batch, SessionRecord, put_session
from cellwright.errors import HostLost, KernelError, KernelGone, PackageRefused
from cellwright.hosts import protocol
from cellwright.sandbox.packages import InstallResult
from cellwright.sandbox.places import refuse_too_open

__all__ = ["Kernelled"]

_ASK_TIMEOUT_S = 10.0
# A gigabyte on a slow disk.
_HASHING_TIMEOUT_S = 60.0


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

    async def _empty_kernel(self) -> str:
        await self._let_kernel_go(None)
        return await self._ensure_kernel()

    async def inspect(self, *, packages: bool = False) -> Inspection:
        """What the live kernel holds: variables, functions, modules, and where it runs.

        Raises:
            KernelBusy: a cell is running.
        """
        if runtime_of(self.language) not in ("python", "deno"):
            raise KernelError(
                f"A kernel of {self.language} cannot be inspected", hint="Run code that shows it"
            )
        return inspection_of(await self._ask(INSPECT_REQUEST, {"packages": packages}))

    async def diagnose(self) -> Diagnosis | None:
        """What the last execution in the live kernel raised; None if nothing, or where nobody can be asked.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: it ended before it answered.
        """
        if not self.runs_python or self.record.kernel_id is None:
            return None
        return diagnosis_of(await self._ask(DIAGNOSE_REQUEST, {"project": self.record.project}))

    async def watch_inputs(self) -> None:
        """Have the kernel note from now on which files its code reads; nothing where it cannot."""
        await self.inputs(watch=True)

    async def inputs(self, source: str = "", *, watch: bool = False, packages: bool = False) -> Inputs:
        """Which files were read since this was last asked, and with ``packages`` what the code imported so far.

        ``source`` is what ran meanwhile: files that it names count too. Nothing is known unless somebody let it
        ``watch``, nor of other languages than Python.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self.runs_python:
            return Inputs()
        roots = dict.fromkeys(one for one in (str(self.cwd), self.record.project) if one is not None)
        content = {"watch": watch, "roots": list(roots), "packages": packages, **named_in(source)}
        return inputs_of(await self._ask(INPUTS_REQUEST, content, timeout_s=_HASHING_TIMEOUT_S))

    async def complete(
        self, code: str, cursor: int | None = None, *, language: str | None = None
    ) -> Completion:
        """What could stand at the cursor, in the notebook's language or another."""
        language = language or self.language
        content: dict[str, Any] = {"code": code, "cursor_pos": len(code) if cursor is None else cursor}
        if (named := named_language(language)) is not None:
            content["language"] = named
        return completion_of(await self._ask("complete_request", content, side=self._side(language)))

    async def install(self, packages: Sequence[str]) -> InstallResult:
        """Install approved packages for this session; they can be imported at once, also after a restart.

        Raises:
            PackageRefused: a name is not approved; nothing was installed.
            PackageFailed: they cannot be found, or do not go with what is installed.
            LimitReached: it took too long or too much room.
        """
        if runtime_of(self.language) not in ("python", "deno"):
            raise PackageRefused(
                f"Packages are installed for Python, TypeScript and JavaScript, and this session is {self.language}",
                hint="Use what its kernel has, or create a session in one of those",
            )
        async with self._installing:
            await self.resume()
            result = await install_packages(packages, self.record, self._services.settings)
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
                await self._services.host.call(request, type(None))

    async def _ask(
        self,
        kind: str,
        content: dict[str, Any],
        *,
        timeout_s: float = _ASK_TIMEOUT_S,
        side: protocol.Side | None = None,
    ) -> dict[str, Any]:
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                kernel_id = await self._ensure_kernel()
        request = protocol.Ask(kernel_id, kind, content, timeout_s, side)
        return await self._services.host.call(request, dict[str, Any])

    async def _ensure_kernel(self) -> str:
        # First, so that a host's loss is settled before anything trusts a kernel of it.
        await self._services.host.connect()
        if self.record.kernel_id is not None:
            return self.record.kernel_id
        self._services.admit(self)
        kind = kernel_kind(self.keeper.document, self.language, self.folder)
        place = self.place
        if self.banner is None:
            refuse_too_open(place, str(self._services.home))
        request = protocol.StartKernel(
            kernel_id=f"{self.id}.{self.generation + 1}",
            kind=kind,
            cwd=str(self.cwd),
            environment=kernel_environment(self._services.environment, kind),
            place=place,
            layers=self.record.layers,
            policy=self.own_policy,
        )
        ready = await self._services.host.call(request, protocol.KernelReady)
        generation = self.generation + 1
        self.record = replace(
            self.record,
            generation=generation,
            kernel_id=request.kernel_id,
            python=ready.interpreter,
            reason=None,
            tier=ready.tier,
            losses=ready.losses,
            python_version=ready.python_version,
            search_path=ready.search_path,
            mode=ready.mode,
            lineage=new_lineage(generation),
            former=lost_with(self.record),
        )
        data = {
            "session": "active",
            "interpreter": ready.interpreter,
            "started_by": ready.started_by,
            "tier": ready.tier,
            "losses": list(ready.losses),
            "mode": ready.mode,
            "cwd": ready.cwd,
            "banner": self.banner,
            "limits": self.limits,
        }
        await self._record_state(data)
        return request.kernel_id

    async def _let_kernel_go(self, reason: str | None) -> None:
        kernel_id = self.record.kernel_id
        if kernel_id is None:
            return
        with suppress(HostLost):  # its kernels went with it
            await self._services.host.call(protocol.StopKernel(kernel_id), type(None))
        self.record = replace(self.record, kernel_id=None, reason=reason)
        await self._record_state({"session": "suspended", "reason": reason})

    async def _record_state(self, data: dict[str, Any]) -> None:
        recorder, batch = self._services.recorder, Batch()
        recorder.note(batch, "notebook.state.changed", self.record, data)
        batch.statements.append(put_session(self.record))
        self.last_active = time.monotonic()
        await recorder.commit(batch)
