"""Connections by name, as sessions and agents ask for them: approved, answered by brokers, written to the audit log.

Code asks through its proxy socket, which leads to a socket of the engine's that no sandbox shows; the host adds which
kernel it was. What a broker does is ``cellwright.connections``'; what the kernel is given is ``cellwright_kernel.connect``.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from cellwright.audit import AuditLog, acting, actor
from cellwright.connections.broker import Answer, Broker
from cellwright.connections.known import Connection, find
from cellwright.engine._context import SessionContext
from cellwright.engine.approvals import Approvals, Matter
from cellwright.errors import CellwrightError, ConnectionFailed, NotApproved, UnknownConnection
from cellwright.sandbox.proxy import EXECUTION_HEADER, KERNEL_HEADER
from cellwright.sandbox.relay import Wire, accept, listen_at

__all__ = ["Connections"]

_log = logging.getLogger(__name__)

_MOST_BROKERS = 32
_IDLE_S = 300.0
_LOOK_S = 30.0
_HEAD_S = 10.0
_MOST_HEAD = 32 * 1024
_SPARE_BYTES = 1024**2
_RETRY_S = 0.1
_MOST_AUDITED = 200
_REQUEST = re.compile(rb"POST /([a-z_]{1,40}) HTTP/1\.1")
_HOST = re.compile(r"([a-z][a-z0-9_]{0,39})\.connections\.cellwright")


class Connections:
    """All connections of one engine, and the brokers that are open."""

    def __init__(
        self,
        known: Mapping[str, Connection],
        approvals: Approvals,
        audit: AuditLog,
        context_of: Callable[[str], SessionContext | None],
    ) -> None:
        self.known = known
        self._approvals = approvals
        self._audit = audit
        self._context_of = context_of
        self._brokers: dict[tuple[str, str], Broker] = {}
        self._audited: dict[str, int] = {}

    async def run(self, path: Path, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Answer kernels on a socket (0600) and end idle brokers, until cancelled."""
        if not self.known:
            task_status.started()
            return
        listener = listen_at(path, owner=None)
        try:
            async with anyio.create_task_group() as tasks:
                task_status.started()
                tasks.start_soon(self._end_idle)
                await self._accept(listener, tasks)
        finally:
            listener.close()
            path.unlink(missing_ok=True)  # noqa: ASYNC240  # one name in a directory of ours
            with anyio.CancelScope(shield=True):
                await self.close()

    async def close(self) -> None:
        """End every broker."""
        for key in list(self._brokers):
            await self._brokers.pop(key).close()

    async def end_session(self, session_id: str) -> None:
        """End the brokers of a session that is over."""
        self._audited.pop(session_id, None)
        for key in [key for key in self._brokers if key[0] == session_id]:
            await self._brokers.pop(key).close()

    # Requests ----------------------------------------------------------------------------------------------------

    async def ask(self, name: str, request: dict[str, Any], session: SessionContext | None = None) -> Answer:
        """Have a request answered, on behalf of a session's code or of whoever acts.

        Raises:
            UnknownConnection: the operator named none like this.
            NotApproved: it may not be used.
            ConnectionFailed: it did not answer.
        """
        connection = find(self.known, name)
        started = time.monotonic()
        try:
            await self._approvals.require(_matter(connection, session))
            answer = await (await self._broker(connection, session)).ask(request)
        except CellwrightError as error:
            self._note(connection, request, session, started, refused=error.message)
            raise
        failed = str(msgspec.json.decode(answer.payload)["error"]) if answer.kind == "error" else None
        self._note(connection, request, session, started, answer=answer, failed=failed)
        return answer

    async def cancel(self, name: str, session: SessionContext | None) -> None:
        """End what a session's broker does now; its next request gets another."""
        broker = self._brokers.get((_owner(session), name))
        if broker is not None and broker.is_busy:
            await broker.close()

    async def _broker(self, connection: Connection, session: SessionContext | None) -> Broker:
        key = (_owner(session), connection.name)
        if key not in self._brokers:
            await self._make_room()
            self._brokers[key] = Broker(connection)
        return self._brokers[key]

    async def _make_room(self) -> None:
        idle = [key for key, broker in self._brokers.items() if not broker.is_busy]
        if len(self._brokers) < _MOST_BROKERS:
            return
        if not idle:
            raise ConnectionFailed(
                f"All of {_MOST_BROKERS} brokers are at work", hint="Try again when a query has ended"
            )
        oldest = min(idle, key=lambda key: self._brokers[key].last_used)
        await self._brokers.pop(oldest).close()

    async def _end_idle(self) -> None:
        while True:
            await anyio.sleep(_LOOK_S)
            now = anyio.current_time()
            for key, broker in list(self._brokers.items()):
                if not broker.is_busy and now - broker.last_used > _IDLE_S:
                    del self._brokers[key]
                    await broker.close()

    def _note(
        self,
        connection: Connection,
        request: Mapping[str, Any],
        session: SessionContext | None,
        started: float,
        *,
        answer: Answer | None = None,
        refused: str | None = None,
        failed: str | None = None,
    ) -> None:
        """A line for the request, never with what it says; code may ask as often as it likes, so a session has so many."""
        count = self._audited[_owner(session)] = self._audited.get(_owner(session), 0) + 1
        if session is not None and count > _MOST_AUDITED:
            return
        details = {"operation": str(request["operation"])[:100]} if "operation" in request else {}
        self._audit.note(
            "connection",
            session=session.id if session is not None else None,
            refused=refused,
            connection=connection.name,
            to=connection.url,
            rights=connection.rights,
            did=str(request.get("do"))[:40],
            rows=answer.rows if answer is not None else 0,
            bytes=len(answer.payload) if answer is not None else 0,
            seconds=round(time.monotonic() - started, 3),
            failed=failed is not None,
            **details,
        )

    # Kernels -----------------------------------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            try:
                client = await accept(listener)
            except OSError:
                await anyio.sleep(_RETRY_S)
                continue
            tasks.start_soon(self._handle, client)

    async def _handle(self, client: Wire) -> None:
        async with client:
            with suppress(OSError, anyio.EndOfStream, anyio.BrokenResourceError):
                try:
                    status, kind, payload = await self._answered(client)
                except CellwrightError as error:
                    status, kind = _STATUS_OF.get(type(error), HTTPStatus.BAD_GATEWAY), "application/json"
                    payload = msgspec.json.encode({"error": error.message, "hint": error.hint})
                except Exception:  # noqa: BLE001  # boundary: one request must not end the others
                    _log.exception("connection_request_failed")
                    status, kind = HTTPStatus.INTERNAL_SERVER_ERROR, "application/json"
                    payload = b'{"error":"The engine could not answer","hint":"See its log"}'
                head = f"HTTP/1.1 {int(status)} {status.phrase}\r\nContent-Type: {kind}\r\n"
                head += f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
                await client.send(head.encode())
                await client.send(payload)

    async def _answered(self, client: Wire) -> tuple[HTTPStatus, str, bytes]:
        buffered = BufferedByteReceiveStream(client)
        with anyio.move_on_after(_HEAD_S) as scope:
            lines = (await buffered.receive_until(b"\r\n\r\n", _MOST_HEAD)).split(b"\r\n")
        if scope.cancelled_caught or (start := _REQUEST.fullmatch(lines[0])) is None:
            raise ConnectionFailed("A request is POST /WHAT with a body of JSON")
        headers = {
            name.lower(): value.strip().decode()
            for name, _, value in (one.partition(b":") for one in lines[1:])
        }
        name = _HOST.fullmatch(headers.get(b"host", ""))
        if name is None:
            raise UnknownConnection("A request is for NAME.connections.cellwright")
        session = self._session_of(headers.get(KERNEL_HEADER.encode(), ""))
        connection, length = find(self.known, name[1]), int(headers.get(b"content-length", "0"))
        if length > connection.max_bytes + _SPARE_BYTES:
            raise ConnectionFailed(
                f"The request has {length:,} bytes, and connection {name[1]!r} takes {connection.max_bytes:,}",
                hint="Send less, or have the operator raise its max_bytes",
            )
        body = await buffered.receive_exactly(length) if length else b""
        if start[1] == b"cancel":
            await self.cancel(name[1], session)
            return HTTPStatus.OK, "application/json", b"{}"
        request = _request(start[1].decode(), headers, body)
        with acting(_code_of(session, headers.get(EXECUTION_HEADER.encode()))):
            answer = await self.ask(name[1], request, session)
        kind = "application/octet-stream" if answer.kind == "bytes" else "application/json"
        return (
            (HTTPStatus.UNPROCESSABLE_ENTITY if answer.kind == "error" else HTTPStatus.OK),
            kind,
            answer.payload,
        )

    def _session_of(self, kernel_id: str) -> SessionContext:
        """The session whose kernel asks, by what its host says of it."""
        session = self._context_of(kernel_id.rpartition(".")[0])
        if session is None:
            raise ConnectionFailed("The kernel that asks is of no session here", hint="Restart the session")
        return session


_STATUS_OF: dict[type[CellwrightError], HTTPStatus] = {
    UnknownConnection: HTTPStatus.NOT_FOUND,
    NotApproved: HTTPStatus.FORBIDDEN,
}


def _request(does: str, headers: Mapping[bytes, str], body: bytes) -> dict[str, Any]:
    """What a kernel asks: JSON, or bytes to be written with the path in a header."""
    if does == "write":
        return {"do": does, "path": headers.get(b"x-path", ""), "data": body}
    try:
        request = msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConnectionFailed(f"The request is no JSON object: {error}") from None
    return request | {"do": does}


def _owner(session: SessionContext | None) -> str:
    return session.id if session is not None else ""


def _code_of(session: SessionContext | None, execution: str | None) -> str:
    """Who asks, for the audit log: a session's code acts for nobody that is known here."""
    return actor() if session is None else f"code {execution or session.id}"


def _matter(connection: Connection, session: SessionContext | None) -> Matter:
    what = f"use the connection {connection.name} ({connection.kind}, {connection.rights})"
    if session is None:
        return Matter("connection", what, once=True)
    return Matter.of("connection", f"let the code of {session.record.name} {what}", session.record)
