"""The engine's memory on disk: one SQLite file, one writer thread, many changes to a commit.

Everything here survives ``kill -9`` of any process once its commit is awaited. It stores and finds rows; what they
mean stands in ``records`` and ``recovery``.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVarTuple, Unpack

import anyio

from cellwright.engine.event_kinds import EventKind
from cellwright.errors import SaveFailed

__all__ = [
    "Event",
    "EventStream",
    "Journal",
    "Missed",
    "Statement",
    "Subscription",
    "insert_event",
]

_library: ContextVar[str | None] | None

try:
    from sniffio import current_async_library_cvar as _library
except ModuleNotFoundError:  # not ours: whatever else is installed may bring it
    _library = None

Statement: TypeAlias = tuple[str, tuple[Any, ...]]

_Given = TypeVarTuple("_Given")

_SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE documents (
    session TEXT PRIMARY KEY, seq INTEGER NOT NULL, content TEXT NOT NULL,
    versions TEXT NOT NULL, file TEXT
);
CREATE TABLE executions (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, cell TEXT, number INTEGER NOT NULL, record TEXT NOT NULL
);
CREATE INDEX executions_by_session ON executions (session, number);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL,
    generation INTEGER NOT NULL, cell TEXT, execution TEXT, data TEXT NOT NULL
);
CREATE INDEX events_by_session ON events (session, seq);
CREATE INDEX events_by_execution ON events (execution, seq) WHERE execution IS NOT NULL;
CREATE TABLE hosts (incarnation TEXT PRIMARY KEY, consumed INTEGER NOT NULL);
"""

# Earlier versions, which know nothing of it, leave it alone.
_ADDED = """
CREATE TABLE IF NOT EXISTS edits (
    session TEXT NOT NULL, number INTEGER NOT NULL, person TEXT NOT NULL, undone INTEGER NOT NULL,
    step TEXT NOT NULL, PRIMARY KEY (session, number)
);
CREATE TABLE IF NOT EXISTS approvals (id TEXT PRIMARY KEY, record TEXT NOT NULL);
"""

_MAX_BATCH = 2_000

_RETRY_S = 1.0

_SYNC_S = 1.0

_GIVE_BACK_S = 0.05

_INCREMENTAL = 2

# In pages of 4 kB: what is kept free for the next changes, and what is given back at a time, which others wait for.
_SPARE_PAGES = 256

_GIVEN_BACK_PAGES = 256

_MOST_LOG_BYTES = 8 * 1024**2

_MOST_REWRITTEN_BYTES = 64 * 1024**2


def insert_event(event: Event) -> Statement:
    return (
        "INSERT INTO events VALUES (?,?,?,?,?,?,?,?)",
        (
            event.seq,
            event.time,
            event.kind,
            event.session_id,
            event.generation,
            event.cell_id,
            event.execution_id,
            json.dumps(event.data, separators=(",", ":")),
        ),
    )


@dataclass(slots=True, eq=False)
class _Batch:
    statements: list[Statement]
    done: asyncio.Future[None]
    then: Callable[[], None] | None
    undo: Callable[[], None] | None
    lasting: bool
    refusals: int
    """How many refusals whoever asked for it knew of."""


