"""Gives a session's kernel cells and code to run, in order, journalled before sent, and applies what its host reports.

One execution is ``executions.Execution``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

import anyio

from cellwright.engine._checkpoints import Checkpoints
from cellwright.engine._context import SessionContext
from cellwright.engine._document import SessionDocument
from cellwright.engine._executions import Execution
from cellwright.engine._typecheck import TypeChecks
from cellwright.engine.kernel import SessionKernel, named_language, runtime_of
from cellwright.engine.lineage import Step
from cellwright.engine.placement import refuse_language
from cellwright.engine.questions import Questions
from cellwright.engine.records import (
    Batch,
    ExecutionRecord,
    OnError,
    Requester,
    new_checkpoint_id,
    new_execution_id,
)
from cellwright.engine.widgets import SessionWidgets
from cellwright.engine.workspace import SessionWorkspace, explained
from cellwright.errors import (
    CellwrightError,
    HostLost,
    HostUnreachable,
    KernelBusy,
    KernelGone,
    LimitReached,
    NotebookError,
)
from cellwright.hosts import protocol
from cellwright.notebook import Cell
from cellwright.notebook.languages import canonical_language

__all__ = ["ExecutionQueue", "HostReports"]


class ExecutionQueue:
    """The executions that one session's kernel is asked for."""

    def __init__(
        self,
        session: SessionContext,
        document: SessionDocument,
        workspace: SessionWorkspace,
        kernel: SessionKernel,
    ) -> None:
        self.session = session
        self.reserved_for: str | None = None
        """The replay that has the kernel to itself for now; nobody else may run anything."""
        self._document = document
        self._workspace = workspace
        self._kernel = kernel
        self._services = session.services

    async def execute(
        self,
        cell_id: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        checkpoint: bool = False,
        asker: Requester | None = None,
    ) -> Execution:
        """Queue a cell and return at once. The execution goes on whatever becomes of the caller.

        With ``on_error="rollback"`` a cell that fails, times out, is interrupted or takes its kernel with it leaves no
        trace in state and files: the session goes back to the checkpoint that is taken before it. ``checkpoint``
        takes one in any case. Where none can be taken the cell runs without, and ``no_checkpoint`` says why.
        """
        await self._document.refresh()
        cell = self.session.file.document.cell(cell_id)
        if cell.kind != "code":
            raise NotebookError(f"Cell {cell_id!r} is a {cell.kind} cell", hint="Only code cells can run")
        request = _CellRequest(
            cell.source,
            cell_id,
            language=self._own_language(cell),
            on_error=on_error,
            checkpoint=checkpoint or on_error == "rollback",
            asker=asker,
        )
        return (await self._submit([request], timeout_s=timeout_s))[0]

    async def execute_all(
        self,
        *,
        since: str | None = None,
        before: str | None = None,
        timeout_s: float | None = None,
        allow_errors: bool = False,
        on_error: OnError = "keep",
    ) -> list[Execution]:
        """Queue every code cell in order, or those from ``since`` on and above ``before``, leaving out empty ones and those tagged ``skip-execution``.

        With ``on_error="rollback"`` the cell that fails leaves no trace, and the rest is dropped. A cell whose failure
        is allowed is not rolled back.
        """
        await self._document.refresh()
        document = self.session.file.document
        first = document.index(since) if since is not None else 0
        end = document.index(before) if before is not None else None
        requests = [
            _CellRequest(cell.source, cell.id, language=self._own_language(cell), allow_error=True)
            if allow_errors or cell.may_raise
            else _CellRequest(
                cell.source,
                cell.id,
                language=self._own_language(cell),
                on_error=on_error,
                checkpoint=on_error == "rollback",
            )
            for cell in document.cells[first:end]
            if cell.runs
        ]
        return await self._submit(requests, timeout_s=timeout_s) if requests else []

    async def execute_code(
        self,
        source: str,
        *,
        language: str | None = None,
        timeout_s: float | None = None,
        numbered: bool = True,
        asker: Requester | None = None,
    ) -> Execution:
        """Queue code that is in no cell and leaves none; it is in the history all the same.

        It is the notebook's ``language`` unless that is given. Where it is not ``numbered``, the cells after it are counted as if it had not run.
        """
        request = _CellRequest(
            source, None, language=self._other_language(language), numbered=numbered, asker=asker
        )
        return (await self._submit([request], timeout_s=timeout_s))[0]

    def _own_language(self, cell: Cell) -> str | None:
        return self._other_language(cell.language)

    def _other_language(self, language: str | None) -> str | None:
        """A language by its own name; None where it is the notebook's."""
        name = canonical_language(language) if language else self.session.language
        return name if name != self.session.language else None

    async def _submit(self, requests: list[_CellRequest], *, timeout_s: float | None) -> list[Execution]:
        for request in requests:  # all before any runs
            _refuse_long(request, self._services.options.max_source_bytes)
        # Shielded: once journalled, an execution must reach the host even if whoever asked for it is cancelled.
        async with self.session.turn:
            self.refuse_if_reserved()
            with anyio.CancelScope(shield=True):
                kernel_id = await self._kernel.ensure()
                for request in requests:
                    if request.language is not None and self.session.record.is_foreign:
                        refuse_language(self.session.record, request.language)
                whole = [replace(request, source=_without_halves(request.source)) for request in requests]
                executions = await self._queue(whole, timeout_s, kernel_id)
        return executions

    async def _queue(
        self, requests: list[_CellRequest], timeout_s: float | None, kernel_id: str
    ) -> list[Execution]:
        batch, limit_s, notice = Batch(), self._workspace.time_limit(timeout_s), self.session.notice
        executions = [
            self.session.runs.queue(batch, self.session.record, self._new_record(request, limit_s))
            for request in requests
        ]
        # Code in no cell leaves nothing in the notebook.
        self.session.touch(
            shown=all(request.asker is not None or request.cell_id is None for request in requests)
        )
        batch.undo.append(partial(setattr, self.session, "notice", notice))
        # Only then sent: what was refused must not run.
        await self._services.recorder.commit(batch)
        for execution in executions:
            self._note_run(kernel_id, execution.record)
        if not any(
            execution.done for execution in executions
        ):  # as they are where the kernel was lost meanwhile
            await self._send(kernel_id, requests, executions, limit_s)
        return executions

    async def _send(
        self, kernel_id: str, requests: list[_CellRequest], executions: list[Execution], timeout_s: float
    ) -> None:
        group = executions[0].id if len(executions) > 1 else None
        files = {} if self.session.record.is_foreign else self.session.file.document.named_files
        runs = tuple(
            protocol.Run(
                execution.id,
                request.source,
                timeout_s,
                group if request.asker is None else f"asker {request.asker.client}",
                request.allow_error or (request.asker is not None and not request.asker.stops),
                store_history=request.numbered,
                language=named_language(request.language or self.session.language),
                side=self._kernel.secondary(request.language) if request.language is not None else None,
                files=files,
                checkpoint=new_checkpoint_id() if request.checkpoint else None,
                rolls_back=request.on_error == "rollback",
            )
            for request, execution in zip(requests, executions, strict=True)
        )
        try:
            await self.session.host.call(protocol.Execute(kernel_id, runs), type(None))
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
            "run",
            session=self.session.id,
            kernel=kernel_id,
            cell=record.cell_id,
            execution=record.id,
            source=source,
        )

    def _fail(self, executions: list[Execution], state: protocol.ExecutionState, reason: str) -> None:
        batch = Batch()
        for execution in executions:
            body = protocol.Finished(execution.id, state, 0.0, reason=reason)
            self.session.runs.finished(batch, self.session.record, body, time.time())
        self._services.recorder.commit(batch)

    def _new_record(self, want: _CellRequest, limit_s: float) -> ExecutionRecord:
        return ExecutionRecord(
            id=new_execution_id(),
            session_id=self.session.id,
            cell_id=want.cell_id,
            number=self.session.runs.count + 1,
            generation=self.session.generation,
            attempt=self.session.runs.next_attempt(want.cell_id),
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
        notice, self.session.notice = self.session.notice, None
        return notice

    def refuse_if_reserved(self) -> None:
        """Refuse whoever wants to run something during a replay.

        Raises:
            KernelBusy: a replay has the kernel to itself.
        """
        if self.reserved_for is not None:
            raise KernelBusy(
                f"Session {self.session.id} is being replayed ({self.reserved_for})",
                hint="Wait for its end, or interrupt it",
            )

    async def cancel(self, execution_id: str) -> None:
        """Stop an execution that runs, or drop one that waits; one that has ended stays as it is."""
        execution = self.session.runs.find(execution_id)
        if execution is None or execution.done or self.session.record.kernel_id is None:
            return
        await self.session.host.call(protocol.Cancel(self.session.record.kernel_id, execution_id), type(None))

    async def interrupt(self) -> None:
        """Stop what runs and drop what waits; the kernel keeps its state."""
        if self.session.record.kernel_id is not None:
            await self.session.host.call(protocol.Interrupt(self.session.record.kernel_id), type(None))

    async def execute_step(self, step: Step, kernel_id: str, *, timeout_s: float | None = None) -> Execution:
        """Queue what ran once, as it was, on this very kernel.

        Raises:
            KernelGone: the session has another kernel by now, or none.
        """
        want = _CellRequest(
            step.source,
            step.cell_id,
            language=step.language,
            replays=step.execution_id,
            numbered=step.numbered,
        )
        async with self.session.turn:
            if self.session.record.kernel_id != kernel_id:
                raise KernelGone("The kernel was taken away meanwhile")
            with anyio.CancelScope(shield=True):
                executions = await self._queue([want], timeout_s, kernel_id)
        return executions[0]


def _without_halves(source: str) -> str:
    """A source as it can be sent and kept: a notebook may hold half a character, which no encoding has."""
    return source.encode(errors="replace").decode()


def _refuse_long(want: _CellRequest, limit: int) -> None:
    """Refuse a source that its kernel would only read for minutes, or die of.

    Raises:
        LimitReached: it has more bytes than ``max_source_bytes`` allows.
    """
    size = len(want.source.encode(errors="surrogatepass"))
    if size > limit:
        kept = f"cell {want.cell_id} is kept" if want.cell_id is not None else "the session is as it was"
        raise LimitReached(
            f"The source has {size:,} bytes, and max_source_bytes allows {limit:,}: nothing ran, and {kept}",
            setting="max_source_bytes",
            hint="Write the data to a file and read that, split the code into several cells, or raise "
            "CELLWRIGHT_MAX_SOURCE_BYTES",
        )


@dataclass(frozen=True, slots=True)
class _CellRequest:
    source: str
    cell_id: str | None
    language: str | None = None
    """What it is written in, where that is not the notebook's language."""
    allow_error: bool = False
    replays: str | None = None
    on_error: OnError = "keep"
    checkpoint: bool = False
    numbered: bool = True
    asker: Requester | None = None


# Applies what a host reports about a session to its executions, its document and its record, and journals
# it.

FOUND_AGAIN = "Go on: the next call finds it again, with its state"

LEFT = "Go on: the next call goes on from its last checkpoint"


class HostReports:
    """What one session makes of its host's reports."""

    def __init__(
        self,
        session: SessionContext,
        workspace: SessionWorkspace,
        checkpoints: Checkpoints,
        types: TypeChecks,
        questions: Questions,
        widgets: SessionWidgets,
        *,
        move_before: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        """``move_before`` takes the session to another host before a moment."""
        self._session = session
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._types = types
        self._questions = questions
        self._widgets = widgets
        self._move_before = move_before

    def take(self, batch: Batch, event: protocol.Event) -> None:
        """Fold one of the host's events into the session."""
        if self._takes_apart(batch, event):
            return
        shown = self._is_shown(event.body)
        match event.body:
            case protocol.Started(execution_id):
                self._session.runs.started(batch, self._session.record, execution_id, event.time)
                self._check_types(batch, execution_id)
            case protocol.Output(execution_id, kind, content):
                self._session.runs.output(
                    batch, self._session.record, execution_id, kind, content, event.time
                )
            case protocol.Finished() as finished:
                self._finished(batch, finished, event.time)
            case protocol.Checkpointed() as checkpointed:
                self._checkpoints.note(batch, checkpointed)
            case protocol.CheckpointsDropped(gone):
                self._checkpoints.forget(batch, gone)
            case protocol.Expiring(ends_at):
                self._note_expiry(batch, ends_at)
                return
            case protocol.KernelDied() as died:
                self._died(batch, event.kernel_id, died)
        self._session.touch(shown=shown)

    def _takes_apart(self, batch: Batch, event: protocol.Event) -> bool:
        """Whether it was an event that changes neither the notebook nor what runs, and is taken in."""
        match event.body:
            case protocol.NetworkUsed(entry):
                self._workspace.note_request(batch, entry, event.time)
            case protocol.Comm(kind, content):
                self._widgets.take(event.kernel_id, kind, content)
            case protocol.InputRequested() | protocol.InputSettled() as event_body:
                self._questions.take(batch, event_body)
            case _:
                return False
        return True

    def _died(self, batch: Batch, kernel_id: str, died: protocol.KernelDied) -> None:
        if kernel_id == self._session.record.kernel_id and not died.expected:
            message = explained(died.message, self._session.record.limits) or died.message
            next_step = LEFT if died.checkpoints else died.next_step
            self.lose_kernel(batch, message, next_step, cause=died.cause, left=died.checkpoints)

    def _is_shown(self, body: protocol.EventBody) -> bool:
        """Whether it is about an execution whose asker shows it by itself, or that nobody finds in the notebook."""
        match body:
            case protocol.Started() | protocol.Output() | protocol.Finished():
                execution = self._session.runs.find(body.execution_id)
                return execution is not None and (
                    execution.record.asker is not None or execution.record.cell_id is None
                )
            case _:
                return False

    def _check_types(self, batch: Batch, execution_id: str) -> None:
        execution = self._session.runs.find(execution_id)
        own = execution.record.language if execution is not None else None
        if runtime_of(own or self._session.language) == "deno":
            self._types.check_soon(batch)

    def _finished(self, batch: Batch, finished: protocol.Finished, at: float) -> None:
        execution = self._session.runs.find(finished.execution_id)
        self._session.runs.finished(batch, self._session.record, self._workspace.explained(finished), at)
        if execution is not None and execution.record.started_at is not None:
            self._went_on(batch, execution.record)
            if not self._session.record.is_foreign:
                self._workspace.look_later(batch, execution, at)

    def _went_on(self, batch: Batch, ran: ExecutionRecord) -> None:
        """Something new that ran well is the beginning of another state than the one that was lost."""
        if (
            self._session.record.former
            and ran.state == "ok"
            and ran.replays is None
            and ran.generation == self._session.generation
        ):
            self._session.update(batch, former=())

    def lose_host(self, batch: Batch, why: str) -> None:
        """The process that owned its kernel is gone."""
        if self._session.record.remote is not None:
            message = (
                f"{why}; the kernel lives on on its Jupyter server, and what ran there was lost sight of"
            )
            self.lose_kernel(batch, message, FOUND_AGAIN, cause="host_lost")
            return
        self.lose_kernel(
            batch,
            f"{why}, and the kernel's state with it",
            "Run the cells again; the next one starts a new kernel. `notebook_replay` brings its state back",
            cause="host_lost",
        )

    def lose_sight(self, batch: Batch, why: str) -> None:
        """Its host cannot be reached; its kernel goes on, as far as anybody knows."""
        self._note_host(batch, {"reachable": False, "reason": why})

    def see_again(self, batch: Batch) -> None:
        """Its host is reached again, and what it said meanwhile was taken in."""
        self._note_host(batch, {"reachable": True})

    def _note_expiry(self, batch: Batch, ends_at: float) -> None:
        self._session.update(batch, expires_at=ends_at)
        self._note_host(batch, {"reachable": True, "expires_at": ends_at})
        if self._session.services.options.moves_on_expiry:
            leave = partial(self._move_before, ends_at)
            batch.after.append(partial(self._session.services.in_background, leave))

    def _note_host(self, batch: Batch, data: dict[str, Any]) -> None:
        moved = {"host": self._session.record.on or self._session.record.host, **data}
        self._session.note(batch, "notebook.host.changed", moved)

    def lose_kernel(
        self, batch: Batch, message: str, next_step: str, *, cause: str, left: tuple[str, ...] = ()
    ) -> None:
        """The kernel is gone without being asked to go: what ran is over, and everybody is told.

        ``left`` are the checkpoints that outlived it.
        """
        self._questions.found(None)
        self._session.runs.end_live(batch, self._session.record, "died", message)
        data = {"code": "kernel_died", "message": message, "hint": next_step, "cause": cause}
        self._session.note(batch, "notebook.error", data)
        left_by = self._session.record.kernel_id if left else None
        # One on a Jupyter server may live on though we lost it.
        remote = self._session.record.remote if cause in ("host_lost", "unreachable") else None
        self._session.update(batch, kernel_id=None, reason=message, left_by=left_by, remote=remote)
        self._checkpoints.forget(
            batch, tuple(kept.id for kept in self._session.record.checkpoints if kept.id not in left)
        )

    def agree(self, batch: Batch, kernel: protocol.KernelStatus) -> None:
        """Take what the host says of the session's kernel.

        What the journal has as unfinished and the host never got is over: its engine died between the two.
        """
        self._questions.found(kernel.question)
        known = {kernel.running, *kernel.waiting}
        reason = "It never reached the kernel: the engine ended first; run it again"
        self._session.runs.end_live(batch, self._session.record, "interrupted", reason, but=known)
