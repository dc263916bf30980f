"""``/events``: the engine's event stream for programs and pages, as a WebSocket and as server-sent events.

``?since=N`` begins after event N, with what the journal has; without it the feed begins now. ``?session=ID`` keeps to
one session. A listener that is too slow is told how many events passed it by and their numbers, and can ask again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeAlias

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from cellwright.engine import Engine, Event, Missed
from cellwright.errors import CellwrightError, UnknownSession

__all__ = ["EventFeed"]

_PAGE = 200
_KEEP_ALIVE_S = 15.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
Tell: TypeAlias = Callable[[Event | Missed], Awaitable[None]]


class BadSince(CellwrightError):
    code = "bad_since"


class EventFeed:
    """An ASGI application for one path, for both kinds of connection."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = QueryParams(scope["query_string"])
        try:
            since = _since(query.get("since") or Headers(scope=scope).get("last-event-id"))
            session_id = query.get("session")
            if session_id is not None:
                self._engine.session(session_id)
        except CellwrightError as error:
            await _refuse(scope, receive, send, error)
            return
        follow = _follow(self._engine, since, session_id)
        if scope["type"] == "websocket":
            await _serve_websocket(WebSocket(scope, receive, send), follow)
        else:
            await _serve_sse(receive, send, follow)


async def _follow(engine: Engine, since: int | None, session_id: str | None) -> AsyncIterator[Event | Missed]:
    """Past events after ``since``, then live ones, each once."""
    # Listening begins before the past is read, so that nothing falls between the two.
    with engine.subscribe(session_id) as live:
        last = -1
        if since is not None:
            last = since
            while page := engine.events(since=last, session_id=session_id, limit=_PAGE):
                for event in page:
                    yield event
                last = page[-1].seq
        async for item in live:
            if isinstance(item, Missed) or item.seq > last:
                yield item


async def _serve_websocket(socket: WebSocket, follow: AsyncIterator[Event | Missed]) -> None:
    await socket.accept()

    async def notice_the_end() -> None:
        with suppress(WebSocketDisconnect):
            while True:
                await socket.receive_text()  # nothing is asked for on this socket; what comes is let go
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notice_the_end)
        with suppress(WebSocketDisconnect):
            async for item in follow:
                await socket.send_text(_as_json(item))
            await socket.close(code=1001, reason="the daemon is ending")
        tasks.cancel_scope.cancel()


async def _serve_sse(receive: Receive, send: Send, follow: AsyncIterator[Event | Missed]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    sending = anyio.Lock()

    async def write(text: str) -> None:
        async with sending:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def keep_alive() -> None:
        await write(": cellwright\n\n")
        while True:
            await anyio.sleep(_KEEP_ALIVE_S)
            await write(":\n\n")

    async def notice_the_end() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notice_the_end)
        tasks.start_soon(keep_alive)
        async for item in follow:
            await write(_as_sse(item))
        tasks.cancel_scope.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _as_json(item: Event | Missed) -> str:
    kind = {"kind": "missed"} if isinstance(item, Missed) else {}
    return json.dumps(kind | asdict(item), ensure_ascii=False)


def _as_sse(item: Event | Missed) -> str:
    if isinstance(item, Missed):
        # No id: a listener that reconnects goes on after the last event it had, and gets what it missed.
        return f"event: missed\ndata: {_as_json(item)}\n\n"
    return f"id: {item.seq}\nevent: {item.kind}\ndata: {_as_json(item)}\n\n"


def _since(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 18:  # what fits in the journal's numbers
        raise BadSince(
            f"since={text} is not the number of an event", hint="Give the seq of the last event you have"
        )
    return int(text)


async def _refuse(scope: Scope, receive: Receive, send: Send, error: CellwrightError) -> None:
    status = 404 if isinstance(error, UnknownSession) else 400
    body: dict[str, Any] = {"error": error.message, "hint": error.hint}
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(JSONResponse(body, status))
    else:
        await JSONResponse(body, status)(scope, receive, send)