class Journal:
    """Writes in order, groups what waits into one commit, and reads in the caller's thread."""

    def __init__(self, path: Path) -> None:
        # What cells printed is nobody else's business; SQLite gives its other files the same mode.
        path.touch(mode=0o600)
        self._path = path
        self._reader = _connect(path)
        _let_it_shrink(self._reader)
        self._queue: SimpleQueue[_Batch | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._context = _context_of_loop()
        self._refusals = 0
        self._undoable: dict[_Batch, None] = {}
        row = self._reader.execute("SELECT max(seq) FROM events").fetchone()
        self._last_seq: int = row[0] or 0
        self._thread = threading.Thread(target=self._write_all, name="cellwright-journal", daemon=True)
        self._thread.start()

    @property
    def last_seq(self) -> int:
        return self._last_seq

    def next_seq(self) -> int:
        self._last_seq += 1
        return self._last_seq

    def write(
        self,
        statements: Iterable[Statement],
        *,
        then: Callable[[], None] | None = None,
        undo: Callable[[], None] | None = None,
        lasting: bool = False,
    ) -> asyncio.Future[None]:
        """Queue one transaction; the future is done, and ``then`` called in the loop, once it is committed.

        A ``lasting`` one is on the disk then and outlives a power cut. Any other outlives the end of every process,
        and is on the disk a second later.

        Where it cannot be committed the future raises ``SaveFailed``. A transaction with ``undo`` is refused then: it
        is never written, and ``undo`` is called in the loop to take back what it already is in memory; so is each that
        was asked for after it and before that, which may build upon it. One without ``undo`` tells what cannot be
        taken back: it is tried again, in order, until it succeeds. The future is the caller's own: one who is cancelled
        cancels it, and neither the transaction nor what others wait for.
        """
        batch = _Batch(list(statements), self._loop.create_future(), then, undo, lasting, self._refusals)
        if undo is not None:
            self._undoable[batch] = None
        self._queue.put(batch)
        answer = asyncio.shield(batch.done)
        # A caller may not care; then nobody must be warned that the future was never looked at.
        for future in (batch.done, answer):
            future.add_done_callback(_look_at)
        return answer

    async def flush(self) -> None:
        """Return when everything written so far is committed.

        Raises:
            SaveFailed: something of it could not be, and will be tried again.
        """
        await self.write([])

    async def catch_up(self) -> None:
        """Return when everything written so far can be read, or could not be written: a full disk can be read."""
        await asyncio.wait([self.write([])])

    def read(self, query: str, parameters: tuple[Any, ...] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        return self._reader.execute(query, parameters).fetchall()

    @property
    def used_bytes(self) -> int:
        """How large it is, without what its file has free."""
        return _used_bytes(self._reader)

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._reader.close()

    def _write_all(self) -> None:
        writer = _Writer(self._path)
        kept: list[_Batch] = []
        refusals, why, last = 0, sqlite3.Error(), False
        while not last:
            batches, last = self._take(timeout_s=_RETRY_S if kept else writer.tidy_in_s)
            if not batches and not kept:
                writer.tidy()
                continue
            refused = [batch for batch in batches if batch.undo is not None and batch.refusals < refusals]
            batches = kept + [batch for batch in batches if batch not in refused]
            error = writer.commit(batches)
            if error is not None and any(batch.undo is not None for batch in batches):
                refusals, why = refusals + 1, error
                refused += [batch for batch in batches if batch.undo is not None]
                batches = [batch for batch in batches if batch.undo is None]
                # Without them there may be room for what cannot be taken back.
                error = writer.commit(batches)
            kept = [] if error is None else batches
            self._in_loop(self._refuse, refused, why, refusals)
            self._in_loop(self._settle, batches, error)
        writer.close()

    def _in_loop(self, act: Callable[[Unpack[_Given]], None], *given: *_Given) -> None:
        self._loop.call_soon_threadsafe(act, *given, context=self._context)

    def _refuse(self, batches: list[_Batch], error: sqlite3.Error, refusals: int) -> None:
        if refusals > self._refusals:
            self._refusals = refusals
            # All of them, the newest first: each is as memory was when it was asked for.
            while self._undoable:
                batch, _ = self._undoable.popitem()
                if batch.undo is not None:
                    batch.undo()
        message = f"The journal {self._path} could not be written: {error}. Nothing was changed"
        _fail(batches, message, "Free space on that disk, then repeat the call")

    def _settle(self, batches: list[_Batch], error: sqlite3.Error | None) -> None:
        if error is not None:
            message = f"The journal {self._path} could not be written: {error}. It is tried again"
            _fail(batches, message, "Free space on that disk, then look at what was done before repeating it")
            return
        for batch in batches:
            self._undoable.pop(batch, None)
            if batch.then is not None:
                batch.then()
            if not batch.done.done():
                batch.done.set_result(None)

    def _take(self, *, timeout_s: float | None) -> tuple[list[_Batch], bool]:
        """Return what waits, at least one batch unless ``timeout_s`` ends first, and whether it was the last."""
        batches: list[_Batch] = []
        try:
            item = self._queue.get(timeout=timeout_s)
        except Empty:
            return batches, False
        while item is not None:
            batches.append(item)
            if self._queue.empty() or len(batches) >= _MAX_BATCH:
                return batches, False
            item = self._queue.get()
        return batches, True


def _context_of_loop() -> Context:
    """What the writer has done in the loop happens in no task: there anyio knows which loop it is only if told so,
    where sniffio is installed."""
    context = copy_context()
    if _library is not None:
        context.run(_library.set, "asyncio")
    return context


class _Writer:
    """The one connection that writes: commits what it is given, and brings to the disk and gives back what is due."""

    def __init__(self, path: Path) -> None:
        self._connection = _connect(path)
        self._unsynced_since: float | None = None
        self._is_tidy = False

    @property
    def tidy_in_s(self) -> float | None:
        """How long to wait for more before ``tidy``; None for ever."""
        if self._unsynced_since is not None:
            return _SYNC_S
        return None if self._is_tidy else _GIVE_BACK_S

    def commit(self, batches: list[_Batch]) -> sqlite3.Error | None:
        """Write all of it in one transaction."""
        late = self._unsynced_since is not None and time.monotonic() - self._unsynced_since > _SYNC_S
        statements = [statement for batch in batches for statement in batch.statements]
        lasting = any(batch.lasting for batch in batches)
        return self._commit(statements, synced=bool(statements) and (late or lasting))

    def tidy(self) -> None:
        """Bring to the disk what is not there yet, then give a little back of what deleted rows have left."""
        if self._unsynced_since is not None:
            # Any write brings along what was committed before it.
            self._commit([(f"PRAGMA user_version={_SCHEMA_VERSION}", ())], synced=True)
            self._is_tidy = False
            return
        try:
            if self._free_pages() > _SPARE_PAGES:
                self._connection.execute("PRAGMA synchronous=NORMAL")
                # As a script, which is carried out to its end: as a statement it would give back one page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_GIVEN_BACK_PAGES})")
            self._is_tidy = self._free_pages() <= _SPARE_PAGES
            if self._is_tidy:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:  # there is no room to make room: it is tried again after the next change
            self._is_tidy = True

    def _free_pages(self) -> int:
        """How many pages could be given back; none in a file that cannot shrink."""
        if self._connection.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
            return 0
        return int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])

    def close(self) -> None:
        self._connection.close()

    def _commit(self, statements: list[Statement], *, synced: bool) -> sqlite3.Error | None:
        connection = self._connection
        try:
            connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            for sql, parameters in statements:
                connection.execute(sql, parameters)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return error
        if synced:
            self._unsynced_since = None
        elif statements:
            self._unsynced_since = self._unsynced_since or time.monotonic()
        self._is_tidy = self._is_tidy and not statements
        return None


