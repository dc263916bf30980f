"""Gateways on real sessions, and clients that speak to them as a Jupyter server does."""

from __future__ import annotations

import itertools
import json
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from cellwright import Engine
from cellwright.daemon._guard import Guard
from cellwright.daemon._listeners import Listener
from cellwright.engine import Session
from cellwright.lab.gateway import Gateway
from tests.kernel.engine.conftest import engine, open_here, own_engine, shared_engine
from tests.system.daemon.conftest import place
from tests.waiting import LIMIT_S, fail_after

__all__ = [
    "Client",
    "Gate",
    "engine",
    "gate",
    "open_gate",
    "open_here",
    "own_engine",
    "place",
    "shared_engine",
]


@dataclass
class Client:
    """One socket, and what came over it."""

    socket: ClientConnection
    session_id: str
    heard: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, kind: str, content: dict[str, Any], **metadata: Any) -> str:
        msg_id = uuid.uuid4().hex
        header = {
            "msg_id": msg_id,
            "msg_type": kind,
            "session": self.session_id,
            "username": "",
            "version": "5.3",
        }
        message = {"header": header, "parent_header": {}, "metadata": metadata, "content": content}
        await self.socket.send(json.dumps({**message, "channel": "shell", "buffers": []}))
        return msg_id

    async def execute(self, code: str, cell_id: str | None = None, **content: Any) -> str:
        metadata = {"cellId": cell_id} if cell_id is not None else {}
        return await self.send("execute_request", {"code": code, **content}, **metadata)

    async def until(self, kind: str, parent: str | None = None, **content: Any) -> dict[str, Any]:
        """The next message of a kind, to a request, with this in it."""
        with fail_after():
            while True:
                message: dict[str, Any] = json.loads(await self.socket.recv())
                self.heard.append(message)
                if message["msg_type"] != kind or not content.items() <= message["content"].items():
                    continue
                if parent is None or message["parent_header"].get("msg_id") == parent:
                    return message

    async def answer(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Ask, and take the answer and the idle status after it."""
        msg_id = await self.send(kind, content)
        reply = await self.until(kind.replace("request", "reply"), msg_id)
        await self.until("status", msg_id, execution_state="idle")
        return dict(reply["content"])

    async def run(self, code: str, cell_id: str | None = None) -> dict[str, Any]:
        """Run code, and give back the reply once all was heard."""
        msg_id = await self.execute(code, cell_id)
        reply = await self.until("execute_reply", msg_id)
        await self.until("status", msg_id, execution_state="idle")
        return dict(reply["content"])

    def kinds(self, parent: str) -> list[str]:
        """What came of a request, in order; a stream once, in however many pieces it came."""
        told = [one["msg_type"] for one in self.heard if one["parent_header"].get("msg_id") == parent]
        return [
            kind for before, kind in itertools.pairwise(["", *told]) if kind != "stream" or kind != before
        ]

    def text(self, parent: str) -> str:
        """What it would show of a request now: a cleared output is gone."""
        shown = ""
        for one in self.heard:
            if one["parent_header"].get("msg_id") == parent:
                shown = "" if one["msg_type"] == "clear_output" else shown
                shown += one["content"]["text"] if one["msg_type"] == "stream" else ""
        return shown


@dataclass
class Gate:
    """An open gateway to a session."""

    session: Session
    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def ask(self, method: str, path: str, **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=LIMIT_S) as http:
            return await http.request(method, self.url + path, headers={**self.headers, **headers})

    async def start(self) -> str:
        """Have the kernel, and its name."""
        return str((await self.ask("POST", "/api/kernels")).json()["id"])

    @asynccontextmanager
    async def client(self, kernel_id: str | None = None, session_id: str = "") -> AsyncIterator[Client]:
        kernel_id, session_id = kernel_id or await self.start(), session_id or uuid.uuid4().hex
        address = f"{self.url}/api/kernels/{kernel_id}/channels?session_id={session_id}"
        # The gateway is in this very process: whether it still answers is no question, and opening may take a while.
        async with connect(
            address.replace("http", "ws", 1),
            additional_headers=self.headers,
            open_timeout=LIMIT_S,
            ping_interval=None,
        ) as socket:
            yield Client(socket, session_id)


@asynccontextmanager
async def open_gate(engine: Engine, session: Session) -> AsyncIterator[Gate]:
    token = secrets.token_urlsafe()
    app = Guard(Gateway(engine, session.id).app(), token=token)
    listener = Listener.on_loopback(0, app, longest_message=1 << 20)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.run)
        yield Gate(session, listener.url, token)
        tasks.cancel_scope.cancel()


@pytest.fixture
async def gate(engine: Engine) -> AsyncIterator[Gate]:
    """A gateway to a new session."""
    session = await engine.create("for JupyterLab")
    async with open_gate(engine, session) as gate:
        yield gate
    await engine.delete(session.id)
