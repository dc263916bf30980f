"""Notebooks that lie on a Jupyter server: made and found there, and kept in step with their sessions.

Implements the engine's ``DocumentMirror``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
from msgspec.structs import replace

from cellwright.engine.journal import Subscription
from cellwright.engine.placement import HostName, server_and_kernel
from cellwright.engine.records import Batch, Recorder, put_session
from cellwright.engine.session import Session
from cellwright.errors import CellwrightError, HostUnreachable, NotebookError, NotebookFormatError
from cellwright.jupyter._contents import (
    Contents,
    ServerAddress,
    Stamp,
    WrittenMeanwhile,
    client_for,
    identity,
    required,
)
from cellwright.jupyter._document_merge import Sheet, SheetCell, agreed, revisions, sheet_of
from cellwright.jupyter._hubs import reach
from cellwright.jupyter._servers import is_loopback, jupyter_server
from cellwright.jupyter._shared_document import (
    GLOBAL_PRESENCE,
    SharedDocument,
    Ticket,
    find_shared_document,
    open_shared_document,
)
from cellwright.notebook import Document, DocumentReplaced, merge, slug, write_atomically
from cellwright.settings.model import JupyterSettings

if TYPE_CHECKING:
    import httpx2

    from cellwright.notebook.cells import CellRecord

__all__ = ["Mirrors"]
_FLUSH_S = 3.0


class Mirrors:
    """Every session with a notebook elsewhere."""

    def __init__(
        self,
        settings: JupyterSettings,
        storage: Path,
        agent_name: str,
        recorder: Recorder,
        subscribe: Callable[[str], AbstractContextManager[Subscription]],
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """Copies of notebooks lie below ``storage``; ``agent_name`` is what people see beside the cursor."""
        self._settings = settings
        self._storage = storage
        self._agent_name = agent_name
        self._tasks = tasks
        self._recorder = recorder
        self._subscribe = subscribe
        self._mirrors: dict[str, tuple[Mirror, anyio.CancelScope]] = {}

    def begin(self, session: Session) -> None:
        """Keep a session's notebook in step with the one on its server; does nothing where it has none."""
        if session.record.there is None or session.id in self._mirrors:
            return
        mirror = Mirror(
            session,
            partial(self._line, session.record.there[0] or None),
            user=identity(self._agent_name),
            tell=partial(self._tell, session),
            moved=partial(self._note_path, session),
            subscribe=self._subscribe,
        )
        scope = anyio.CancelScope()
        self._mirrors[session.id] = mirror, scope
        self._tasks.start_soon(_scoped, scope, mirror)

    async def end(self, session: Session, *, remove: bool) -> None:
        """Let a notebook go once it has all that was done, or remove it there.

        Raises:
            HostUnreachable: the server cannot be given what was done; the session stays.
        """
        if session.record.there is None:
            return
        mirror, scope = self._mirrors.get(session.id, (None, None))
        if mirror is not None and not remove:
            with anyio.move_on_after(_FLUSH_S) as waiting:
                await mirror.reach()
                await mirror.flush()
            if waiting.cancelled_caught:
                raise HostUnreachable(
                    f"The server of {session.record.there[1]!r} cannot be given what was done in session {session.id}",
                    hint="Try again when it answers; nothing was deleted. `notebook_export` keeps a copy elsewhere",
                )
        self._mirrors.pop(session.id, None)
        if scope is not None:
            scope.cancel()
        name, path = session.record.there
        if remove:
            async with self._line(name or None) as line:
                await Contents(line.address, line.client).delete(path)
        session.path.unlink(missing_ok=True)

    async def flush(self) -> None:
        """Let all servers have what was done, as far as they answer."""
        with anyio.move_on_after(_FLUSH_S):
            async with anyio.create_task_group() as tasks:
                for mirror, _ in self._mirrors.values():
                    tasks.start_soon(_flushed, mirror)

    # Making and finding ------------------------------------------------------------------------------------------

    async def create(self, host: HostName, problem: str, document: Document) -> tuple[str, str] | None:
        """Make a notebook on a server; None where the server keeps no files.

        Raises:
            CellwrightError: the server cannot be reached, or does not let us.
        """
        name, kernel_id = server_and_kernel(host.which)
        async with self._line(name) as line:
            contents = Contents(line.address, line.client)
            # A gateway has kernels and no files.
            if kernel_id is not None or not await contents.exists(""):
                return None
            stem = f"{datetime.now().astimezone():%Y%m%d_%H%M%S}_{slug(problem)}"
            for number in count(1):
                path = f"{stem}{f'_{number}' if number > 1 else ''}.ipynb"
                if not await contents.exists(path):
                    await contents.create(path, document)
                    return name or "", path
        raise AssertionError  # count() never ends

    async def fetch(self, host: HostName, path: str) -> tuple[tuple[str, str], Document]:
        """A notebook that lies on a server, and where.

        Raises:
            NotebookError: there is none.
            CellwrightError: the server cannot be reached, or does not let us.
        """
        name, _ = server_and_kernel(host.which)
        parts = [part for part in path.split("/") if part]
        if not parts or any(part in (".", "..") for part in parts):
            raise NotebookError(f"{path!r} is no path on a server", hint="Give one from the server's root on")
        async with self._line(name) as line:
            document, _ = await Contents(line.address, line.client).read("/".join(parts))
        return (name or "", "/".join(parts)), document

    def copy_of(self, there: tuple[str, str]) -> Path:
        """The file here that is a copy of one there."""
        return self._storage / "mirrors" / (there[0] or "jupyter") / there[1]

    @asynccontextmanager
    async def _line(self, name: str | None) -> AsyncIterator[Line]:
        required()
        reached = await reach(jupyter_server(self._settings, name))
        try:
            api = reached.api
            address = ServerAddress(api.name, api.url, api.token, by_proxy=not is_loopback(api.url))
            async with client_for(address) as client:
                yield Line(address, client)
        finally:
            await reached.close()

    # Telling -----------------------------------------------------------------------------------------------------

    async def _tell(self, session: Session, sharing: str, error: CellwrightError | None) -> None:
        if session.sharing == sharing:
            return
        session.sharing = sharing
        batch = Batch()
        data = {"sharing": sharing, "there": list(session.record.there or ())}
        self._recorder.note(batch, "notebook.state.changed", session.record, data)
        if error is not None:
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            self._recorder.note(batch, "notebook.error", session.record, told)
        await self._recorder.commit(batch)

    async def _note_path(self, session: Session, path: str) -> None:
        """Somebody moved the notebook on its server."""
        if session.record.there is None:
            return
        session.context.record = replace(session.record, there=(session.record.there[0], path))
        batch = Batch(statements=[put_session(session.record)])
        data = {"there": list(session.record.there or ())}
        self._recorder.note(batch, "notebook.state.changed", session.record, data)
        await self._recorder.commit(batch)


