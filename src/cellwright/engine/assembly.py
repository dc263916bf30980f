"""Puts an engine together: the storage directory and its lock, the journal, the host. The one place that does."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from cellwright.audit import AuditLog
from cellwright.charts import Renderer
from cellwright.engine.engine import Engine
from cellwright.engine.journal import Journal
from cellwright.errors import StorageInUse
from cellwright.formats.renderer import PageMaker
from cellwright.settings import Settings
from cellwright.settings.paths import make_storage

__all__ = ["open_engine"]

_CLOSE_DEADLINE_S = 30.0


@asynccontextmanager
async def open_engine(settings: Settings | None = None, *, ephemeral: bool = False) -> AsyncIterator[Engine]:
    """Open the engine of a storage directory.

    Kernels live on in their host when the engine is closed, and the next engine finds them. An ``ephemeral`` engine
    keeps its state in a directory of its own and ends everything when it is closed; notebooks stay in either case.

    Raises:
        StorageInUse: another process has this storage directory open.
    """
    settings = settings if settings is not None else Settings()
    with _storage(settings, ephemeral=ephemeral) as storage, _owned(storage):
        audit = AuditLog(
            storage if settings.persist_sessions else _kept_whatever(settings.storage),
            max_bytes=settings.audit_max_bytes,
        )
        settings = settings.model_copy(update={"storage": storage})
        journal = Journal(storage / "journal.db")
        try:
            async with (
                Renderer() as renderer,
                PageMaker() as pages,
                _running(
                    Engine(settings, journal, audit, renderer, pages, lasting=not ephemeral),
                    ephemeral=ephemeral,
                ) as engine,
            ):
                yield engine
        finally:
            with anyio.CancelScope(shield=True):
                await journal.close()
            audit.close()


@asynccontextmanager
async def _running(engine: Engine, *, ephemeral: bool) -> AsyncIterator[Engine]:
    """Keep the engine at work, and let through what the caller's own block raises as it was raised."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            await tasks.start(engine.run)
            yield engine
        except Exception as error:  # noqa: BLE001  # raised again below, outside of the group that would wrap it
            failure = error
        finally:
            with anyio.move_on_after(_CLOSE_DEADLINE_S, shield=True):
                await engine.close(stop_host=ephemeral)
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


@contextmanager
def _storage(settings: Settings, *, ephemeral: bool) -> Iterator[Path]:
    if not ephemeral:
        make_storage(str(settings.storage))
        yield settings.storage
        return
    directory = Path(tempfile.mkdtemp(prefix="cellwright-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _kept_whatever(storage: Path) -> Path:
    """The directory of what is kept also where sessions are not to be: who did what."""
    make_storage(str(storage))
    return storage


@contextmanager
def _owned(storage: Path) -> Iterator[None]:
    """Hold the storage directory for this process; the kernel lets go of it however the process ends."""
    fd = os.open(storage / "engine.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StorageInUse(
                f"Another engine (process {owner}) has {storage} open",
                hint="Close it, or give this one another directory with CELLWRIGHT_STORAGE",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
