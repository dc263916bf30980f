"""The engine's memory on disk: one SQLite file, one writer thread, many changes to a commit.

Everything here survives ``kill -9`` of any process once its commit is awaited. It stores and finds rows; what they
mean stands in ``records`` and ``recovery``.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from cellwright.engine.events import Event
from cellwright.errors import SaveFailed

_library: ContextVar[str | None] | None
try:
    from sniffio import current_async_library_cvar as _library
except ModuleNotFoundError:  # not ours: whatever else is installed may bring it
    _library = None

__all__ = ["Journal", "Statement", "insert_event"]

Statement: TypeAlias = tuple[str, tuple[Any, ...]]

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
_MAX_BATCH = 2_000
_RETRY_S = 1.0


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


@dataclass(slots=True)
class _Batch:
    statements: list[Statement]
    done: asyncio.Future[None]
    then: Callable[[], None] | None = field(default=None)


class Journal:
    """Writes in order, groups what waits into one commit, and reads in the caller's thread."""

    def __init__(self, path: Path) -> None:
        # What cells printed is nobody else's business; SQLite gives its other files the same mode.
        path.touch(mode=0o600)
        self._path = path
        self._reader = _connect(path)
        self._queue: SimpleQueue[_Batch | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._context = _context_of_loop()
        row = self._reader.execute("SELECT max(seq) FROM events").fetchone()
        self._last_seq: int = row[0] or 0
        self._last: asyncio.Future[None] = self._loop.create_future()
        self._last.set_result(None)
        self._thread = threading.Thread(target=self._write_all, name="cellwright-journal", daemon=True)
        self._thread.start()

    @property
    def last_seq(self) -> int:
        return self._last_seq

    def next_seq(self) -> int:
        self._last_seq += 1
        return self._last_seq

    def write(
        self, statements: Iterable[Statement], *, then: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Queue one transaction; the future is done, and ``then`` called in the loop, once it is committed.

        A failed commit raises ``SaveFailed`` from the future and is tried again, in order, until it succeeds: what
        the engine already did cannot be undone, only told late. The future is the caller's own: one who is cancelled
        cancels it, and neither the transaction nor what others wait for.
        """
        batch = _Batch(list(statements), self._loop.create_future(), then)
        self._last = batch.done
        self._queue.put(batch)
        answer = asyncio.shield(batch.done)
        # A caller may not care; then nobody must be warned that the future was never looked at.
        for future in (batch.done, answer):
            future.add_done_callback(_look_at)
        return answer

    async def flush(self) -> None:
        """Return when everything written so far is committed.

        Raises:
            SaveFailed: the last of it could not be, and will be tried again.
        """
        if self._last.done() and self._last.exception() is not None:
            # It may have been written since; what comes after it is written only then.
            self.write([])
        await asyncio.shield(self._last)

    async def catch_up(self) -> None:
        """Return when everything written so far can be read, or could not be written: a full disk can be read."""
        await asyncio.wait([self._last])

    def read(self, query: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._reader.execute(query, parameters).fetchall()

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._reader.close()

    def _write_all(self) -> None:
        connection = _connect(self._path)
        failed: list[_Batch] = []
        last = False
        while not last:
            batches, last = self._take(timeout_s=_RETRY_S if failed else None)
            batches = failed + batches
            if not batches:
                continue
            error = _commit(connection, [statement for batch in batches for statement in batch.statements])
            failed = [] if error is None else batches
            self._loop.call_soon_threadsafe(_settle, batches, error, self._path, context=self._context)
        connection.close()

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


def _commit(connection: sqlite3.Connection, statements: list[Statement]) -> sqlite3.Error | None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        for sql, parameters in statements:
            connection.execute(sql, parameters)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return error
    return None


def _look_at(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


def _settle(batches: list[_Batch], error: sqlite3.Error | None, path: Path) -> None:
    for batch in batches:
        if error is None and batch.then is not None:
            batch.then()
        if batch.done.done():
            continue
        if error is None:
            batch.done.set_result(None)
        else:
            failure = SaveFailed(
                f"The journal {path} could not be written: {error}",
                hint="Free space on that disk, then repeat the call",
            )
            batch.done.set_exception(failure)


def _connect(path: Path) -> sqlite3.Connection:
    # One connection writes, in the writer's thread; the other only reads, in the loop's. Neither is shared.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={_SCHEMA_VERSION}; COMMIT;")
    elif version != _SCHEMA_VERSION:
        connection.close()
        raise SaveFailed(
            f"{path} was written by another version of Cellwright (schema {version}, this one has {_SCHEMA_VERSION})",
            hint="Use that version, or point CELLWRIGHT_STORAGE at a new directory",
        )
    return connection
