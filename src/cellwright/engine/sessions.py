"""A session: a notebook (see ``books``) in its place (see ``workplaces``) with a kernel, and everything one can run on it.

It keeps the order of what is asked, journals before it answers, and starts a kernel when one is needed. Where the
session stands among others (limits, listing, deletion) is the ``engine``'s business.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace

from cellwright.engine.books import Services
from cellwright.engine.environment import kernel_environment, kernel_kind
from cellwright.engine.executions import Execution
from cellwright.engine.ids import new_execution_id
from cellwright.engine.inspection import INSPECT_REQUEST, Completion, Inspection, completion_of, inspection_of
from cellwright.engine.installing import install_packages
from cellwright.engine.keeping import Keeper
from cellwright.engine.limits import explained
from cellwright.engine.records import Batch, ExecutionRecord, SessionRecord, put_session
from cellwright.engine.workplaces import Workplace
from cellwright.errors import (
    CellwrightError,
    HostLost,
    KernelError,
    KernelGone,
    NotebookError,
    PackageRefused,
)
from cellwright.hosts import protocol
from cellwright.sandbox.packages import InstallResult
from cellwright.sandbox.places import refuse_too_open

__all__ = ["Session"]

_ASK_TIMEOUT_S = 10.0


class Session(Workplace):
    """One notebook at work. Made by the engine; all calls are safe to make at the same time."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self._submitting = anyio.Lock()
        self._installing = anyio.Lock()

    # Running -----------------------------------------------------------------------------------------------------

    async def run(self, cell_id: str, *, timeout_s: float | None = None) -> Execution:
        """Run a cell and wait for its end."""
        return await (await self.execute(cell_id, timeout_s=timeout_s)).wait()

    async def run_all(self, *, timeout_s: float | None = None, allow_errors: bool = False) -> list[Execution]:
        """Run every code cell in order and wait; the first failure drops the rest unless errors are allowed."""
        return [
            await execution.wait()
            for execution in await self.execute_all(timeout_s=timeout_s, allow_errors=allow_errors)
        ]

    async def execute(self, cell_id: str, *, timeout_s: float | None = None) -> Execution:
        """Queue a cell and return at once. The execution goes on whatever becomes of the caller."""
        await self.refresh()
        cell = self.keeper.document.cell(cell_id)
        if cell.kind != "code":
            raise NotebookError(f"Cell {cell_id!r} is a {cell.kind} cell", hint="Only code cells can run")
        return (await self._submit([_Wanted(cell.source, cell_id)], timeout_s=timeout_s))[0]

    async def execute_all(
        self, *, timeout_s: float | None = None, allow_errors: bool = False
    ) -> list[Execution]:
        """Queue every code cell in order, leaving out empty ones and those tagged ``skip-execution``."""
        await self.refresh()
        wanted = [
            _Wanted(cell.source, cell.id, allow_error=allow_errors or cell.may_raise)
            for cell in self.keeper.document.cells
            if cell.runs
        ]
        return await self._submit(wanted, timeout_s=timeout_s) if wanted else []

    async def execute_code(self, source: str, *, timeout_s: float | None = None) -> Execution:
        """Queue code that is in no cell and leaves none; it is in the history all the same."""
        return (await self._submit([_Wanted(source, None)], timeout_s=timeout_s))[0]

    async def _submit(self, wanted: list[_Wanted], *, timeout_s: float | None) -> list[Execution]:
        # Shielded: once journalled, an execution must reach the host even if whoever asked for it is cancelled.
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                executions = await self._queue(wanted, timeout_s)
        return executions

    async def _queue(self, wanted: list[_Wanted], timeout_s: float | None) -> list[Execution]:
        kernel_id = await self._ensure_kernel()
        batch = Batch()
        executions = [self.runs.queue(batch, self.record, self._new_record(want)) for want in wanted]
        self._touch()
        commit = self._services.recorder.commit(batch)
        await self._send(kernel_id, wanted, executions, self.time_limit(timeout_s))
        await commit
        return executions

    async def _send(
        self, kernel_id: str, wanted: list[_Wanted], executions: list[Execution], timeout_s: float
    ) -> None:
        group = executions[0].id if len(executions) > 1 else None
        runs = tuple(
            protocol.Run(execution.id, want.source, timeout_s, group, want.allow_error)
            for want, execution in zip(wanted, executions, strict=True)
        )
        try:
            await self._services.host.call(protocol.Execute(kernel_id, runs), type(None))
        except (HostLost, KernelGone) as error:
            self._fail(executions, "died", f"{error.message}; it did not run")
        except CellwrightError as error:
            self._fail(executions, "interrupted", f"{error.message}; it did not run")
            raise

    def _fail(self, executions: list[Execution], state: protocol.ExecutionState, reason: str) -> None:
        batch = Batch()
        for execution in executions:
            body = protocol.Finished(execution.id, state, 0.0, reason=reason)
            self.runs.finished(batch, self.record, body, time.time())
        self._services.recorder.commit(batch)

    def _new_record(self, want: _Wanted) -> ExecutionRecord:
        return ExecutionRecord(
            id=new_execution_id(),
            session_id=self.id,
            cell_id=want.cell_id,
            number=self.runs.count + 1,
            generation=self.generation,
            attempt=self.runs.next_attempt(want.cell_id),
            source=want.source,
            queued_at=time.time(),
        )

    async def cancel(self, execution_id: str) -> None:
        """Stop an execution that runs, or drop one that waits; one that has ended stays as it is."""
        execution = self.runs.find(execution_id)
        if execution is None or execution.done or self.record.kernel_id is None:
            return
        await self._services.host.call(protocol.Cancel(self.record.kernel_id, execution_id), type(None))

    async def interrupt(self) -> None:
        """Stop what runs and drop what waits; the kernel keeps its state."""
        if self.record.kernel_id is not None:
            await self._services.host.call(protocol.Interrupt(self.record.kernel_id), type(None))

    # The kernel --------------------------------------------------------------------------------------------------

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
                await self._let_kernel_go(None)
                await self._ensure_kernel()

    async def inspect(self, *, packages: bool = False) -> Inspection:
        """What the live kernel holds: variables, functions, modules, and where it runs.

        Raises:
            KernelBusy: a cell is running.
        """
        if self.language != "python":
            raise KernelError(f"A {self.language} kernel cannot be inspected", hint="Run code that shows it")
        return inspection_of(await self._ask(INSPECT_REQUEST, {"packages": packages}))

    async def complete(self, code: str, cursor: int | None = None) -> Completion:
        """What could stand at the cursor."""
        content = {"code": code, "cursor_pos": len(code) if cursor is None else cursor}
        return completion_of(await self._ask("complete_request", content))

    async def install(self, packages: Sequence[str]) -> InstallResult:
        """Install approved packages for this session; they can be imported at once, also after a restart.

        Raises:
            PackageRefused: a name is not approved; nothing was installed.
            PackageFailed: they cannot be found, or do not go with what is installed.
            LimitReached: it took too long or too much room.
        """
        if self.language != "python":
            raise PackageRefused(
                f"Packages are installed for Python only, and this session is {self.language}",
                hint="Use what its kernel has, or create a Python session",
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

    async def _ask(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        async with self._submitting:
            with anyio.CancelScope(shield=True):
                kernel_id = await self._ensure_kernel()
        request = protocol.Ask(kernel_id, kind, content, _ASK_TIMEOUT_S)
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

    # What the host tells -----------------------------------------------------------------------------------------

    def take(self, batch: Batch, event: protocol.Event) -> None:
        """Fold one of the host's events into the session."""
        match event.body:
            case protocol.NetworkUsed(entry):
                self._note_request(batch, entry, event.time)
                return
            case protocol.Started(execution_id):
                self.runs.started(batch, self.record, execution_id, event.time)
            case protocol.Output(execution_id, kind, content):
                self.runs.output(batch, self.record, execution_id, kind, content, event.time)
            case protocol.Finished() as finished:
                execution = self.runs.find(finished.execution_id)
                self.runs.finished(batch, self.record, self._explained(finished), event.time)
                if execution is not None and execution.record.started_at is not None:
                    execution.expect_files()
                    look = partial(self._note_files, execution)
                    batch.after.append(partial(self._services.in_background, look))
            case protocol.KernelDied() as died:
                if event.kernel_id == self.record.kernel_id and not died.expected:
                    message = explained(died.message, self.record.limits) or died.message
                    self.lose_kernel(batch, message, died.next_step, cause=died.cause)
        self._touch()

    def lose_kernel(self, batch: Batch, message: str, next_step: str, *, cause: str) -> None:
        """The kernel is gone without being asked to go: what ran is over, and everybody is told."""
        for execution in self.runs.live:
            body = protocol.Finished(execution.id, "died", 0.0, reason=message)
            self.runs.finished(batch, self.record, body, time.time())
        data = {"code": "kernel_died", "message": message, "hint": next_step, "cause": cause}
        self._services.recorder.note(batch, "notebook.error", self.record, data)
        self.record = replace(self.record, kernel_id=None, reason=message)
        batch.statements.append(put_session(self.record))

    def drop_unknown(self, batch: Batch, known: set[str | None]) -> None:
        """End what the journal has as unfinished and the host never got: its engine died between the two."""
        for execution in self.runs.live:
            if execution.id not in known:
                reason = "It never reached the kernel: the engine ended first; run it again"
                body = protocol.Finished(execution.id, "interrupted", 0.0, reason=reason)
                self.runs.finished(batch, self.record, body, time.time())


@dataclass(frozen=True, slots=True)
class _Wanted:
    source: str
    cell_id: str | None
    allow_error: bool = False
