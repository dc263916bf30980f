"""A web server on a loopback address, and the egress proxy that leads to it: both in this process."""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio

from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.network_rules import Address, NetworkRules
from cellwright.sandbox.proxy import Egress, EgressLimits, Resolver
from tests.waiting import LIMIT_S, until

__all__ = ["BIG", "LOOPBACK", "UNHURRIED", "Server", "logged", "loopback", "proxying", "rules_for", "serving"]

LOOPBACK: Address = ipaddress.ip_address("127.0.0.1")
BIG = 5_000_000
# For tests of anything but the time that is given.
UNHURRIED = EgressLimits(head_timeout_s=LIMIT_S, connect_timeout_s=LIMIT_S, idle_timeout_s=LIMIT_S)


class Handler(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, byte for byte."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/big":
            self._reply(b"x" * BIG)
        elif self.path == "/silent":
            self.server.released.wait()  # type: ignore[attr-defined]
            self.close_connection = True
        elif self.path == "/nonsense":
            self.wfile.write(b"SSH-2.0-nonsense\r\n\r\n")
            self.close_connection = True
        else:
            self._reply(json.dumps({"path": self.path, "headers": dict(self.headers.items())}).encode())

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._reply(b"got " + body)

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), Handler)
        self.released = threading.Event()
        self.accepted = 0

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        self.accepted += 1
        super().process_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """A client that leaves early is no error here."""


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


async def loopback(host: str, port: int) -> list[Address]:
    """Every name of these tests leads to this machine."""
    assert host
    assert port
    return [LOOPBACK]


def rules_for(*ports: int) -> NetworkRules:
    listed = [f"{host}:{port}" for port in ports for host in ("allowed.example", "127.0.0.1")]
    return NetworkRules.parse("allow", allow=listed)


@contextlib.asynccontextmanager
async def proxying(
    path: Path, rules: NetworkRules, *, resolve: Resolver = loopback, limits: EgressLimits = UNHURRIED
) -> AsyncIterator[Egress]:
    egress = Egress(rules, resolve=resolve, limits=limits, execution=lambda: "exec-1")
    async with anyio.create_task_group() as tasks:
        await tasks.start(egress.serve, path)
        yield egress
        tasks.cancel_scope.cancel()


async def logged(egress: Egress, count: int) -> list[NetworkEntry]:
    """The log, once it has this many entries: they come when connections end, a moment after their answers."""
    await until(lambda: len(egress.log.since()) >= count and not egress.open_connections)
    return egress.log.since()
