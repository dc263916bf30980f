"""A session: a notebook (see ``books``) in its place (see ``workplaces``) with a kernel, and everything one can run on it.

It keeps the order of what is asked, journals before it answers, and starts a kernel when one is needed. What the host
says about it is taken in by ``listening``; where it stands among others (limits, listing, deletion) is the
``engine``'s business.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from cellwright.engine.lineages import Step, lost_with, new_lineage
from cellwright.engine.listening import Listener
from cellwright.engine.records import Batch, ExecutionRecord, SessionRecord, put_session
from cellwright.engine.replaying import Replay, begin_replay
from cellwright.errors import (
    CellwrightError,
    HostLost,
    KernelBusy,
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


class Session(Listener):
    """One notebook at work. Made by the engine; all calls are safe to make at the same time."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self._submitting = anyio.Lock()
        self._installing = anyio.Lock()
        self.last_replay: Replay | None = None

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
            self._refuse_during_replay()
            with anyio.CancelScope(shield=True):
                executions = await self._queue(wanted, timeout_s, await self._ensure_kernel())
        return executions

    async def _queue(self, wanted: list[_Wanted], timeout_s: float | None, kernel_id: str) -> list[Execution]:
        batch, limit_s = Batch(), self.time_limit(timeout_s)
        executions = [self.runs.queue(batch, self.record, self._new_record(want, limit_s)) for want in wanted]
        self._touch()
        commit = self._services.recorder.commit(batch)
        await self._send(kernel_id, wanted, executions, limit_s)
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

    def _new_record(self, want: _Wanted, limit_s: float) -> ExecutionRecord:
        return ExecutionRecord(
            id=new_execution_id(),
            session_id=self.id,
            cell_id=want.cell_id,
            number=self.runs.count + 1,
            generation=self.generation,
            attempt=self.runs.next_attempt(want.cell_id),
            source=want.source,
            queued_at=time.time(),
            timeout_s=limit_s,
            replays=want.replays,
        )

    async def cancel(self, execution_id: str) -> None:
        """Stop an execution that runs, or drop one that waits; one that has ended stays as it is."""
        execution = self.runs.find(execution_id)
        if execution is None or execution.done or self.record.kernel_id is None:
            return
        await self._services.host.call(protocol.Cancel(self.record.kernel_id, execution_id), type(None))

    async def interrupt(self) -> None:
        """Stop what runs and drop what waits; the kernel keeps its state."""
        if self.last_replay is not None:
            self.last_replay.stop()
        if self.record.kernel_id is not None:
            await self._services.host.call(protocol.Interrupt(self.record.kernel_id), type(None))

    # Running again -----------------------------------------------------------------------------------------------

    async def replay(self, *, upto: str | None = None, timeout_s: float | None = None) -> Replay:
        """Bring back what the session has lost, and wait for the end: see ``start_replay``."""
        return await (await self.start_replay(upto=upto, timeout_s=timeout_s)).wait()

    async def start_replay(self, *, upto: str | None = None, timeout_s: float | None = None) -> Replay:
        """Start an empty kernel, run on it what made the last state, in order, and return at once.

        It ends with the last run of cell ``upto``, or with that execution. ``timeout_s`` is each one's time instead of
        what it had. It goes on whatever becomes of the caller, and its end can be waited for.

        Raises:
            KernelBusy: something is running.
            UnknownExecution: ``upto`` is none of what made the state.
        """
        await self.refresh()
        async with self._submitting:
            self._refuse_during_replay()
            with anyio.CancelScope(shield=True):
                self.last_replay = replay = await begin_replay(
                    self,
                    self._services.recorder,
                    upto=upto,
                    timeout_s=timeout_s,
                    empty_kernel=self._empty_kernel,
                )
                self._services.in_background(replay.run)
        return replay

    async def execute_step(self, step: Step, kernel_id: str, *, timeout_s: float | None = None) -> Execution:
        """Queue what ran once, as it was, on this very kernel.

        Raises:
            KernelGone: the session has another kernel by now, or none.
        """
        want = _Wanted(step.source, step.cell_id, replays=step.execution_id)
        async with self._submitting:
            if self.record.kernel_id != kernel_id:
                raise KernelGone("The kernel was taken away meanwhile")
            with anyio.CancelScope(shield=True):
                executions = await self._queue([want], timeout_s, kernel_id)
        return executions[0]

    def _refuse_during_replay(self) -> None:
        if self.last_replay is not None and not self.last_replay.done:
            raise KernelBusy(
                f"Session {self.id} is being replayed ({self.last_replay.id})",
                hint="Wait for its end, or interrupt it",
            )

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
        if self.last_replay is not None:
            await self.last_replay.wait()

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


@dataclass(frozen=True, slots=True)
class _Wanted:
    source: str
    cell_id: str | None
    allow_error: bool = False
    replays: str | None = None
