"""The sessions whose notebook lies on a Jupyter server: how it is made and found there, and who keeps it in step.

What happens between a session and its notebook there is ``mirroring``'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.abc
from msgspec.structs import replace

from cellwright.engine.elsewhere import server_and_kernel
from cellwright.engine.events import Subscription
from cellwright.engine.jupyterservers import jupyter_server
from cellwright.engine.mirroring import Line, Mirror
from cellwright.engine.placing import HostName
from cellwright.engine.records import Batch, Recorder, put_session
from cellwright.engine.sessions import Session
from cellwright.errors import CellwrightError, HostUnreachable, NotebookError
from cellwright.kernels.jupyter.addresses import is_loopback
from cellwright.kernels.jupyter.hubs import reach
from cellwright.livedocs.server import Contents, ServerAddress, client_for, identity, required
from cellwright.notebook import Document, slug
from cellwright.settings import Settings

__all__ = ["Mirrors"]

_FLUSH_S = 3.0


class Mirrors:
    """Every session with a notebook elsewhere."""

    def __init__(
        self,
        settings: Settings,
        recorder: Recorder,
        subscribe: Callable[[str], AbstractContextManager[Subscription]],
    ) -> None:
        self._settings = settings
        self._recorder = recorder
        self._subscribe = subscribe
        self._mirrors: dict[str, tuple[Mirror, anyio.CancelScope]] = {}

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep notebooks in step while this runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    def begin(self, session: Session) -> None:
        """Keep a session's notebook in step with the one on its server; does nothing where it has none."""
        if session.record.there is None or session.id in self._mirrors:
            return
        mirror = Mirror(
            session,
            partial(self._line, session.record.there[0] or None),
            user=identity(self._settings.agent_name),
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
        """Make a notebook on a server; None where the host has no place for one.

        Raises:
            CellwrightError: the server cannot be reached, or does not let us.
        """
        if host.kind != "jupyter":
            return None
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
        return self._settings.storage / "mirrors" / (there[0] or "jupyter") / there[1]

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
        session.record = replace(session.record, there=(session.record.there[0], path))
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
