"""A session: a notebook with a kernel, and everything that can be done with the two.

``Session`` is what frontends, plans and agents call. Each of its parts has a module of its own: the notebook
(``document``), the working directory (``workspace``), the kernel (``kernel``, ``introspection``), executions
(``execution_queue``), ``checkpoints``, ``replay``, ``charts``, ``typecheck``, ``ownership`` and what the host reports
(``execution_queue`` too). Which sessions there are is the ``engine``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio

from cellwright.charts import Picture
from cellwright.engine._authors import CellAuthors
from cellwright.engine._checkpoints import Checkpoints, RolledBack
from cellwright.engine._context import Services, SessionContext
from cellwright.engine._document import SessionDocument
from cellwright.engine._execution_queue import ExecutionQueue, HostReports
from cellwright.engine._executions import Execution, Runs
from cellwright.engine._notebook_file import NotebookFile
from cellwright.engine._ownership import Ownership
from cellwright.engine._replay import Replay, Replays
from cellwright.engine._typecheck import TypeChecks
from cellwright.engine.charts import Form, SessionCharts, Visual
from cellwright.engine.event_kinds import EventKind
from cellwright.engine.grids import SessionGrids
from cellwright.engine.hosts import HostLink
from cellwright.engine.introspection import (
    Completion,
    Diagnosis,
    Fingerprint,
    Inputs,
    Inspection,
    KernelQueries,
    Profile,
)
from cellwright.engine.kernel import SessionKernel
from cellwright.engine.lineage import lost_with
from cellwright.engine.placement import refuse_foreign
from cellwright.engine.questions import Questions
from cellwright.engine.records import (
    Artifacts,
    Batch,
    CheckpointRecord,
    ExecutionRecord,
    Handback,
    OnError,
    Requester,
    SessionRecord,
    SessionState,
)
from cellwright.engine.widgets import SessionWidgets
from cellwright.engine.workspace import SessionWorkspace
from cellwright.errors import UnknownCheckpoint
from cellwright.notebook import Cell, CellKind, Change, Document, NotebookMetadataSet
from cellwright.notebook.document import title_of
from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.network_rules import NetworkMode
from cellwright.sandbox.overlay import Applied, LayerChange
from cellwright.sandbox.packages import InstallResult
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.tiers import Tier
from cellwright.sandbox.workspace import Workspace
from cellwright_kernel.tables import Table

__all__ = ["Session"]


class Session:
    """One notebook at work. Made by the engine; all calls are safe to make at the same time."""

    def __init__(self, record: SessionRecord, file: NotebookFile, services: Services) -> None:
        self.context = context = SessionContext(record, file, services)
        self.notebook = SessionDocument(context)
        self.workspace = SessionWorkspace(context)
        self.checkpointing = Checkpoints(context, self.notebook)
        self.kernel = SessionKernel(context, self.workspace, self.checkpointing)
        self.queue = ExecutionQueue(context, self.notebook, self.workspace, self.kernel)
        self.replays = Replays(context, self.notebook, self.kernel, self.checkpointing, self.queue)
        self.types = TypeChecks(context, self.notebook, self.workspace)
        self.questions = Questions(context)
        """What its code asks of people, and who might answer."""
        self.widgets = SessionWidgets(context, self.kernel)
        """The widgets of its kernel, as pages show them."""
        self.reports = HostReports(
            context,
            self.workspace,
            self.checkpointing,
            self.types,
            self.questions,
            self.widgets,
            move_before=self.replays.move_before,
        )
        self.sharing: str | None = None
        """How its notebook on a server is kept in step with it, in words; None where it lies here."""
        self._queries = KernelQueries(context, self.workspace, self.kernel)
        self._charts = SessionCharts(context, self.notebook, self.workspace, self.kernel)
        self.grids = SessionGrids(context, self.kernel)
        self._ownership = Ownership(context)
        context.runs.settle = self._settle

    def _settle(self, execution: Execution) -> None:
        """Let whoever waits for an execution go on, once the charts that it left are drawn."""
        if (manifest := self.workspace.manifest_since(execution.record.started_at)) is None:
            execution.settle()
        else:
            self._charts.draw_left(execution, manifest)

    # What it is --------------------------------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """The session as the journal has it."""
        return self.context.record

    @property
    def id(self) -> str:
        return self.context.id

    @property
    def name(self) -> str:
        return self.context.record.name

    @property
    def path(self) -> Path:
        return self.context.file.path

    @property
    def language(self) -> str:
        return self.context.language

    @property
    def state(self) -> SessionState:
        """``active`` while its kernel is alive, else ``suspended``."""
        return self.context.state

    @property
    def generation(self) -> int:
        """How many kernels it has had; state in memory is lost whenever this rises."""
        return self.context.generation

    @property
    def reason(self) -> str | None:
        """Why it has no kernel, where that was not asked for."""
        return self.context.record.reason

    @property
    def host(self) -> HostLink:
        """The host that has its kernel, or had its last one."""
        return self.context.host

    @property
    def tier(self) -> Tier | None:
        """How strongly its kernel is confined; None while it never had one."""
        return self.context.record.tier

    @property
    def runs(self) -> Runs:
        """Its executions that run or ran last."""
        return self.context.runs

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or is about to, no replay or other work of several runs goes on, and no person has it."""
        context = self.context
        busy = self.runs.live or context.turn.locked() or context.at_work or self.queue.reserved_for
        return not busy and context.record.hold is None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count as at work on it, so that it is not taken for idle between two runs."""
        self.context.at_work += 1
        try:
            yield
        finally:
            self.context.at_work -= 1

    @property
    def last_active(self) -> float:
        """When something was last done with it, by the monotonic clock."""
        return self.context.last_active

    def authors_of(self, cell_id: str) -> CellAuthors:
        """Who edited and ran a cell last, as far as the journal still knows."""
        return self.context.authors.of(cell_id)

    # The notebook ------------------------------------------------------------------------------------------------

    @property
    def document(self) -> Document:
        """The notebook with its outputs so far, to read; ``apply`` and the calls below change it."""
        return self.notebook.current

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells with their outputs so far."""
        return self.notebook.current.cells

    def cell(self, cell_id: str) -> Cell:
        """One cell with its outputs so far.

        Raises:
            UnknownCell: no cell has that id.
        """
        return self.notebook.current.cell(cell_id)

    async def add_cell(
        self,
        source: str,
        kind: CellKind = "code",
        *,
        position: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Cell:
        """Add a cell at the end or at a position.

        Raises:
            TooManyCells: the notebook has as many cells as ``max_cells`` allows.
        """
        return await self.notebook.add_cell(source, kind, position=position, metadata=metadata)

    async def edit_cell(self, cell_id: str, source: str, *, expected_version: int | None = None) -> Cell:
        """Replace a cell's source.

        Raises:
            UnknownCell: no cell has that id.
            StaleEdit: the cell is no longer at ``expected_version``; the error shows the difference.
        """
        return await self.notebook.edit_cell(cell_id, source, expected_version=expected_version)

    async def delete_cell(self, cell_id: str, *, expected_version: int | None = None) -> None:
        """Delete a cell; what it defined stays in the kernel."""
        await self.notebook.delete_cell(cell_id, expected_version=expected_version)

    async def move_cell(self, cell_id: str, position: int) -> Cell:
        """Move a cell to a position, counted without it."""
        return await self.notebook.move_cell(cell_id, position)

    async def edit(self, make: Callable[[Document], Iterable[Change]], *, person: str) -> list[Change]:
        """Make the changes that a person decides on by the notebook as it is; ``undo`` takes all of them back at once.

        Raises:
            NotebookError: one of them does not fit the document; none is made.
        """
        return await self.notebook.edit(make, person=person)

    async def undo(self, *, person: str, again: bool = False) -> list[Change]:
        """Take back the person's newest edit that was not, or make ``again`` what was taken back; empty where none is.

        Raises:
            NotebookError: somebody else has changed meanwhile what it is about; the notebook stays as it is.
        """
        return await self.notebook.undo(person=person, again=again)

    async def apply(
        self, changes: Iterable[Change], *, told_as: tuple[EventKind, dict[str, Any]] | None = None
    ) -> None:
        """Make changes that were decided elsewhere, all in one step of the journal, with an event that says why.

        Raises:
            NotebookError: one of them does not fit the document; none is made.
            SaveFailed: they could not be journalled; none is made.
        """
        await self.notebook.apply(changes, told_as=told_as)

    async def refresh(self) -> None:
        """Merge what another program wrote to the file; every edit, run and save does so first."""
        await self.notebook.refresh()

    @property
    def title(self) -> str:
        """What people call it: the heading that its notebook begins with, or the file's name."""
        return title_of(self.context.file.document) or self.name

    async def rename(self, title: str) -> None:
        """Put a title in the place of the notebook's heading, where it has one, and name its file after it.

        Raises:
            NotebookError: the title is none, or another program has the file open under its name.
            SaveFailed: the file could not be renamed.
        """
        await self.notebook.rename(title)

    async def save(self) -> None:
        """Write the notebook to its file now.

        Raises:
            SaveFailed: the file could not be written; the journal still has everything.
        """
        if not self.runs.live and (metadata := self.widgets.save_into(self.notebook.current)) is not None:
            await self.notebook.apply([NotebookMetadataSet(metadata)])
        await self.notebook.save()

    def shown_elsewhere(self) -> AbstractContextManager[None]:
        """Another program has the notebook open meanwhile, and shows what it runs by itself."""
        return self.notebook.open_elsewhere()

    def tell(self, kind: EventKind, data: dict[str, Any]) -> None:
        """Publish an event that changes nothing here. Waits for nobody."""
        batch = Batch()
        self.context.note(batch, kind, data)
        self.context.services.recorder.commit(batch)

    # Where its code works ----------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where its notebook belongs, and where the search for its project and interpreter begins."""
        return self.workspace.folder

    @property
    def storage(self) -> Path:
        """The session's own directory, which goes with it."""
        return self.workspace.storage

    @property
    def cwd(self) -> Path:
        """Where its kernel works, as its code sees it."""
        return self.workspace.cwd

    @property
    def mode(self) -> Mode:
        """How it works on files: on a view of the project, in a folder of its own, or where the notebook lies."""
        return self.workspace.mode

    @property
    def place(self) -> Workspace:
        """Where it works and what of the project it sees there."""
        return self.workspace.place

    @property
    def network(self) -> NetworkMode:
        """How far its code reaches."""
        return self.workspace.network

    @property
    def banner(self) -> str | None:
        """What every reply about this session must say first, if anything."""
        return self.workspace.banner

    @property
    def limits(self) -> dict[str, Any]:
        """What it asked for below the operator's limits, in words."""
        return self.workspace.limits

    @property
    def policy(self) -> Policy | None:
        """What its code may do, by the operator's policy and its own; None where nothing confines it."""
        return self.workspace.policy

    @property
    def own_policy(self) -> Policy | None:
        """What its code may do, where that is less than the operator allows everybody."""
        return self.workspace.own_policy

    def time_limit(self, asked_s: float | None) -> float:
        """How long a cell may run: as asked, else as the settings say; never longer than the session's own limit."""
        return self.workspace.time_limit(asked_s)

    async def files(self) -> Artifacts:
        """What lies in its working directory; in ``overlay`` mode what it wrote over the project."""
        return await self.workspace.files()

    async def take_as_given(self) -> None:
        """Take the files that lie there now for given: the next execution did not leave them."""
        await self.workspace.take_as_given()

    async def files_known(self) -> None:
        """Return when it is known what each execution that has ended left (they are looked after in order)."""
        await self.workspace.files_known()

    async def file_changes(self) -> list[LayerChange]:
        """What it wrote over the project (in ``overlay`` mode), each with the real path where others find it."""
        return await self.workspace.changes()

    async def file_diff(self, paths: Sequence[str] | None = None) -> str:
        """The same as a unified diff.

        Raises:
            NoSuchFile: a named path was not changed.
        """
        return await self.workspace.diff(paths)

    async def apply_files(
        self, paths: Sequence[str] | None = None, *, force: bool = False, trusted: Collection[str] = ()
    ) -> Applied:
        """Bring what it wrote over into the project: all of it, or the named files and directories.

        What tools run by themselves stays behind (``.git``, ``.venv``, a Makefile: ``sandbox.overlay`` lists them), as
        do files that can newly be run, except for paths that a person named: ``trusted``.

        Raises:
            FileConflict: the project's own changed meanwhile, and ``force`` was not given. Nothing was applied.
            NoSuchFile: a named path was not changed.
            FileRefused: it has no layer over a project, or a named path is no plain file or for a person to name.
        """
        return await self.workspace.apply(paths, force=force, trusted=trusted)

    def note_fetch(self, entry: NetworkEntry) -> None:
        """Journal a request that was made for it on the host's side, under a number of its own."""
        self.workspace.note_fetch(entry)

    # The kernel --------------------------------------------------------------------------------------------------

    @property
    def runs_python(self) -> bool:
        """Whether its main kernel is a Python one, which can be asked what others cannot."""
        return self.kernel.runs_python

    async def resume(self) -> None:
        """Have a live kernel; a new one starts empty, in a new generation."""
        await self.kernel.resume()

    async def suspend(self, *, reason: str | None = None) -> None:
        """Let the kernel go, with its checkpoints, and keep everything else."""
        await self.kernel.suspend(reason=reason)
        if self.replays.last is not None:
            await self.replays.last.wait()

    async def restart(self) -> None:
        """Replace the kernel by an empty one."""
        await self.kernel.restart()

    async def install(self, packages: Sequence[str]) -> InstallResult:
        """Install approved packages for this session; they can be imported at once, also after a restart.

        Raises:
            PackageRefused: a name is not approved; nothing was installed.
            PackageFailed: they cannot be found, or do not go with what is installed.
            LimitReached: it took too long or too much space.
        """
        return await self.kernel.install(packages)

    async def inspect(self, *, packages: bool = False) -> Inspection:
        """What the live kernel holds: variables, functions, modules, and where it runs.

        Raises:
            KernelBusy: a cell is running.
        """
        return await self._queries.inspect(packages=packages)

    async def complete(
        self, code: str, cursor: int | None = None, *, language: str | None = None
    ) -> Completion:
        """What could stand at the cursor, in the notebook's language or another."""
        return await self._queries.complete(code, cursor, language=language)

    async def diagnose(self) -> Diagnosis | None:
        """What the last execution in the live kernel raised; None if nothing, or where nobody can be asked.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: it ended before it answered.
        """
        return await self._queries.diagnose()

    async def watch_inputs(self) -> None:
        """Have the kernel note from now on which files its code reads; nothing where it cannot."""
        await self._queries.watch_inputs()

    async def inputs(self, source: str = "", *, watch: bool = False, packages: bool = False) -> Inputs:
        """Which files were read since this was last asked, and with ``packages`` what the code imported so far.

        ``source`` is what ran meanwhile: files that it names count too. Of files nothing is known unless somebody let
        it ``watch``, and of packages only those that ``source`` imports; nor anything of other languages than Python.

        Raises:
            KernelBusy: a cell is running.
        """
        return await self._queries.inputs(source, watch=watch, packages=packages)

    async def measure_next(self, cell_id: str, *, lines: bool = False) -> None:
        """Have the next execution measured, with ``lines`` where its time goes; nothing where the kernel cannot."""
        await self._queries.measure_next(cell_id, lines=lines)

    async def profile(self) -> Profile:
        """What the last execution cost, where it was measured, and what the namespace holds.

        Raises:
            KernelBusy: a cell is running.
        """
        return await self._queries.profile()

    async def fingerprints(self) -> dict[str, Fingerprint]:
        """What the kernel's variables can be compared by with those of another kernel.

        Raises:
            KernelBusy: a cell is running.
        """
        return await self._queries.fingerprints()

    async def relay(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Pass a question of Jupyter's protocol to the main kernel, and its answer back.

        Raises:
            KernelBusy: a cell is running.
        """
        return await self.kernel.ask(kind, content)

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
        asker: Requester | None = None,
    ) -> Execution:
        """Queue a cell and return at once; the execution goes on whatever becomes of the caller.

        With ``on_error="rollback"`` a cell that fails, times out, is interrupted or takes its kernel with it leaves no
        trace in state and files: the session goes back to the checkpoint that is taken before it. ``checkpoint``
        takes one in any case. Where none can be taken the cell runs without, and ``no_checkpoint`` says why.
        """
        return await self.queue.execute(
            cell_id, timeout_s=timeout_s, on_error=on_error, checkpoint=checkpoint, asker=asker
        )

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
        return await self.queue.execute_all(
            since=since, before=before, timeout_s=timeout_s, allow_errors=allow_errors, on_error=on_error
        )

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

        It is the notebook's ``language`` unless that is given. Where it is not ``numbered``, the cells after it are
        counted as if it had not run.
        """
        return await self.queue.execute_code(
            source, language=language, timeout_s=timeout_s, numbered=numbered, asker=asker
        )

    async def cancel(self, execution_id: str) -> None:
        """Stop an execution that runs, or drop one that waits; one that has ended stays as it is."""
        await self.queue.cancel(execution_id)

    async def interrupt(self) -> None:
        """Stop what runs and drop what waits; the kernel keeps its state."""
        if self.replays.last is not None:
            self.replays.last.stop()
        await self.queue.interrupt()

    async def visualize(
        self,
        cell_id: str | None = None,
        *,
        variable: str | None = None,
        form: Form = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> Visual:
        """A cell's result, or a variable, as a chart, a table or a graph.

        Raises:
            NoSuchData: no kernel has such a value.
            ChartRefused: it cannot be shown as asked; the message names what is wrong.
            DrawingFailed: it took too long, or too much memory.
            KernelBusy: a cell is running.
        """
        return await self._charts.visualize(cell_id, variable=variable, form=form, options=options)

    async def draw(
        self, table: Table, *, form: Form = "auto", options: Mapping[str, Any] | None = None
    ) -> Picture:
        """A table that comes from elsewhere, shown in the same ways."""
        return await self._charts.draw(table, form=form, options=options)

    # Going back and running again --------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> tuple[CheckpointRecord, ...]:
        """Those that are kept, oldest first."""
        return self.context.record.checkpoints

    async def checkpoint(self, name: str | None = None) -> CheckpointRecord:
        """Keep the kernel's whole state and the working directory's files as they are now.

        Raises:
            CheckpointRefused: the kernel cannot be forked now; the message is the reason, and nothing has changed.
            KernelBusy: a cell is running.
        """
        refuse_foreign(self.context.record, "checkpoints")
        async with self.context.turn:
            with anyio.CancelScope(shield=True):
                taken = await self.checkpointing.take(await self.kernel.ensure(), name)
        return taken

    async def drop_checkpoint(self, wanted: str) -> None:
        """Let a checkpoint go, by its id or name."""
        await self.checkpointing.drop(wanted)

    def find_checkpoint(self, wanted: str) -> CheckpointRecord:
        """A kept checkpoint by its id or its name, the newest of that name.

        Raises:
            UnknownCheckpoint: there is none.
        """
        return self.checkpointing.find(wanted)

    async def roll_back(self, wanted: str | None = None, *, cell_id: str | None = None) -> RolledBack:
        """Go back to a kept checkpoint: by its id or name, by the cell it was taken before, or to the newest.

        Whatever runs is ended. The state, the files and the numbers of cells are as they were then; the generation
        rises. To before a cell that has no checkpoint it goes by running again what ran before that.

        Raises:
            UnknownCheckpoint: it is not kept, or that cell has never run in this state.
            FileFailed: the files could not be put back. The kernel is gone; the checkpoints are still kept.
            KernelBusy: something is running that a replay would end.
        """
        try:
            return await self.checkpointing.roll_back(wanted, cell_id=cell_id)
        except UnknownCheckpoint:
            if cell_id is None:
                raise
            return await self.replays.roll_back_before(cell_id)

    async def state_history(self) -> list[ExecutionRecord]:
        """What made the state of its kernel, in order, also in the sessions that it was grown from."""
        return await self.checkpointing.state_history()

    @property
    def last_replay(self) -> Replay | None:
        """Its newest replay, running or ended."""
        return self.replays.last

    @property
    def has_lost_state(self) -> bool:
        """Whether what ran here went with a kernel, and nothing new has run well since."""
        record = self.record
        if record.kernel_id is not None:
            return bool(record.former)
        return record.left_by is None and bool(lost_with(record))

    async def replay(self, *, upto: str | None = None, timeout_s: float | None = None) -> Replay:
        """Bring back what the session has lost, and wait for the end: see ``start_replay``."""
        return await (await self.start_replay(upto=upto, timeout_s=timeout_s)).wait()

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
        return await self.replays.start(upto=upto, timeout_s=timeout_s, host=host)

    # Who has it --------------------------------------------------------------------------------------------------

    @property
    def held_by(self) -> str | None:
        """The person who took it over and has not given it back."""
        return self.record.hold.by if self.record.hold is not None else None

    def refuse_if_taken(self) -> None:
        """For whoever works on it without being the one who has it.

        Raises:
            SessionTaken: a person has taken it over.
        """
        if self.record.hold is not None:
            self._ownership.refuse(self.record.hold)

    async def take_over(self, by: str) -> None:
        """Let a person have it alone, also instead of another one. What runs goes on."""
        await self._ownership.take_over(by)

    async def give_back(self, by: str, note: str = "") -> Handback | None:
        """Let agents go on, and tell them what was done meanwhile and what the person says; None where nobody had it."""
        return await self._ownership.give_back(by, note)

    def worked_on_by(self, client: str) -> None:
        """Keep the name of the program that works on it now. Waits for nobody."""
        if self.record.client != client:
            self._ownership.note_client(client)
