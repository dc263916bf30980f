"""Sessions that nobody sees: each serves something else, goes with it, and is removed by the next engine otherwise.

How they begin and end; what they are for stands in ``rehearsal`` and ``oneshot``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from cellwright.engine._context import Services
from cellwright.engine.approvals import Matter
from cellwright.engine.records import SessionRecord
from cellwright.engine.session import Session
from cellwright.engine.workspace import checked_narrowing, network_answer, network_words
from cellwright.errors import CellwrightError, KernelStartError, SandboxError
from cellwright.notebook import Document
from cellwright.notebook.languages import canonical_language
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.policy import Narrowing
from cellwright.sandbox.workspace import prepare_storage

__all__ = ["HiddenSessions", "OneShots", "Rehearsals", "script_cell"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HiddenSessions:
    """Makes and removes them. Belongs to the engine, whose sessions these are."""

    begin: Callable[[SessionRecord, Document], Awaitable[Session]]
    delete: Callable[[str], Awaitable[None]]
    new_id: Callable[[], str]
    in_background: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    _going: dict[str, anyio.Event] = field(default_factory=dict)
    """Those that are released; set once they are removed."""

    @asynccontextmanager
    async def open(self, record: SessionRecord, document: Document) -> AsyncIterator[Session]:
        """A session that is there as long as the block."""
        with anyio.CancelScope(shield=True):  # one that is half begun would be nobody's to remove
            session = await self.begin(record, document)
        try:
            yield session
        finally:
            if session.id in self._going:
                self.in_background(partial(self._remove, session.id))
            else:
                with anyio.CancelScope(shield=True):
                    await self.delete(session.id)

    def release(self, session: Session) -> None:
        """Have a session removed a moment after its block: whoever has what it came for need not wait for its end."""
        self._going[session.id] = anyio.Event()

    async def settled(self) -> None:
        """Wait until all that were released are removed."""
        for removed in list(self._going.values()):
            await removed.wait()

    async def _remove(self, session_id: str) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self.delete(session_id)
        finally:
            self._going.pop(session_id).set()

    async def clear(self, sessions: Iterable[Session]) -> None:
        """Remove what an engine left that did not live to do it."""
        for session in sessions:
            try:
                await self.delete(session.id)
            except CellwrightError as error:
                _log.warning("unseen_session_not_removed session=%s %s", session.id, error)


# One-shot sessions: a kernel and a directory of its own for one run, and no notebook that anybody sees.

_SCRIPT_CELL = (
    "__import__('cellwright_kernel.scripts', fromlist=['run']).run(get_ipython(), {!r}, {!r}, {!r})\n"
)


def script_cell(runtime: str, source: str, name: str, argv: tuple[str, ...] = ()) -> str | None:
    """What a kernel is given to run a script; the execution's ``exit_code`` is then the script's.

    None where kernels of this runtime know no scripts.
    """
    match runtime:
        case "python":
            return _SCRIPT_CELL.format(source, name, argv)
        case "deno":
            return f"__cellwright_script__({json.dumps([source, name, argv])})"
        case _:
            return None


class OneShots:
    """Makes and removes them. Belongs to the engine, whose sessions these are."""

    def __init__(self, services: Services, hidden: HiddenSessions) -> None:
        self._services = services
        self._hidden = hidden
        self._turns = _Turns()
        # Each has a kernel of its own, beside those that max_sessions allows. Whoever comes later waits.
        self._room = anyio.Semaphore(services.options.max_runs)

    @asynccontextmanager
    async def open(
        self,
        language: str,
        *,
        directory: Path | None = None,
        limits: Narrowing | None = None,
        alone_in: str | None = None,
    ) -> AsyncIterator[Session]:
        """A session with an empty directory and no kernel yet.

        What is put into its directory before it first runs something is there then. Its interpreter is the one of
        sessions in ``directory``. Of those that name the same path ``alone_in`` which they are, or one above or below
        it, one is there at a time.

        Raises:
            LimitReached: ``limits`` asks for more than the settings allow.
        """
        options = self._services.options
        limits, language = checked_narrowing(options.host.policy, limits), canonical_language(language)
        matter = Matter("network", network_words(self._services, "a script"), once=True)
        network_allowed = await network_answer(self._services, matter, limits)
        # In this order: who waits for a turn takes no room meanwhile.
        async with self._turns.of(alone_in), self._room:
            record = self._new_record(language, directory or options.root, limits)
            record = msgspec.structs.replace(record, network_allowed=network_allowed)
            async with self._hidden.open(record, Document.new(language=language)) as session:
                yield session

    def release(self, session: Session) -> None:
        """Have the caller not wait until the session is removed: its run is over, and its files are elsewhere."""
        self._hidden.release(session)

    async def settled(self) -> None:
        """Wait until all that were released are removed."""
        await self._hidden.settled()

    def _new_record(self, language: str, directory: Path, limits: Narrowing | None) -> SessionRecord:
        storage, session_id = self._services.options.storage, self._hidden.new_id()
        default = self._services.hosts.host_name(None)
        return SessionRecord(
            id=session_id,
            name="run",
            # In its own directory, where nobody comes across it; it is not even written.
            path=str(storage / "sessions" / session_id / "run.ipynb"),
            language=language,
            created_at=time.time(),
            cwd=str(directory),
            mode="private",
            limits=limits or None,
            # Files are here, and a server has none of them.
            host="local" if default.kind == "jupyter" else str(default),
            once=True,
        )


class _Turns:
    """Who works where: one at a time in a directory and all below it."""

    def __init__(self) -> None:
        self._taken: list[tuple[str, ...]] = []
        self._freed = anyio.Condition()

    @asynccontextmanager
    async def of(self, path: str | None) -> AsyncIterator[None]:
        """Wait until nobody works there, and work there."""
        if path is None:
            yield
            return
        names = tuple(name for name in path.split("/") if name not in ("", "."))
        async with self._freed:
            while any(_meet(names, other) for other in self._taken):
                await self._freed.wait()
            self._taken.append(names)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._freed:
                    self._taken.remove(names)
                    self._freed.notify_all()


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


# Rehearsals: sessions that run a copy of another's notebook from the top, in an empty kernel, and then go.

MOST_AT_ONCE = 2

MOST_FILES = 5_000

MOST_BYTES = 1 << 30


class Rehearsals:
    """Makes and removes them. Belongs to the engine, whose sessions these are."""

    def __init__(self, services: Services, hidden: HiddenSessions) -> None:
        self._services = services
        self._hidden = hidden
        # Each has a kernel of its own, beside those that max_sessions allows.
        self._room = anyio.Semaphore(MOST_AT_ONCE)

    @asynccontextmanager
    async def open(
        self, origin: Session, document: Document, leave_out: frozenset[str]
    ) -> AsyncIterator[Session]:
        """A session with a live, empty kernel and this document.

        ``leave_out`` are files that the session's code left; whatever else was written there is given to the new one.

        Raises:
            KernelError: no kernel can be had, or none that leaves the session's files alone.
        """
        async with self._room, self._hidden.open(self._new_record(origin), document) as session:
            await self._start(origin, session, leave_out)
            yield session

    def _new_record(self, origin: Session) -> SessionRecord:
        before, session_id = origin.record, self._hidden.new_id()
        private = before.mode == "private" or self._services.options.host.policy is None
        boxed = before.tier in ("A", "B")
        return SessionRecord(
            id=session_id,
            name=before.name,
            # In its own directory, where nobody comes across it; it is not even written.
            path=str(self._services.options.storage / "sessions" / session_id / "rehearsal.ipynb"),
            language=before.language,
            created_at=time.time(),
            cwd=str(origin.folder),
            mode="private" if private else "overlay",
            project=before.project or (None if private else str(origin.folder)),
            chosen=before.chosen,
            secrets=before.secrets,
            layers=before.layers,
            packages=before.packages,
            limits=before.limits,
            network_allowed=before.network_allowed,
            # Code finds its folder where it always was, as far as there is a box to show it there.
            seen_at=str(origin.cwd) if before.mode == "private" and boxed else None,
            host=before.host,
            rehearses=origin.id,
        )

    async def _start(self, origin: Session, session: Session, leave_out: frozenset[str]) -> None:
        requested = session.mode
        if requested == "private" or origin.mode == "overlay":
            await self._copy(origin, session, leave_out)
        await session.resume()
        if session.mode == requested:
            return
        if session.mode == "direct":
            raise KernelStartError(
                "The notebook cannot be run apart from its own files here",
                hint="Let code be confined (`cellwright doctor` tells what is missing)",
            )
        # There are no views on this machine: the folder's files are copied, and the kernel starts among them.
        await session.suspend()
        await self._copy(origin, session, leave_out)
        await session.resume()

    async def _copy(self, origin: Session, session: Session, leave_out: frozenset[str]) -> None:
        # A layer holds what was put into it beside what code left there; the project below it is seen anyway.
        is_layer = origin.mode == session.mode == "overlay"
        source = Path(origin.place.written if is_layer or origin.mode == "private" else origin.folder)
        but = leave_out if is_layer or origin.mode == "private" else frozenset[str]()
        await anyio.to_thread.run_sync(_copy_files, source, session, but)


def _copy_files(source: Path, session: Session, leave_out: frozenset[str]) -> None:
    prepare_storage(session.place)
    try:
        with Workdir.open(source) as origin, Workdir.open(Path(session.place.written)) as target:
            found = origin.snapshot().entries.values()
            copied = [entry for entry in found if entry.type == "file" and entry.path not in leave_out]
            _refuse_too_much(source, copied)
            for entry in copied:
                target.bring(origin, entry.path)
    except SandboxError as error:
        raise KernelStartError(f"The files could not be copied: {error.message}", hint=error.hint) from error


def _refuse_too_much(source: Path, copied: list[Entry]) -> None:
    total = sum(entry.size for entry in copied)
    if len(copied) > MOST_FILES or total > MOST_BYTES:
        raise KernelStartError(
            f"{source} holds {len(copied):,} files of {total:,} bytes, more than are copied to run a notebook apart",
            hint=f"Put it into a folder with at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes",
        )