async def _scoped(scope: anyio.CancelScope, mirror: Mirror) -> None:
    with scope:
        await mirror.run()


async def _flushed(mirror: Mirror) -> None:
    try:
        await mirror.flush()
    except (CellwrightError, OSError):
        return  # the base that is kept tells the next engine what is missing there


# Keeps one session's notebook in step with the one on its Jupyter server, which people may have open.

# How soon after one exchange the next may follow: people see a stream flow, and a server is not flooded.
_PACE_S = 0.05

_BASE_PACE_S = 1.0

# Where documents are not shared, somebody has to look.
_LOOK_S = 2.0

_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 5.0

_log = logging.getLogger(__name__)

LIVE = "live: what people type there is seen at once, and so is what the agent does"

BY_FILE = "by its file: changes on either side are merged when they are saved"


@dataclass(frozen=True, slots=True)
class Line:
    """How a server is spoken with for a while."""

    address: ServerAddress
    client: httpx2.AsyncClient


class Mirror:
    """One session's notebook and the one on its server."""

    def __init__(
        self,
        session: Session,
        connect: Callable[[], AbstractAsyncContextManager[Line]],
        *,
        user: dict[str, Any],
        tell: Callable[[str, CellwrightError | None], Awaitable[None]],
        moved: Callable[[str], Awaitable[None]],
        subscribe: Callable[[str], AbstractContextManager[Subscription]],
    ) -> None:
        self._session = session
        self._connect = connect
        self._user = user
        self._tell = tell
        self._moved = moved
        self._subscribe = subscribe
        self._woken = anyio.Event()
        self._known: dict[str, tuple[CellRecord, SheetCell]] = {}
        self._base = _read_base(self._base_file) or sheet_of(session.document)
        self._common = self._base
        self._unconfirmed: Sheet | None = None
        self._stamp: Stamp | None = None
        self._exchange: Callable[[], Awaitable[None]] | None = None
        self._reached = anyio.Event()
        self._exchanging = anyio.Lock()

    @property
    def path(self) -> str:
        """Where the notebook lies on the server."""
        there = self._session.record.there
        return there[1] if there is not None else ""

    @property
    def _base_file(self) -> Path:
        return self._session.storage / "shared.ipynb"

    async def run(self) -> None:
        """Keep the two in step until cancelled, through whatever happens to the server."""
        await anyio.to_thread.run_sync(self._write_base)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear)
            retry_s = _FIRST_RETRY_S
            while True:
                try:
                    await self._while_connected()
                except* Exception as group:  # noqa: BLE001  # boundary: whatever a server says, the session goes on
                    retry_s = _FIRST_RETRY_S if self._exchange is not None else retry_s
                    self._exchange = None
                    if self._reached.is_set():
                        self._reached = anyio.Event()
                    error = _told(group)
                    await self._tell(f"out of step for now: {error.message}", error)
                await anyio.sleep(retry_s)
                retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def reach(self) -> None:
        """Wait until the server is reached."""
        while self._exchange is None:
            await self._reached.wait()

    async def flush(self) -> None:
        """Let the server have all that was done here so far, if it can be reached."""
        if self._exchange is not None:
            await self._exchange()
        await anyio.to_thread.run_sync(self._write_base)

    async def _hear(self) -> None:
        with self._subscribe(self._session.id) as events:
            async for _ in events:
                self._woken.set()

    async def _wait(self) -> None:
        await self._woken.wait()
        self._woken = anyio.Event()

    async def _while_connected(self) -> None:
        async with self._connect() as line:
            ticket = await find_shared_document(line.address, line.client, self.path)
            if ticket is not None:
                await self._live(line, ticket)
            else:
                await self._by_file(Contents(line.address, line.client))

    # Shared documents --------------------------------------------------------------------------------------------

    async def _live(self, line: Line, ticket: Ticket) -> None:
        # What the server was not known to have is compared anew with what it has now.
        self._common, self._unconfirmed = self._base, None
        async with (
            anyio.create_task_group() as tasks,
            open_shared_document(
                line.address, ticket, self._user, tasks, was_empty=not self._base.cells
            ) as room,
        ):
            exchange = self._reach(_bound(self._settle, room))
            await exchange()
            await self._tell(LIVE, None)
            tasks.start_soon(self._be_seen, line, ticket)
            tasks.start_soon(self._hear_people, room)
            tasks.start_soon(self._confirm, room)
            while True:
                await self._wait()
                await self._step(room)
                await anyio.sleep(_PACE_S)

    def _reach(self, exchange: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        self._exchange = exchange
        self._reached.set()
        return exchange

    async def _settle(self, room: SharedDocument) -> None:
        await self._step(room)
        sheet = self._common
        await room.settled()
        self._base = sheet

    async def _step(self, room: SharedDocument) -> None:
        """Bring both sides together; all that is decided is decided at one moment."""
        async with self._exchanging:
            session, shared = self._session, room.notebook
            document = session.document
            live = [run for run in session.runs.live if run.cell_id is not None]
            running = [str(run.cell_id) for run in live if run.record.started_at is not None]
            ours = sheet_of(document, self._known, self._common.by_id)
            sheet = agreed(self._common, ours, shared.read(), running=running)
            changes = revisions(document, ours, sheet)
            shared.become(sheet)
            shared.show_running(str(run.cell_id) for run in live)
            if changes:
                await session.notebook.merge_remote(changes)
            self._common = self._unconfirmed = sheet
            if shared.path and shared.path != self.path:
                await self._moved(shared.path)

    async def _hear_people(self, room: SharedDocument) -> None:
        while True:
            await room.changed()
            self._woken.set()

    async def _confirm(self, room: SharedDocument) -> None:
        """Note what the server has for certain, and let it outlive this process."""
        while True:
            await anyio.sleep(_BASE_PACE_S)
            sheet, self._unconfirmed = self._unconfirmed, None
            if sheet is not None:
                await room.settled()
                self._base = sheet
                await anyio.to_thread.run_sync(self._write_base)

    async def _be_seen(self, line: Line, ticket: Ticket) -> None:
        """Stand in the list of those who are on the server, beside the one of those who have the notebook open."""
        user = {**self._user, "current": f"notebook:RTC:{self.path}"}
        everywhere = Ticket(GLOBAL_PRESENCE, ticket.session_id)
        with suppress(CellwrightError):
            async with (
                anyio.create_task_group() as tasks,
                open_shared_document(line.address, everywhere, user, tasks, empty=True),
            ):
                await anyio.sleep_forever()

    # Files -------------------------------------------------------------------------------------------------------

    async def _by_file(self, contents: Contents) -> None:
        self._stamp = None
        exchange = self._reach(_bound(self._exchange_files, contents))
        await exchange()
        await self._tell(BY_FILE, None)
        while True:
            with anyio.move_on_after(_LOOK_S):
                await self._wait()
                await anyio.sleep(_BASE_PACE_S)
            await exchange()

    async def _exchange_files(self, contents: Contents) -> None:
        async with self._exchanging:
            while True:
                await self._take_file(contents)
                ours = self._session.document.copy()
                sheet = sheet_of(ours)
                if _alike(sheet, self._base) or self._stamp is None:
                    return
                with suppress(WrittenMeanwhile):
                    await contents.write(self.path, ours, self._stamp)
                    # What is there now is read, and compared with what was written.
                    self._base, self._stamp = sheet, None

    async def _take_file(self, contents: Contents) -> None:
        if self._stamp is not None and await contents.look(self.path) == self._stamp:
            return
        theirs, stamp = await contents.read(self.path)
        base = Document.from_bytes(self._base.to_bytes(), name="What both had")
        merged = merge(base, self._session.document, theirs)
        if not _alike(sheet_of(merged.document), sheet_of(self._session.document)):
            whole = DocumentReplaced(merged.document.to_bytes().decode(), merged.document.versions)
            await self._session.notebook.merge_remote([whole], merged.conflicts)
        self._base, self._stamp = sheet_of(theirs), stamp
        await anyio.to_thread.run_sync(self._write_base)

    def _write_base(self) -> None:
        self._base_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._base_file, self._base.to_bytes())


def _bound(work: Callable[[Any], Awaitable[None]], on: Any) -> Callable[[], Awaitable[None]]:
    return lambda: work(on)


def _alike(left: Sheet, right: Sheet) -> bool:
    return left.to_bytes() == right.to_bytes()


def _told(group: BaseExceptionGroup[Exception]) -> CellwrightError:
    """What went wrong, in words of ours."""
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return _told(first)
    if isinstance(first, CellwrightError):
        return first
    _log.error("mirror_failed", exc_info=first)
    return HostUnreachable(f"The document on the server could not be kept in step: {first!r}")


def _read_base(path: Path) -> Sheet | None:
    try:
        return sheet_of(Document.from_bytes(path.read_bytes(), name=path.name))
    except (OSError, NotebookFormatError):
        return None
