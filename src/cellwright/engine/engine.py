"""The engine: all sessions of one storage directory, their limits, their saving, and their one event stream.

It decides which sessions may be active, and answers for their history. What a session does is in ``session``; what
happens beside callers in ``_background``; how everything is put together in ``assembly``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import anyio.abc
import msgspec

import cellwright
from cellwright.audit import AuditLog, actor
from cellwright.charts import Renderer
from cellwright.engine import _recovery
from cellwright.engine._admission import Admission
from cellwright.engine._approval_store import ApprovalStore
from cellwright.engine._background import MemoryReturn, Retention, Saver, suspend_idle
from cellwright.engine._branches import Adopted, Branch, Branches, SessionView, compare_sessions
from cellwright.engine._context import Services, SessionContext
from cellwright.engine._create import SessionRequest, new_file, new_record
from cellwright.engine._executions import Execution
from cellwright.engine._notebook_file import NotebookFile
from cellwright.engine._trash import Trash
from cellwright.engine.approvals import AnsweredLater, ApprovalParts, Approvals, Matter
from cellwright.engine.connections import Connections
from cellwright.engine.hidden_sessions import HiddenSessions, OneShots, Rehearsals
from cellwright.engine.hosts import HostLink, Hosts, link_name, place_name
from cellwright.engine.journal import Event, EventStream, Journal, Statement, Subscription
from cellwright.engine.kernel import kernel_environment
from cellwright.engine.options import EngineOptions
from cellwright.engine.placement import HostKind, HostProvider
from cellwright.engine.records import (
    Batch,
    Recorder,
    SessionRecord,
    delete_session,
    new_session_id,
    put_session,
)
from cellwright.engine.remote_documents import MirrorFactory, RemoteDocuments
from cellwright.engine.session import Session
from cellwright.engine.workspace import (
    NetworkUse,
    checked_narrowing,
    network_answer,
    network_words,
    read_requests,
    refuse_other_limits,
)
from cellwright.errors import (
    CellwrightError,
    HostPending,
    SaveFailed,
    UnknownExecution,
    UnknownSession,
)
from cellwright.formats.renderer import PageMaker
from cellwright.hosts import HostPaths, LocalTransport, protocol
from cellwright.hosts.local import make_private
from cellwright.notebook import (
    CellAdded,
    Document,
    create_exclusively,
    file_state,
    read_notebook,
    remove_leftovers,
    write_atomically,
)
from cellwright.notebook.document import retitled, title_of
from cellwright.notebook.languages import canonical_language
from cellwright.presence import Presence
from cellwright.sandbox.policy import Mode, Narrowing
from cellwright.sandbox.tiers import UNSAFE_BANNER
from cellwright.sandbox.workspace import remove_storage
from cellwright.settings import Settings

__all__ = ["Engine", "EngineParts", "HostFactory", "SessionFilter"]

SessionFilter: TypeAlias = Literal["active", "suspended", "all"]

_log = logging.getLogger(__name__)


HostFactory: TypeAlias = Callable[[Hosts, protocol.HostOptions, Mapping[str, str]], HostProvider]


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What is put into an engine from above it: hosts of other kinds, and notebooks on other servers."""

    hosts: Mapping[HostKind, HostFactory]
    mirror: MirrorFactory | None = None