def _look_at(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


def _fail(batches: list[_Batch], message: str, hint: str) -> None:
    for batch in batches:
        if not batch.done.done():
            batch.done.set_exception(SaveFailed(message, hint=hint))


def _connect(path: Path) -> sqlite3.Connection:
    # One connection writes, in the writer's thread; the other only reads, in the loop's. Neither is shared.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:  # how a file gives back what is free is settled before its first table
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA journal_size_limit={_MOST_LOG_BYTES}")
    if version == 0:
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={_SCHEMA_VERSION}; COMMIT;")
    elif version != _SCHEMA_VERSION:
        connection.close()
        raise SaveFailed(
            f"{path} was written by another version of Cellwright (schema {version}, this one has {_SCHEMA_VERSION})",
            hint="Use that version, or point CELLWRIGHT_STORAGE at a new directory",
        )
    connection.executescript(_ADDED)
    return connection


def _let_it_shrink(connection: sqlite3.Connection) -> None:
    """Rewrite a file of an older version, once, so that it can give back what is free.

    It takes as long as what it holds is large, and room for a second of it. A file for which that is too much stays as
    it is, and whole: what is free in it is used again, and it is looked at again at the next start.
    """
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL:
        return
    if _used_bytes(connection) > _MOST_REWRITTEN_BYTES:
        return
    with suppress(sqlite3.Error):
        connection.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        connection.execute("VACUUM")


def _used_bytes(connection: sqlite3.Connection) -> int:
    """How large a file is without what is free in it."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


# What happens in sessions, as one numbered stream, and how many listeners follow it without holding anyone
# up.


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``data`` depends on the kind; see ``event_kinds``."""

    seq: int
    time: float
    kind: EventKind
    session_id: str
    generation: int
    cell_id: str | None = None
    execution_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False
    """Whether it is told only to whoever follows this very session, and not kept."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Told to a subscriber that was too slow: this many events passed it by, the last with this number."""

    count: int
    first_seq: int
    last_seq: int


class Subscription:
    """One listener's bounded place in the stream; iterate it."""

    def __init__(self, session_id: str | None, size: int) -> None:
        self._session_id = session_id
        self._size = size
        self._events: deque[Event | Missed] = deque()
        self._arrived = anyio.Event()
        self._closed = False

    def offer(self, event: Event) -> None:
        if event.session_id != self._session_id and (self._session_id is not None or event.hidden):
            return
        last = self._events[-1] if self._events else None
        if isinstance(last, Missed):
            self._events[-1] = Missed(last.count + 1, last.first_seq, event.seq)
        elif len(self._events) >= self._size:
            self._events.append(Missed(1, event.seq, event.seq))
        else:
            self._events.append(event)
        self._arrived.set()

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[Event | Missed]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._arrived = anyio.Event()
            await self._arrived.wait()


class EventStream:
    """Hands every event to every subscription; never waits for one."""

    def __init__(self, *, buffer: int) -> None:
        self._buffer = buffer
        self._subscriptions: set[Subscription] = set()

    @contextmanager
    def subscribe(self, session_id: str | None = None) -> Iterator[Subscription]:
        subscription = Subscription(session_id, self._buffer)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.offer(event)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
