"""The gateways through which Labs reach their sessions: each on a loopback port of its own, with a token of its own.

A gateway stays as long as whoever asked for it, or as long as the Lab that was started with it. After this daemon's
end, however it came, the next one opens it at the same address, and Lab calls again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.abc

from cellwright.daemon._listeners import CannotListen, Listener
from cellwright.engine import Engine
from cellwright.errors import CellwrightError
from cellwright.lab.program import LabRecord, process_of, read_lab, read_labs

__all__ = ["LabRequest", "Labs"]

_log = logging.getLogger(__name__)
_LONGEST_MESSAGE = 64 * 1024 * 1024
_SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class LabRequest:
    """What somebody who starts a Lab asks for; port 0 is any."""

    session: str
    port: int
    token: str = field(repr=False)

    @classmethod
    def from_handshake(cls, handshake: dict[str, Any]) -> Self:
        """Read a request from what a client sent.

        Raises:
            CannotListen: something in it is missing or of the wrong kind.
        """
        session, port, token = (handshake.get(name) for name in ("session", "port", "token"))
        if not isinstance(session, str) or not isinstance(port, int):
            raise CannotListen("A gateway needs a session and a port", hint="Use `cellwright session lab`")
        if not isinstance(token, str) or len(token) < _SHORTEST_TOKEN:
            raise CannotListen("A gateway needs a token", hint="Use `cellwright session lab`")
        return cls(session, port, token)


@dataclass(slots=True)
class _Open:
    """A gateway at work."""

    request: LabRequest
    listener: Listener
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    closed: anyio.Event = field(default_factory=anyio.Event)


class Labs:
    """All gateways of one daemon."""

    def __init__(
        self,
        engine: Engine,
        tasks: anyio.abc.TaskGroup,
        keep_open: Callable[[Listener], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._tasks = tasks
        self._keep_open = keep_open
        self._open: dict[str, _Open] = {}
        self._opening = anyio.Lock()

    async def reopen(self) -> None:
        """Open the gateways of all Labs that outlived an earlier daemon."""
        for record in await anyio.to_thread.run_sync(read_labs, self._storage):
            try:
                await self.open(LabRequest(record.session, record.gateway_port, record.gateway_token))
            except CellwrightError as error:
                _log.warning("lab_not_reopened session=%s %s", record.session, error)
            else:
                self._tasks.start_soon(self._close_with, record)

    async def open(self, request: LabRequest) -> str:
        """A gateway's address; the one that is open, where it is the same one, and else in its place.

        Raises:
            CannotListen: the port is taken.
            UnknownSession: there is no such session.
        """
        from cellwright.daemon._guard import Guard  # only for who serves
        from cellwright.lab.gateway import Gateway  # as above

        session = self._engine.session(request.session)
        async with self._opening:
            found = self._open.get(request.session)
            if found is not None and found.request.token == request.token:
                return found.listener.url
            if found is not None:
                await self._close(found)
            await session.save()  # what Lab reads first
            gateway = Gateway(self._engine, request.session).app()
            app = Guard(gateway, token=request.token, audit=self._engine.audit)
            listener = Listener.on_loopback(request.port, app, longest_message=_LONGEST_MESSAGE)
            self._open[request.session] = opened = _Open(request, listener)
            self._tasks.start_soon(self._keep, opened)
        return listener.url

    async def leave(self, request: LabRequest) -> None:
        """Whoever asked for a gateway is gone: it goes with the Lab it was for, or at once where there is none."""
        record = await anyio.to_thread.run_sync(read_lab, self._storage, request.session)
        if record is not None and record.gateway_token == request.token:
            await self._close_with(record)
        elif (found := self._open.get(request.session)) is not None and found.request == request:
            await self._close(found)

    async def _close_with(self, record: LabRecord) -> None:
        await _end_of(record)
        found = self._open.get(record.session)
        if found is not None and found.request.token == record.gateway_token:
            await self._close(found)

    async def _keep(self, opened: _Open) -> None:
        with opened.scope:
            await self._keep_open(opened.listener)
        if self._open.get(opened.request.session) is opened:
            del self._open[opened.request.session]
        opened.closed.set()

    async def _close(self, opened: _Open) -> None:
        opened.scope.cancel()
        await opened.closed.wait()

    @property
    def _storage(self) -> Path:
        return self._engine.settings.storage


async def _end_of(record: LabRecord) -> None:
    """Wait for the end of a Lab's process, which is nobody's child here."""
    try:
        fd = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        if process_of(record) is not None:
            await anyio.wait_readable(fd)
    finally:
        os.close(fd)