class Engine:
    """Owns sessions. Made by ``open_engine``."""

    def __init__(
        self,
        settings: Settings,
        options: EngineOptions,
        parts: EngineParts,
        journal: Journal,
        audit: AuditLog,
        renderer: Renderer,
        pages: PageMaker,
    ) -> None:
        """``settings`` are for frontends; the engine itself works with ``options``."""
        self.settings = settings
        self.options = options
        self.audit = audit
        """Where decisions and acts are written down."""
        self.pages = pages
        """Makes HTML and PDF of notebooks, in processes of their own."""
        self.renderer = renderer
        self._journal = journal
        self._sessions: dict[str, Session] = {}
        self._stream = EventStream(buffer=options.event_buffer)
        self._recorder = Recorder(journal, self._stream)
        self._host_events = HostEvents(self._sessions, self._recorder)
        self.hosts = self._new_hosts(parts, dict(os.environ))
        """Where kernels live."""
        self._admission = Admission(self._with_kernels, options)
        self._saver = Saver(options.save_quiet_s, self._save_failed)
        self.approvals = self._new_approvals()
        """What a person is asked about before it is done."""
        self.connections = Connections(options.connections, self.approvals, audit, self._context_of)
        """What is reached by name, outside of every sandbox."""
        self._services = self._new_services()
        self._memory = MemoryReturn(self.in_background)
        self._remote = RemoteDocuments(parts.mirror, self._recorder, self._stream.subscribe)
        delete = partial(self.delete, remove_file=True)
        self._branches = Branches(
            self._services, self._sessions, enter=self._enter_branch, delete=delete, new_id=self._new_id
        )
        self._hidden = HiddenSessions(self._begin, delete, self._new_id, self.in_background)
        self._trash = Trash(self._sessions, self._delete_for_good, keep_s=options.undelete_s)
        self._rehearsals = Rehearsals(self._services, self._hidden)
        self.one_shots = OneShots(self._services, self._hidden)
        """Sessions for one run each."""

    @cached_property
    def presence(self) -> Presence:
        """Who is at which session: frontends say so, and ask."""
        return Presence()

    def _new_services(self) -> Services:
        return Services(
            options=self.options,
            recorder=self._recorder,
            audit=self.audit,
            approvals=self.approvals,
            hosts=self.hosts,
            environment=dict(os.environ),
            admit=self._admit,
            wake_saver=self._saver.woken.set,
            in_background=self.in_background,
            renderer=self.renderer,
            notebooks=lambda: {session.path for session in self._sessions.values()},
        )

    def _new_approvals(self) -> Approvals:
        sessions = self._sessions
        parts = ApprovalParts(
            record=lambda session_id: sessions[session_id].record if session_id in sessions else None,
            records=lambda: [session.record for session in sessions.values()],
            update=lambda session_id, batch, fields: sessions[session_id].context.update(batch, **fields),
            propose=lambda session_id, batch, fields: sessions[session_id].context.propose(batch, **fields),
            is_attended=self._is_attended,
            show=lambda: self.presence.ring(*sessions),
        )
        self.hosts.approve_allocation = self._approve_allocation
        store = ApprovalStore(self.options.kept)
        return Approvals(self.options.approvals, store, self._recorder, self.audit, parts)

    def _context_of(self, session_id: str) -> SessionContext | None:
        found = self._sessions.get(session_id)
        return found.context if found is not None else None

    def _is_attended(self, session_id: str | None) -> bool:
        concerned = (session for session in self._sessions.values() if session_id in (None, session.id))
        return any(session.questions.is_attended for session in concerned)

    async def _approve_allocation(self, words: str) -> None:
        if not actor().startswith("page:"):  # there a person asks for it by hand
            await self.approvals.require(Matter("allocation", words, once=True))

    def _new_hosts(self, parts: EngineParts, environment: dict[str, str]) -> Hosts:
        options, events = self.options, self._host_events
        common = kernel_environment(environment, protocol.PythonKernel())
        link = partial(
            HostLink, journal=self._journal, options=options.host, environment=common, listener=events
        )
        hosts = Hosts(
            options.default_host,
            local=LocalTransport(
                HostPaths(options.storage),
                hidden=frozenset(one.password_env or "" for one in options.connections.values()),
            ),
            link=link,
            kernels=events.kernels_on,
            expiring=events.expiring,
            capacity=options.max_sessions,
            wait_s=options.host_wait_s,
        )
        hosts.provide(
            {kind: partial(make, hosts, options.host, common) for kind, make in parts.hosts.items()}
        )
        return hosts

    # Sessions ----------------------------------------------------------------------------------------------------

    async def create(
        self,
        problem: str,
        *,
        language: str | None = None,
        directory: Path | None = None,
        mode: Mode | None = None,
        limits: Narrowing | None = None,
        host: str | None = None,
        chosen: Path | None = None,
    ) -> Session:
        """Create a notebook for a problem, stated in its first cell, and a session with a live kernel.

        The session works where the notebook lies (``direct``), unless another ``mode`` is asked for; an ``overlay``
        needs a project around it, and is ``private`` where there is none. ``limits`` narrows what its code may do.
        ``host`` is where its kernel lives, such as ``local``, ``slurm:gpu`` or ``jupyter`` (see ``placement``); where
        that waits for its turn, the session is suspended and has the reason. ``chosen`` is the folder that a person
        works in: where there is no project, code sees it as one (see ``sandbox.chosen_folders``), if the notebook lies in it.

        Raises:
            TooManySessions: as many sessions are active as ``max_sessions`` allows, and none can make room.
            UnknownHost: no host has that name.
            LimitReached: ``limits`` asks for more than the settings allow.
        """
        self._admission.check()
        checked_narrowing(self.options.host.policy, limits)
        requested = self.hosts.host_name(host)
        language = canonical_language(language or self.options.default_language)
        document = Document.new(language=language)
        document.apply(CellAdded("problem", "markdown", f"# {problem}" if problem else "", 0))
        there = await self._remote.create(requested, problem, document)
        request = SessionRequest(language, requested, None, mode, limits, there, chosen)
        if there is not None:
            session = await self._enter_there(document, request)
        else:
            target = (directory or self.options.notebook_dir).absolute()
            path = await new_file(target, problem, document)
            async with _made_for_a_session(path):
                session = await self._enter(path, document, request)
        try:
            await session.resume()
        except HostPending as pending:
            await session.kernel.wait_for_host(pending.message)
        except (CellwrightError, AnsweredLater):  # nobody knows of it yet, and there is nothing in it
            with suppress(SaveFailed):  # what is gone is journalled late
                await self.delete(session.id, remove_file=True)
            raise
        return session

    async def open(
        self,
        path: Path | str,
        *,
        cwd: Path | None = None,
        mode: Mode | None = None,
        limits: Narrowing | None = None,
        host: str | None = None,
        chosen: Path | None = None,
    ) -> Session:
        """Return the session of an existing notebook, making one if there is none. Nothing is run.

        Its kernel works in ``cwd``, or where the notebook lies; ``mode``, ``limits``, ``host`` and
        ``chosen`` are as in ``create``.

        Raises:
            UnknownHost: no host has that name.
            NotebookFormatError: the file is not a notebook that this version reads.
            LimitReached: ``limits`` asks for more than the settings allow, or the session has others.
        """
        limits = checked_narrowing(self.options.host.policy, limits)
        path = await anyio.to_thread.run_sync(lambda: Path(path).expanduser().resolve())
        for session in self._sessions.values():
            if session.path == path:
                if session.record.deleted_at is not None:
                    await self._trash.restore(session.id)
                refuse_other_limits(session.id, session.record.limits, limits)
                if host is not None:
                    await session.kernel.prefer_host(self.hosts.host_name(host))
                await session.refresh()
                await session.workspace.ask_for_network()
                return session
        document, _ = await anyio.to_thread.run_sync(read_notebook, path)
        await anyio.to_thread.run_sync(remove_leftovers, path.parent)
        requested = self.hosts.host_name(host)
        request = SessionRequest(document.language, requested, cwd, mode, limits, None, chosen)
        return await self._enter(path, document, request)

    async def open_there(
        self, path: str, *, host: str, mode: Mode | None = None, limits: Narrowing | None = None
    ) -> Session:
        """Return the session of a notebook that lies on the Jupyter server ``host``, at ``path`` from its root.

        Raises:
            UnknownHost: no server has that name.
            NotebookError: there is no such notebook, or it is none that this version reads.
        """
        limits, requested = checked_narrowing(self.options.host.policy, limits), self.hosts.host_name(host)
        there, document = await self._remote.fetch(requested, path)
        for session in self._sessions.values():
            if session.record.there == there:
                refuse_other_limits(session.id, session.record.limits, limits)
                return session
        request = SessionRequest(document.language, requested, None, mode, limits, there)
        return await self._enter_there(document, request)

    def session(self, session_id: str) -> Session:
        """One session.

        Raises:
            UnknownSession: there is none with that id.
        """
        if (found := self._sessions.get(session_id)) is not None and found.record.deleted_at is None:
            return found
        known = ", ".join([session.id for session in self.sessions()][-5:]) or "none"
        raise UnknownSession(f"There is no session {session_id!r}", hint=f"The newest sessions are: {known}")

    def sessions(self, filter: SessionFilter = "all") -> list[Session]:  # the word users know
        """Sessions, oldest first; not those that serve something else and go with it, nor those that were deleted."""
        seen = [
            session
            for session in self._sessions.values()
            if not session.record.is_unseen and session.record.deleted_at is None
        ]
        return [session for session in seen if filter in ("all", session.state)]

    def _with_kernels(self) -> list[Session]:
        """All that count against ``max_sessions``: a deleted one has its kernel until it is gone for good."""
        return [one for one in self._sessions.values() if not one.record.is_unseen and one.state == "active"]

    async def delete(self, session_id: str, *, remove_file: bool = False, later: bool = False) -> None:
        """End a session and forget its history. The notebook stays, unless it is to be removed too.

        ``later`` takes it from everybody's sight, and ends it after ``undelete_s`` unless it is restored.
        """
        session = self.session(session_id)
        if later:
            await self._trash.put(session)
        else:
            await self._end_session(session, remove_file=remove_file)

    def deleted(self) -> list[Session]:
        """Those that were deleted for later and can be brought back, the newest first."""
        return self._trash.sessions

    async def restore(self, session_id: str) -> Session:
        """Bring back a session that was deleted for later, with its kernel and history.

        Raises:
            UnknownSession: it was not deleted, or is gone for good.
        """
        return await self._trash.restore(session_id)

    async def duplicate(self, session_id: str) -> Session:
        """A session of its own with a copy of another's notebook, outputs included, beside it. Nothing is run."""
        origin = self.session(session_id)
        await origin.refresh()
        record, document = origin.record, origin.document.copy()
        title = f"{title_of(document) or origin.name} copy"
        if (change := retitled(document, title)) is not None:
            document.apply(change)
        # What lies on a server has only a copy here, among what no kernel sees.
        folder = origin.path.parent if record.there is None else self.options.root / "notebooks"
        path = await new_file(folder, title, document)
        cwd = Path(record.cwd) if record.cwd is not None else None
        request = SessionRequest(
            record.language,
            self.hosts.host_name(record.host),
            cwd,
            record.mode,
            record.limits,
            network_allowed=record.network_allowed,
        )
        async with _made_for_a_session(path):
            return await self._enter(path, document, request)

    async def _delete_for_good(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.record.deleted_at is not None:
            await self._end_session(session, remove_file=False)

    async def _end_session(self, session: Session, *, remove_file: bool) -> None:
        session_id = session.id
        with suppress(SaveFailed):  # what is not journalled of its end goes with the rest
            await session.suspend()
        await self._remote.end(session, remove=remove_file)
        await self.connections.end_session(session_id)
        if remove_file or session.record.there is not None:
            await session.context.file.remove()
        else:
            await session.save()
        with suppress(SaveFailed):
            await session.suspend()  # whoever ran something meanwhile began another kernel
        del self._sessions[session_id]
        await anyio.to_thread.run_sync(remove_storage, session.storage)
        batch = Batch(statements=delete_session(session_id), lasting=not session.record.is_unseen)
        for adopted in _recovery.load_adopted(self._journal, session_id):
            batch.statements += delete_session(adopted)
        self._recorder.note(batch, "notebook.state.changed", session.record, {"session": "deleted"})
        self._memory.something_went()
        await self._recorder.commit(batch)

    async def branch(self, session_id: str, *, checkpoint: str | None = None, count: int = 1) -> list[Branch]:
        """Second sessions with documents, files and kernels of their own, from a checkpoint or the state of now.

        Raises:
            UnknownCheckpoint: it is not kept.
            TooManySessions: as many sessions are active as ``max_sessions`` allows.
        """
        return await self._branches.grow(self.session(session_id), checkpoint, count)

    async def branch_for_trial(self, session_id: str, checkpoint: str) -> Session:
        """A branch that costs nobody else anything: by the checkpoint alone, in room that is free.

        Raises:
            UnknownCheckpoint: it is not kept.
            KernelError: the checkpoint cannot go on as a second kernel; nothing is replayed instead.
            TooManySessions: as many sessions are active as ``max_sessions`` allows; none is suspended.
        """
        [branch] = await self._branches.grow(self.session(session_id), checkpoint, 1, trial=True)
        return branch.session

    async def adopt(self, session_id: str, *, keep_others: bool = False) -> Adopted:
        """Let a branch's cells, files and kernel become those of the session it was grown from.

        Its siblings end, or with ``keep_others`` are suspended: their kernels go, their notebooks can be read.

        Raises:
            UnknownSession: it is no branch, or its original is gone.
            KernelBusy: it runs something.
        """
        return await self._branches.adopt(self.session(session_id), keep_others=keep_others)

    async def approve_adoption(self, session_id: str, *, keep_others: bool = False) -> None:
        """Ask about what ``adopt`` would apply to the project and delete, for whoever is no person at the page.

        Raises:
            NotApproved: the answer was no.
        """
        await self._branches.approve_adoption(self.session(session_id), keep_others=keep_others)

    async def compare(self, session_ids: Sequence[str]) -> list[SessionView]:
        """What sessions hold that the first of them does not: cells, files, variables."""
        return await compare_sessions([self.session(session_id) for session_id in session_ids])

    def rehearsal(
        self, session_id: str, document: Document, *, leave_out: frozenset[str] = frozenset()
    ) -> AbstractAsyncContextManager[Session]:
        """A session with an empty kernel and this document, apart from the files of another (see ``rehearsal``)."""
        return self._rehearsals.open(self.session(session_id), document, leave_out)

    @property
    def banner(self) -> str | None:
        """What every reply must say while code runs unconfined, also code that an earlier engine started so."""
        if self.options.host.policy is None:
            return UNSAFE_BANNER
        return next((session.banner for session in self.sessions("active") if session.banner), None)

    # Executions and events ---------------------------------------------------------------------------------------

    def execution(self, execution_id: str) -> Execution:
        """An execution, running or long over, of any session.

        Raises:
            UnknownExecution: there is none with that id.
        """
        for session in self._sessions.values():
            if (execution := session.runs.find(execution_id)) is not None:
                return execution
        execution = _recovery.load_execution(self._journal, execution_id)
        if execution is None:
            raise UnknownExecution(
                f"There is no execution {execution_id!r}", hint=self._cell_meant(execution_id)
            )
        return execution

    def _cell_meant(self, execution_id: str) -> str:
        """What to do with an id that is no execution's, but perhaps a cell's."""
        for session in self.sessions():
            if execution_id in session.document:
                return f"That is a cell of session {session.id}: run it; `execution_list` has what ran in it"
        return "`execution_list` has a session's executions"

    async def history(
        self, session_id: str, *, cell_id: str | None = None, after: int = 0, outputs: bool = True
    ) -> list[Execution]:
        """Every execution of a session, or of one cell, oldest first, with its outputs unless they are not requested.

        With ``after`` only those that have a higher number.
        """
        self.session(session_id)
        await self._journal.catch_up()
        return _recovery.load_executions(
            self._journal, session_id, cell_id=cell_id, after=after, outputs=outputs
        )

    async def network_log(self, session_id: str) -> NetworkUse:
        """What a session's code asked of the network: its newest requests, each with its verdict."""
        self.session(session_id)
        await self._journal.catch_up()
        return read_requests(self._journal, session_id)

    async def events_of(self, execution_id: str) -> list[Event]:
        """Everything that happened to one execution so far, oldest first."""
        await self._journal.catch_up()
        return _recovery.read_event_rows(self._journal, "execution = ?", (execution_id,))

    @property
    def last_event(self) -> int:
        """The number of the newest event; what is asked for now holds at least what came of it."""
        return self._journal.last_seq

    def events(self, *, since: int, session_id: str | None = None, limit: int = 1_000) -> list[Event]:
        """Past events after number ``since``, oldest first: what a subscriber missed."""
        if session_id is None:
            return _recovery.read_event_rows(self._journal, "seq > ?", (since,), limit)
        condition = "seq > ? AND session = ?"
        return _recovery.read_event_rows(self._journal, condition, (since, session_id), limit)

    async def cancel(self, execution_id: str) -> None:
        """Stop an execution, whoever asked for it."""
        await self.session(self.execution(execution_id).session_id).cancel(execution_id)

    def subscribe(self, session_id: str | None = None) -> AbstractContextManager[Subscription]:
        """Listen to all events, or to one session's, from now on."""
        return self._stream.subscribe(session_id)

    # Life --------------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Take up every session from the journal, attach to the host, and keep house until cancelled."""
        self._recover()
        self.audit.note("start", version=cellwright.__version__, dangers=list(self.options.dangers))
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await tasks.start(self.hosts.run)
            await tasks.start(self._remote.run)
            await self._open_connections(tasks)
            tasks.start_soon(self._saver.run, self.sessions)
            records = [session.record for session in self._sessions.values()]
            if self.hosts.wants_local(records) and (attached := await self.hosts.local.connect()) is not None:
                await self._host_events.reconcile(self.hosts.local, attached)
            self.hosts.seek(records)
            await self._hidden.clear([one for one in self._sessions.values() if one.record.is_unseen])
            retention = Retention(
                self._journal,
                self._sessions,
                days=self.options.history_days,
                max_bytes=self.options.max_journal,
            )
            tasks.start_soon(retention.run)
            tasks.start_soon(suspend_idle, partial(self.sessions, "active"), self.options.session_idle_s)
            tasks.start_soon(self._trash.run)
            for session in self.sessions():
                self._remote.begin(session)
            task_status.started()
            await anyio.sleep_forever()

    async def _open_connections(self, tasks: anyio.abc.TaskGroup) -> None:
        if self.options.connections:
            place = HostPaths(self.options.storage).connections
            make_private(place.parent)
            await tasks.start(self.connections.run, place)

    async def close(self, *, stop_host: bool) -> None:
        """Save everything and let the host go, or end it with its kernels."""
        await self._hidden.settled()
        for session in self._sessions.values():
            try:
                await session.save()
            except CellwrightError as error:  # the journal has it; the next engine saves it
                _log.warning("not_saved path=%s %s", session.path, error)
        await self._remote.flush()
        await self.hosts.close(stop_hosts=stop_host)
        self._stream.close()

    async def _enter(self, path: Path, document: Document, request: SessionRequest) -> Session:
        """Make a session for a document that is in its file as it is here, but for what was repaired on reading."""
        record = await new_record(self._new_id(), path, request, self.options)
        if record.network_allowed is None and not record.is_foreign:
            # Asked while there is nothing yet: a client may have to call again with the answer, in another session.
            matter = Matter(
                "network", network_words(self._services, "a new notebook"), None, record.project, once=True
            )
            allowed = await network_answer(self._services, matter, record.limits)
            record = msgspec.structs.replace(record, network_allowed=allowed)
        return await self._begin(record, document)

    async def _enter_there(self, document: Document, request: SessionRequest) -> Session:
        """Make a session for a document that lies on a server, with a copy here."""
        path = self._remote.copy_of(request.there or ("", ""))
        await anyio.to_thread.run_sync(lambda: path.parent.mkdir(mode=0o700, parents=True, exist_ok=True))
        await anyio.to_thread.run_sync(write_atomically, path, document.to_bytes())
        # Beside a copy in the storage directory is no place for code, should the session come to this machine.
        request = replace(request, mode="private")
        async with _made_for_a_session(path):
            session = await self._enter(path, document, request)
        self._remote.begin(session)
        return session

    async def _enter_branch(self, record: SessionRecord, origin: Session) -> Session:
        """A session with a copy of another's document, in a file of its own, kept from work."""
        document = origin.document.copy()
        await anyio.to_thread.run_sync(create_exclusively, Path(record.path), document.to_bytes())
        async with _made_for_a_session(Path(record.path)):
            return await self._begin(record, document)

    async def _begin(self, record: SessionRecord, document: Document) -> Session:
        path, batch = Path(record.path), Batch(lasting=not record.is_unseen)
        created = self._recorder.note(batch, "notebook.state.changed", record, {"session": "created"})
        file = NotebookFile(path, document, base=document.copy(), file=file_state(path), seq=created.seq)
        file.dirty = bool(document.repairs)
        session = self._sessions[record.id] = Session(record, file, self._services)
        if record.branch_of is not None:
            session.context.turn.acquire_nowait()  # until it has the kernel that is made for it
        batch.statements += [put_session(record), file.base_row(record.id)]
        batch.undo.append(partial(self._sessions.pop, record.id))
        await self._recorder.commit(batch)
        return session

    def _new_id(self) -> str:
        while (session_id := new_session_id()) in self._sessions:
            pass
        return session_id

    def _admit(
        self, record: SessionRecord, *, spare: Collection[str] = (), suspends: bool = True
    ) -> AbstractAsyncContextManager[None]:
        self.session(record.id)  # one that was deleted gets no kernel any more
        return self._admission.of(record, spare=spare, suspends=suspends)

    # Taking up where an engine stopped ---------------------------------------------------------------------------

    def _recover(self) -> None:
        for record in _recovery.load_session_records(self._journal):
            file = _recovery.load_file(self._journal, record)
            session = self._sessions[record.id] = Session(record, file, self._services)
            for execution in _recovery.load_live_executions(self._journal, record.id):
                session.runs.adopt(execution)
        self.approvals.recover(self._journal)

    # Keeping house -----------------------------------------------------------------------------------------------

    def in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something that goes on whatever becomes of the caller; what it raises costs nobody else."""
        self._tasks.start_soon(_run_apart, work)

    def _save_failed(self, session: Session, error: CellwrightError) -> None:
        batch = Batch()
        data = {"code": error.code, "message": error.message, "hint": error.hint}
        self._recorder.note(batch, "notebook.error", session.record, data)
        self._recorder.commit(batch)


@asynccontextmanager
async def _made_for_a_session(path: Path) -> AsyncIterator[None]:
    """Remove a notebook that was made for a session where that is refused."""
    try:
        yield
    except SaveFailed:
        await anyio.to_thread.run_sync(lambda: path.unlink(missing_ok=True))
        raise


async def _run_apart(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do work that nobody waits for; what it raises is logged."""
    try:
        await work()
    except Exception:  # noqa: BLE001  # boundary: what one session left lying about must not end the engine of all
        _log.exception("background_work_failed")


# What hosts report, routed to the sessions that it is about, and the differences between the journal and a host.


class HostEvents:
    """Routes what hosts report to their sessions (see ``hosts.LinkListener``)."""

    def __init__(self, sessions: Mapping[str, Session], recorder: Recorder) -> None:
        self._sessions = sessions
        self._recorder = recorder

    def taken(self, events: list[protocol.Event], consumed: Statement, committed: Callable[[], None]) -> None:
        """Apply a host's events to its sessions."""
        batch = Batch()
        for event in events:
            session = self._sessions.get(_session_of(event.kernel_id))
            if session is not None:
                self._take(batch, session, event)
        batch.statements.append(consumed)
        batch.after.append(committed)
        self._recorder.commit(batch)

    def _take(self, batch: Batch, session: Session, event: protocol.Event) -> None:
        try:
            session.reports.take(batch, event)
        except Exception:  # noqa: BLE001  # boundary: an event that one session cannot apply is reported there, and no other session notices
            _log.exception("event_not_taken", extra={"session": session.id, "seq": event.seq})
            message = f"An event of the kernel's host could not be applied ({type(event.body).__name__})"
            data = {"code": "host", "message": message, "hint": "The engine's log has the reason"}
            self._recorder.note(batch, "notebook.error", session.record, data)

    def lost(self, link: HostLink, why: str) -> None:
        """A host is gone."""
        self._report(link, lambda session, batch: session.reports.lose_host(batch, why))

    def out_of_reach(self, link: HostLink, why: str) -> None:
        """A host cannot be reached."""
        self._report(link, lambda session, batch: session.reports.lose_sight(batch, why))

    async def back(self, link: HostLink, attached: protocol.Attached) -> None:
        """A host is reached again."""
        began = {session.id: session.record.kernel_id for session in self._on(link.name)}
        now = await link.call(protocol.Status(), protocol.Attached)
        # A kernel that was started meanwhile is in neither list, and is nobody's loss.
        fresh = {
            kernel_id
            for session in self._on(link.name)
            if (kernel_id := session.record.kernel_id) != began.get(session.id)
        }
        known = {kernel.kernel_id for kernel in now.kernels} | fresh
        await self.reconcile(link, attached, also=known)
        self._report(link, lambda session, batch: session.reports.see_again(batch))

    async def reconcile(
        self, link: HostLink, attached: protocol.Attached, *, also: Collection[str | None] = ()
    ) -> None:
        """Settle the differences between the journal and a host, after all events of the host are applied.

        ``also`` are kernels that the host has started since it sent ``attached``.
        """
        living = {kernel.kernel_id: kernel for kernel in attached.kernels}
        sessions = [one for one in self._sessions.values() if link_name(one.record) == link.name]
        for session in sessions:
            if session.record.returning_to is not None:
                await session.checkpointing.complete_return(set(living))
        batch = Batch()
        for session in sessions:
            kernel = living.pop(session.record.kernel_id or "", None)
            if kernel is None and session.state == "active" and session.record.kernel_id not in also:
                session.reports.lose_host(batch, "The process that owned the kernel went away")
            elif kernel is not None:
                session.reports.agree(batch, kernel)
        await self._recorder.commit(batch)
        for session in sessions:
            session.checkpointing.undo_pending()
        for kernel_id in living:  # started for an engine that did not live to journal it
            await link.call(protocol.StopKernel(kernel_id), type(None))

    def kernels_on(self, name: str) -> int:
        """How many sessions have a kernel on a host."""
        active = (one.record for one in self._sessions.values() if one.state == "active")
        return sum(name in (place_name(record), link_name(record)) for record in active)

    def expiring(self) -> set[str]:
        """The hosts that reported that their end is near."""
        return {link_name(one.record) for one in self._sessions.values() if one.record.expires_at is not None}

    def _on(self, name: str) -> list[Session]:
        return [
            one for one in self._sessions.values() if link_name(one.record) == name and one.state == "active"
        ]

    def _report(self, link: HostLink, report: Callable[[Session, Batch], None]) -> None:
        batch = Batch()
        for session in self._on(link.name):
            report(session, batch)
        self._recorder.commit(batch)


def _session_of(kernel_id: str) -> str:
    return kernel_id.rpartition(".")[0]
