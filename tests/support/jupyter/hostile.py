"""A server that says what a test has it say, however wrong."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from cellwright.hosts.protocol import JupyterServer
from tests.waiting import until

INFO = {"status": "ok", "language_info": {"name": "python", "version": "3"}, "banner": ""}
SPECS = {"default": "python3", "kernelspecs": {"python3": {"spec": {"language": "python"}}}}
ENDLESS = object()
"""An answer that never ends."""


@dataclass
class Hostile:
    """What it answers, by path, and what it says beside each answer of its kernel."""

    answers: dict[str, Any] = field(default_factory=dict)
    frames: list[str | bytes] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> JupyterServer:
        return JupyterServer("hostile", f"http://127.0.0.1:{self.port}", "token", unreachable_s=60)

    async def answer(self, request: Request) -> Response:
        path = request.url.path
        default: dict[str, Any] = {
            "/api/kernelspecs": SPECS,
            "/api/kernels": {"id": "one"},
            "/api/kernels/one": {"id": "one", "execution_state": "idle"},
        }
        found = self.answers.get(path, default.get(path))
        if found is ENDLESS:
            return StreamingResponse(self._endless(), media_type="application/json")
        if isinstance(found, str):
            return Response(found, media_type="application/json")
        return JSONResponse(found) if found is not None else Response(status_code=404)

    @staticmethod
    async def _endless() -> AsyncIterator[bytes]:
        yield b'["'
        while True:
            yield b"x" * (1 << 20)
            # What nobody takes is not waited for, and others must get their turn.
            await anyio.lowlevel.checkpoint()

    async def converse(self, socket: WebSocket) -> None:
        await socket.accept()
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                asked = json.loads(await socket.receive_text())
                await self._reply(socket, asked)

    async def _reply(self, socket: WebSocket, asked: dict[str, Any]) -> None:
        kind = asked["header"]["msg_type"]
        for frame in self.frames:
            await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_text(frame))
        reply = INFO if kind == "kernel_info_request" else {"status": "ok", "execution_count": 1}
        parent = asked["header"]
        await socket.send_text(
            said(kind.replace("request", "reply"), reply, parent, channel=asked["channel"])
        )
        await socket.send_text(said("status", {"execution_state": "idle"}, parent))


def said(kind: str, content: Any, parent: dict[str, Any] | None = None, *, channel: str = "iopub") -> str:
    """A message as a server sends it."""
    header = {"msg_id": "m", "msg_type": kind}
    whole = {"header": header, "parent_header": parent or {}, "metadata": {}, "content": content}
    return json.dumps({**whole, "channel": channel, "buffers": []})


@asynccontextmanager
async def hostile_server() -> AsyncIterator[Hostile]:
    """At work on a port of the loopback."""
    hostile = Hostile()
    routes = [
        WebSocketRoute("/api/kernels/one/channels", hostile.converse),
        Route("/{path:path}", hostile.answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """The test's own stay."""
            yield

    config = uvicorn.Config(
        Starlette(routes=routes), port=0, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=1
    )
    server = Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        await until(lambda: server.started)
        hostile.port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield hostile
        finally:
            server.should_exit = True
