"""Notebooks that lie on another server: the engine's port to them, loaded with the first session that has one.

What keeps a session and its notebook there in step implements ``DocumentMirror`` (see ``jupyter.mirrors``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

import anyio
import anyio.abc

from cellwright.engine.journal import Subscription
from cellwright.engine.placement import HostName
from cellwright.engine.records import Recorder
from cellwright.engine.session import Session
from cellwright.errors import HostCannot
from cellwright.notebook import Document

__all__ = ["DocumentMirror", "MirrorFactory", "RemoteDocuments", "Subscribe"]

Subscribe: TypeAlias = Callable[[str], AbstractContextManager[Subscription]]


class DocumentMirror(Protocol):
    """Keeps notebooks on another server in step with their sessions. ``there`` is a server's name and a path on it."""

    async def create(self, host: HostName, problem: str, document: Document) -> tuple[str, str] | None:
        """Make a notebook on a server; None where the server keeps no files."""
        ...

    async def fetch(self, host: HostName, path: str) -> tuple[tuple[str, str], Document]:
        """A notebook that lies on a server, and where."""
        ...

    def copy_of(self, there: tuple[str, str]) -> Path:
        """The file here that is a copy of one there."""
        ...

    def begin(self, session: Session) -> None:
        """Keep a session's notebook in step with the one on its server."""
        ...

    async def end(self, session: Session, *, remove: bool) -> None:
        """Let a notebook go once it has all that was done, or remove it there."""
        ...

    async def flush(self) -> None:
        """Let all servers have what was done, as far as they answer."""
        ...


MirrorFactory: TypeAlias = Callable[[Recorder, Subscribe, anyio.abc.TaskGroup], DocumentMirror]


class RemoteDocuments:
    """The notebooks of all sessions that lie on other servers."""

    def __init__(self, factory: MirrorFactory | None, recorder: Recorder, subscribe: Subscribe) -> None:
        self._factory = factory
        self._recorder = recorder
        self._subscribe = subscribe
        self._made: DocumentMirror | None = None

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep notebooks in step while this runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    @property
    def _mirror(self) -> DocumentMirror:
        if self._made is None:
            if self._factory is None:
                raise HostCannot(
                    "Nothing here keeps notebooks on other servers",
                    hint="`cellwright plugins` shows why: hosts:jupyter does it",
                )
            self._made = self._factory(self._recorder, self._subscribe, self._tasks)
        return self._made

    async def create(self, host: HostName, problem: str, document: Document) -> tuple[str, str] | None:
        """Make a notebook where the host of a session keeps them; None where it lies here.

        Raises:
            CellwrightError: the server cannot be reached, or does not let us.
        """
        return await self._mirror.create(host, problem, document) if host.kind == "jupyter" else None

    async def fetch(self, host: HostName, path: str) -> tuple[tuple[str, str], Document]:
        """A notebook that lies on a server, and where.

        Raises:
            NotebookError: there is none.
            CellwrightError: the server cannot be reached, or does not let us.
        """
        return await self._mirror.fetch(host, path)

    def copy_of(self, there: tuple[str, str]) -> Path:
        """The file here that is a copy of one there."""
        return self._mirror.copy_of(there)

    def begin(self, session: Session) -> None:
        """Keep a session's notebook in step with the one on its server; does nothing where it has none."""
        if session.record.there is not None:
            self._mirror.begin(session)

    async def end(self, session: Session, *, remove: bool) -> None:
        """Let a notebook go once it has all that was done, or remove it there.

        Raises:
            HostUnreachable: the server cannot be given what was done; the session stays.
        """
        if session.record.there is not None:
            await self._mirror.end(session, remove=remove)

    async def flush(self) -> None:
        """Let all servers have what was done, as far as they answer."""
        if self._made is not None:
            await self._made.flush()
