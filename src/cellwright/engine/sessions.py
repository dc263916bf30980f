"""A session: a notebook (see ``books``) in its place (see ``workplaces``) with a kernel, and everything one can run on it.

It keeps the order of what is asked and journals before it answers. Its kernel is ``kernelled``'s, going back to an
earlier state ``returning``'s; what the host says is taken in by ``listening``; where a session stands among others
(limits, listing, deletion) is the ``engine``'s business.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import anyio
from msgspec.structs import replace

from cellwright.engine import recovery
from cellwright.engine.books import Services
from cellwright.engine.document import Keeper
from cellwright.engine.environment import named_language
from cellwright.engine.executions import Execution
from cellwright.engine.ids import new_checkpoint_id, new_execution_id
from cellwright.engine.jupyter_sessions import is_elsewhere, refuse_language
from cellwright.engine.lineage import Step, before, contains, steps
from cellwright.engine.records import Asker, Batch, ExecutionRecord, OnError, SessionRecord
from cellwright.engine.replay import Replay, begin_replay, leave_in_time
from cellwright.engine.returning import NO_FILES, NOT_FILES, Returning, RolledBack
from cellwright.errors import (
    CellwrightError,
    HostLost,
    HostUnreachable,
    KernelBusy,
    KernelError,
    KernelGone,
    NotebookError,
    UnknownCheckpoint,
)
from cellwright.hosts import protocol
from cellwright.notebook import Cell
from cellwright.notebook.languages import canonical_language, named_files

__all__ = ["Session"]


class Session(Returning):
    """One notebook at work. Made by the engine; all calls are safe to make at the same time."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self.last_replay: Replay | None = None

    # Running -----------------------------------------------------------------------------------------------------

    async def run(
        self,
        cell_id: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        checkpoint: bool = False,
    ) -> Execution:
        """Run a cell and wait for its end; see ``execute``."""
        execution = await self.execute(cell_id, timeout_s=timeout_s, on_error=on_error, checkpoint=checkpoint)
        return await execution.wait()

    async def run_all(
        self, *, timeout_s: float | None = None, allow_errors: bool = False, on_error: OnError = "keep"
    ) -> list[Execution]:
        """Run every code cell in order and wait; the first failure drops the rest unless errors are allowed."""
        executions = await self.execute_all(timeout_s=timeout_s, allow_errors=allow_errors, on_error=on_error)
        return [await execution.wait() for execution in executions]

    async def execute(
        self,
        cell_id: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        checkpoint: bool = False,
        asker: Asker | None = None,
    ) -> Execution:
        """Queue a cell and return at once. The execution goes on whatever becomes of the caller.

        With ``on_error="rollback"`` a cell that fails, times out, is interrupted or takes its kernel with it leaves no
        trace in state and files: the session goes back to the checkpoint that is taken before it. ``checkpoint``
        takes one in any case. Where none can be taken the cell runs without, and ``no_checkpoint`` says why.
        """
        await self.refresh()
        cell = self.keeper.document.cell(cell_id)
        if cell.kind != "code":
            raise NotebookError(f"Cell {cell_id!r} is a {cell.kind} cell", hint="Only code cells can run")
        wanted = _Wanted(
            cell.source,
            cell_id,
            language=self._own_language(cell),
            on_error=on_error,
            checkpoint=checkpoint or on_error == "rollback",
            asker=asker,
        )
        return (await self._submit([wanted], timeout_s=timeout_s))[0]

    async def execute_all(
        self,
        *,
        since: str | None = None,
        timeout_s: float | None = None,
        allow_errors: bool = False,
        on_error: OnError = "keep",
    ) -> list[Execution]:
        """Queue every code cell in order, or from the cell ``since`` on, leaving out empty ones and those tagged ``skip-execution``.

        With ``on_error="rollback"`` the cell that fails leaves no trace, and the rest is dropped. A cell whose failure
        is allowed is not rolled back.
        """
        await self.refresh()
        first = self.keeper.document.index(since) if since is not None else 0
        wanted = [
            _Wanted(cell.source, cell.id, language=self._own_language(cell), allow_error=True)
            if allow_errors or cell.may_raise
            else _Wanted(
                cell.source,
                cell.id,
                language=self._own_language(cell),
                on_error=on_error,
                checkpoint=on_error == "rollback",
            )
            for cell in self.keeper.document.cells[first:]
            if cell.runs
        ]
        return await self._submit(wanted, timeout_s=timeout_s) if wanted else []

    async def execute_code(
        self,
        source: str,
        *,
        language: str | None = None,
        timeout_s: float | None = None,
        numbered: bool = True,
        asker: Asker | None = None,
    ) -> Execution:
        """Queue code that is in no cell and leaves none; it is in the history all the same.

        It is the notebook's ``language`` unless that is given. Where it is not ``numbered``, the cells after it are counted as if it had not run.
        """
        wanted = _Wanted(
            source, None, language=self._other_language(language), numbered=numbered, asker=asker
        )
        return (await self._submit([wanted], timeout_s=timeout_s))[0]

    def _own_language(self, cell: Cell) -> str | None:
        return self._other_language(cell.language)

    def _other_language(self, language: str | None) -> str | None:
        """A language by its own name; None where it is the notebook's."""
        name = canonical_language(language) if language else self.language
        return name if name != self.language else None

    async def _submit(self, wanted: list[_Wanted], *, timeout_s: float | None) -> list[Execution]:
        # Shielded: once journalled, an execution must reach the host even if whoever asked for it is cancelled.
        async with self._submitting:
            self._refuse_during_replay()
            with anyio.CancelScope(shield=True):
                kernel_id = await self._ensure_kernel()
                for want in wanted:
                    if want.language is not None and is_elsewhere(self.record):
                        refuse_language(self.record, want.language)
                executions = await self._queue(wanted, timeout_s, kernel_id)
        return executions

    async def _queue(self, wanted: list[_Wanted], timeout_s: float | None, kernel_id: str) -> list[Execution]:
        batch, limit_s, notice = Batch(), self.time_limit(timeout_s), self.notice
        executions = [self.runs.queue(batch, self.record, self._new_record(want, limit_s)) for want in wanted]
        # Code in no cell leaves nothing in the notebook.
        self._touch(shown=all(want.asker is not None or want.cell_id is None for want in wanted))
        batch.undo.append(partial(setattr, self, "notice", notice))
        # Only then sent: what was refused must not run.
        await self._services.recorder.commit(batch)
        for execution in executions:
            self._note_run(kernel_id, execution.record)
        if not any(
            execution.done for execution in executions
        ):  # as they are where the kernel was lost meanwhile
            await self._send(kernel_id, wanted, executions, limit_s)
        return executions

    async def _send(
        self, kernel_id: str, wanted: list[_Wanted], executions: list[Execution], timeout_s: float
    ) -> None:
        group = executions[0].id if len(executions) > 1 else None
        files = {} if is_elsewhere(self.record) else named_files(self.keeper.document)
        runs = tuple(
            protocol.Run(
                execution.id,
                want.source,
                timeout_s,
                group if want.asker is None else f"asker {want.asker.client}",
                want.allow_error or (want.asker is not None and not want.asker.stops),
                store_history=want.numbered,
                language=named_language(want.language or self.language),
                side=self._side(want.language) if want.language is not None else None,
                files=files,
                checkpoint=new_checkpoint_id() if want.checkpoint else None,
                rolls_back=want.on_error == "rollback",
            )
            for want, execution in zip(wanted, executions, strict=True)
        )
        try:
            await self.host.call(protocol.Execute(kernel_id, runs), type(None))
        except HostUnreachable:
            # It may have been heard. Whether it was is settled when the host is back, and the execution goes on or ends.
            pass
        except (HostLost, KernelGone) as error:
            self._fail(executions, "died", f"{error.message}; it did not run")
        except CellwrightError as error:
            self._fail(executions, "interrupted", f"{error.message}; it did not run")
            raise

    def _note_run(self, kernel_id: str, record: ExecutionRecord) -> None:
        source = sha256(record.source.encode(errors="surrogatepass")).hexdigest()
        self._services.audit.note(
            "run", session=self.id, kernel=kernel_id, cell=record.cell_id, execution=record.id, source=source
        )

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
            on_error=want.on_error,
            note=self._take_notice() if want.asker is None else None,
            numbered=want.numbered,
            language=want.language,
            asker=want.asker,
        )

    def _take_notice(self) -> str | None:
        """What happened to the kernel before this, which whoever runs something next must hear."""
        notice, self.notice = self.notice, None
        return notice

    async def cancel(self, execution_id: str) -> None:
        """Stop an execution that runs, or drop one that waits; one that has ended stays as it is."""
        execution = self.runs.find(execution_id)
        if execution is None or execution.done or self.record.kernel_id is None:
            return
        await self.host.call(protocol.Cancel(self.record.kernel_id, execution_id), type(None))

    async def interrupt(self) -> None:
        """Stop what runs and drop what waits; the kernel keeps its state."""
        if self.last_replay is not None:
            self.last_replay.stop()
        if self.record.kernel_id is not None:
            await self.host.call(protocol.Interrupt(self.record.kernel_id), type(None))

    # Running again -----------------------------------------------------------------------------------------------

    async def replay(self, *, upto: str | None = None, timeout_s: float | None = None) -> Replay:
        """Bring back what the session has lost, and wait for the end: see ``start_replay``."""
        return await (await self.start_replay(upto=upto, timeout_s=timeout_s)).wait()

    async def _expire(self) -> None:
        if self._services.settings.slurm_on_expiry == "move" and self.record.expires_at is not None:
            await leave_in_time(self, self.record.expires_at)

    async def start_replay(
        self, *, upto: str | None = None, timeout_s: float | None = None, host: str | None = None
    ) -> Replay:
        """Start an empty kernel, run on it what made the last state, in order, and return at once.

        It ends with the last run of cell ``upto``, or with that execution. ``timeout_s`` is each one's time instead of
        what it had, ``host`` where that kernel is to live instead. It goes on whatever becomes of the caller, and its
        end can be waited for.

        Raises:
            UnknownHost: no host has that name.
            KernelBusy: something is running.
            UnknownExecution: ``upto`` is none of what made the state.
        """
        await self.refresh()
        wanted = self._services.hosts.wanted(host) if host is not None else None
        async with self._submitting:
            self._refuse_during_replay()
            with anyio.CancelScope(shield=True):
                self.last_replay = replay = await begin_replay(
                    self,
                    self._services.recorder,
                    upto=upto,
                    timeout_s=timeout_s,
                    empty_kernel=partial(self._empty_kernel, wanted),
                )
                self._services.in_background(replay.run)
        return replay

    async def execute_step(self, step: Step, kernel_id: str, *, timeout_s: float | None = None) -> Execution:
        """Queue what ran once, as it was, on this very kernel.

        Raises:
            KernelGone: the session has another kernel by now, or none.
        """
        want = _Wanted(
            step.source,
            step.cell_id,
            language=step.language,
            replays=step.execution_id,
            numbered=step.numbered,
        )
        async with self._submitting:
            if self.record.kernel_id != kernel_id:
                raise KernelGone("The kernel was taken away meanwhile")
            with anyio.CancelScope(shield=True):
                executions = await self._queue([want], timeout_s, kernel_id)
        return executions[0]

    def keep_from_work(self) -> None:
        """Have whoever wants a kernel wait until ``let_work``, by the same task: it is to have one of somebody's making."""
        self._submitting.acquire_nowait()

    async def have_kernel(self) -> None:
        """As ``resume``, for whoever keeps it from work."""
        with anyio.CancelScope(shield=True):
            await self._ensure_kernel()

    def let_work(self) -> None:
        self._submitting.release()

    async def suspend(self, *, reason: str | None = None) -> None:
        """Let the kernel go, with its checkpoints, and keep everything else."""
        await super().suspend(reason=reason)
        if self.last_replay is not None:
            await self.last_replay.wait()

    async def roll_back(self, wanted: str | None = None, *, cell_id: str | None = None) -> RolledBack:
        """Go back to a checkpoint; to before a cell that has none, by running again what ran before it.

        Raises:
            UnknownCheckpoint: it is not kept, or that cell has never run in this state.
            KernelBusy: something is running that a replay would end.
        """
        try:
            return await super().roll_back(wanted, cell_id=cell_id)
        except UnknownCheckpoint:
            if cell_id is None:
                raise
            return await self._replay_to_before(cell_id)

    async def _replay_to_before(self, cell_id: str) -> RolledBack:
        history = await self._own_history()
        ran = [one for one in history if one.cell_id == cell_id and contains(self.record.lineage, one)]
        if not ran:
            raise UnknownCheckpoint(
                f"Cell {cell_id!r} has not run in the state that session {self.id} has",
                hint="Name a cell that has, or a checkpoint",
            )
        lineage = before(self.record.lineage, ran[-1])
        undone = tuple(
            one.id for one in history if contains(self.record.lineage, one) and not contains(lineage, one)
        )
        made = steps(recovery.load_lineage(self._services.recorder.journal, self.id, lineage), lineage)
        upto = made[-1].execution_id if made else None
        replay = await (await self.start_replay(upto=upto)).wait() if upto is not None else None
        if replay is None:
            await self.restart()
        elif replay.reason is not None:
            raise KernelError(f"The state could not be made again: {replay.reason}")
        history = await self._own_history()
        batch = Batch()
        self.record = replace(self.record, former=())
        stale = self.mark_stale(batch, history)
        done = RolledBack(None, self.generation, stale, undone, (NO_FILES, NOT_FILES), by="replay")
        self.tell_rolled_back(batch, done)
        await self._services.recorder.commit(batch)
        return done

    def _refuse_during_replay(self) -> None:
        if self.last_replay is not None and not self.last_replay.done:
            raise KernelBusy(
                f"Session {self.id} is being replayed ({self.last_replay.id})",
                hint="Wait for its end, or interrupt it",
            )


@dataclass(frozen=True, slots=True)
class _Wanted:
    source: str
    cell_id: str | None
    language: str | None = None
    """What it is written in, where that is not the notebook's language."""
    allow_error: bool = False
    replays: str | None = None
    on_error: OnError = "keep"
    checkpoint: bool = False
    numbered: bool = True
    asker: Asker | None = None
