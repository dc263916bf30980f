"""Rehearsals: sessions that run a copy of another's notebook from the top, in an empty kernel, and then go.

A rehearsal sees the files that the notebook's beginning would see, and touches none of them: a view over the folder or
the project, or a folder of its own with copies of what it may find there. Nobody else sees the session itself (see
``hidden_sessions``). What runs in it is
the caller's business (see ``verification``).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from cellwright.engine.context import Services
from cellwright.engine.hidden_sessions import Unseen
from cellwright.engine.records import SessionRecord
from cellwright.engine.session import Session
from cellwright.errors import KernelStartError, SandboxError
from cellwright.notebook import Document
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.workspace import prepare_storage

__all__ = ["Rehearsals"]

MOST_AT_ONCE = 2
MOST_FILES = 5_000
MOST_BYTES = 1 << 30


class Rehearsals:
    """Makes and removes them. Belongs to the engine, whose sessions these are."""

    def __init__(self, services: Services, unseen: Unseen) -> None:
        self._services = services
        self._unseen = unseen
        # Each has a kernel of its own, beside those that max_sessions allows.
        self._room = anyio.Semaphore(MOST_AT_ONCE)

    @asynccontextmanager
    async def open(
        self, origin: Session, document: Document, leave_out: frozenset[str]
    ) -> AsyncIterator[Session]:
        """A session with a live, empty kernel and this document.

        ``leave_out`` are files of the session's own folder that its code left there, where that folder is private.

        Raises:
            KernelError: no kernel can be had, or none that leaves the session's files alone.
        """
        async with self._room, self._unseen.open(self._new_record(origin), document) as session:
            await self._start(origin, session, leave_out)
            yield session

    def _new_record(self, origin: Session) -> SessionRecord:
        before, session_id = origin.record, self._unseen.new_id()
        private = before.mode == "private" or self._services.options.policy is None
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
            layers=before.layers,
            packages=before.packages,
            limits=before.limits,
            # Code finds its folder where it always was, as far as there is a box to show it there.
            seen_at=str(origin.cwd) if before.mode == "private" and boxed else None,
            host=before.host,
            rehearses=origin.id,
        )

    async def _start(self, origin: Session, session: Session, leave_out: frozenset[str]) -> None:
        wanted = session.mode
        if wanted == "private":
            await self._copy(origin, session, leave_out)
        await session.resume()
        if session.mode == wanted:
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
        source = Path(origin.place.written if origin.mode == "private" else origin.folder)
        but = leave_out if origin.mode == "private" else frozenset()
        await anyio.to_thread.run_sync(_copy_files, source, session, but)


def _copy_files(source: Path, session: Session, leave_out: frozenset[str]) -> None:
    prepare_storage(session.place)
    try:
        with Workdir.open(source) as origin, Workdir.open(Path(session.place.written)) as target:
            found = origin.snapshot().entries.values()
            wanted = [entry for entry in found if entry.type == "file" and entry.path not in leave_out]
            _refuse_too_much(source, wanted)
            for entry in wanted:
                target.bring(origin, entry.path)
    except SandboxError as error:
        raise KernelStartError(f"The files could not be copied: {error.message}", hint=error.hint) from error


def _refuse_too_much(source: Path, wanted: list[Entry]) -> None:
    total = sum(entry.size for entry in wanted)
    if len(wanted) > MOST_FILES or total > MOST_BYTES:
        raise KernelStartError(
            f"{source} holds {len(wanted):,} files of {total:,} bytes, more than are copied to run a notebook apart",
            hint=f"Put it into a folder with at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes",
        )
