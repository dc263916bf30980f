"""A web server on loopback that answers as a test says and remembers what it was asked."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Asked", "Reply", "WebServer", "serving"]


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    body: bytes | str = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Route = Reply | Callable[[Asked], Reply]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def do_GET(self) -> None:
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()})
        self.server.asked.append(asked)
        route = self.server.routes.get(self.path, Reply("nothing here", 404))
        reply = route(asked) if callable(route) else route
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.status != 304:  # nothing follows
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class WebServer(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.routes: dict[str, Route] = {}
        self.asked: list[Asked] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    @property
    def allowed(self) -> dict[str, Any]:
        """Settings under which it may be reached."""
        return {"network": "allow", "network_allow": [f"127.0.0.1:{self.port}"]}

    def handle_error(self, *_: object) -> None:
        """A client that leaves early is no error here."""


@contextmanager
def serving() -> Iterator[WebServer]:
    server = WebServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
