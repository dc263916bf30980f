"""One client's socket to a session's kernel: its requests go in, and all that happens on the kernel comes out.

A client that comes back under its name is told again what became of its latest requests. It forgot those that it knows
the end of, so nothing is shown twice and nothing is missing, whatever broke in between: the line, or this process.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
from starlette.websockets import WebSocket, WebSocketDisconnect

from cellwright.engine import Asker, Engine, Event, Execution, Missed, Session, Subscription
from cellwright.errors import CellwrightError, UnknownCell, UnknownExecution
from cellwright.lab.answers import answer
from cellwright.lab.messages import BadMessage, Request, Said, decode, encode
from cellwright.lab.telling import cleared, messages_for, parent_of, state_lost, status

__all__ = ["Channels"]

_log = logging.getLogger(__name__)
_MOST_WAITING = 10_000
_TOLD_AGAIN = 50
_PAGE = 200
_GONE = (WebSocketDisconnect, RuntimeError)
"""Starlette raises the latter for a socket that was closed while somebody wrote."""


class Channels:
    """Serves one WebSocket until either side leaves."""

    def __init__(self, socket: WebSocket, engine: Engine, session: Session, *, knows: Container[int]) -> None:
        self._socket = socket
        self._engine = engine
        self._session = session
        self._client = socket.query_params.get("session_id", "")
        self._knows = knows
        """Generations of the kernel whose end the client asked for."""
        self._sending = anyio.Lock()
        self._told: dict[str, int] = {}
        """Executions that were told again, and up to which event."""
        self._asked, self._to_run = anyio.create_memory_object_stream[Request](_MOST_WAITING)

    async def serve(self) -> None:
        await self._socket.accept()
        async with self._asked, self._to_run, anyio.create_task_group() as tasks:
            self._tasks = tasks
            with suppress(*_GONE), self._engine.subscribe(self._session.id) as live:
                await self._tell_again()
                tasks.start_soon(self._run_in_order)
                tasks.start_soon(self._apart, self._tell_all(live))
                await self._hear()
            tasks.cancel_scope.cancel()

    # What is heard -----------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        while True:
            try:
                request = decode(await self._socket.receive_text())
            except (BadMessage, KeyError) as error:  # a frame of bytes has no text
                _log.warning("lab_message_refused session=%s %s", self._session.id, error)
                continue
            if request.header.msg_type == "execute_request":
                await self._asked.send(request)
            else:
                self._tasks.start_soon(self._apart, self._answer(request))

    async def _apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something whose failure, with a client that is just leaving, is nobody's business."""
        with suppress(*_GONE):
            await work

    async def _answer(self, request: Request) -> None:
        await self._send(status("busy", request.header))
        said = await answer(self._engine, self._session, request)
        if said is not None:
            await self._send(said)
        await self._send(status("idle", request.header))
        if live := self._session.runs.live:  # the client takes the last status for the kernel's
            await self._send(status("busy", parent_of(live[0].record)))

    async def _run_in_order(self) -> None:
        async for request in self._to_run:
            try:
                await self._run(request)
            except CellwrightError as error:
                await self._apart(self._refuse(request, error))

    async def _run(self, request: Request) -> Execution:
        content, session = request.content, self._session
        code = content.get("code")
        source = code if isinstance(code, str) else ""
        asker = Asker(self._client, request.header.msg_id, stops=content.get("stop_on_error") is not False)
        numbered = not content.get("silent") and content.get("store_history") is not False
        await session.refresh()
        try:
            cell = session.document.cell(str(request.metadata.get("cellId")))
        except UnknownCell:
            return await session.execute_code(source, numbered=numbered, asker=asker)
        if cell.source == source and cell.kind == "code" and numbered:
            return await session.execute(cell.id, asker=asker)
        # Edited there and not saved yet: its text and its outputs come with the file.
        return await session.execute_code(source, language=cell.language, numbered=numbered, asker=asker)

    async def _refuse(self, request: Request, error: CellwrightError) -> None:
        """What could not even be queued fails as code does."""
        text = f"{error.message}. {error.hint}" if error.hint else error.message
        content = {"ename": error.code, "evalue": text, "traceback": [text]}
        await self._send(status("busy", request.header))
        await self._send(Said("iopub", "error", content, request.header))
        reply = {"status": "error", "execution_count": None, **content}
        await self._send(Said("shell", "execute_reply", reply, request.header))
        await self._send(status("idle", request.header))

    # What is told ------------------------------------------------------------------------------------------------

    async def _tell_all(self, live: Subscription) -> None:
        async for item in live:
            if isinstance(item, Missed):
                await self._tell_missed(item)
            else:
                await self._tell(item)
        await self._socket.close(code=1001, reason="the daemon is ending")

    async def _tell_missed(self, missed: Missed) -> None:
        last = missed.first_seq - 1
        while last < missed.last_seq and (
            page := self._engine.events(since=last, session_id=self._session.id, limit=_PAGE)
        ):
            for event in page:
                await self._tell(event)
            last = page[-1].seq

    async def _tell(self, event: Event) -> None:
        if event.data.get("session") == "deleted":
            await self._socket.close(code=1000, reason="the session was deleted")
        elif event.execution_id is not None:
            if event.seq > self._told.get(event.execution_id, 0):
                await self._tell_of_execution(event)
        elif state_lost(event) and event.generation not in self._knows:
            await self._send(status("restarting"))

    async def _tell_of_execution(self, event: Event) -> None:
        try:
            execution = self._engine.execution(event.execution_id or "")
        except UnknownExecution:
            return
        for said in messages_for(event, execution.record, self._client):
            await self._send(said)
        if event.kind == "notebook.cell.completed":
            self._tasks.start_soon(self._apart, self._tell_idle(execution))

    async def _tell_idle(self, execution: Execution) -> None:
        """The last word, once what is made of an execution's leavings was told too."""
        await execution.wait()
        await self._send(status("idle", parent_of(execution.record)))

    async def _tell_again(self) -> None:
        ran = await self._engine.history(self._session.id, outputs=False) if self._client else []
        asked = [run for run in ran if run.record.asker is not None]
        own = [run for run in asked if run.record.asker and run.record.asker.client == self._client]
        for run in own[-_TOLD_AGAIN:]:
            events = await self._engine.events_of(run.id)
            await self._send(status("busy", parent_of(run.record)))
            await self._send(cleared(run.record))
            for event in events:
                await self._tell_of_execution(event)
                self._told[run.id] = event.seq

    async def _send(self, said: Said) -> None:
        async with self._sending:
            await self._socket.send_text(encode(said))
