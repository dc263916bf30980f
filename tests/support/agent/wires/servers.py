"""Servers on this machine that speak the formats of the providers, and reply what a script says.

::

    with serve([reply(Call("add_cell", {"source": "1"})), reply("It is 1.")]) as server:
        chain = await connect_models(["openai"], server.environment, Settings())
        ...
    assert server.left == 0
    server.requests[0].body      # what was sent

One server speaks every HTTP format; the path says which. ``serve_grok`` speaks xAI's own protocol. Each entry of a
script answers one request; a callable makes its answer from the request. A request beyond the script gets a 500 that
says so. ``environment`` has addresses and keys that lead here, for all providers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.support.agent.wires import chat, gemini, messages, responses
from tests.support.agent.wires.replies import (
    Answer,
    Call,
    Entry,
    Fault,
    Garbled,
    Recorded,
    Reply,
    Text,
    Think,
    reply,
)
from tests.waiting import LIMIT_S

__all__ = [
    "KEY",
    "Call",
    "Entry",
    "Fault",
    "Garbled",
    "Recorded",
    "Reply",
    "Script",
    "Server",
    "Text",
    "Think",
    "reply",
    "serve",
    "serve_grok",
]

KEY = "sk-a-key-that-nobody-may-see-0123456789"

Events: TypeAlias = list[tuple[str | None, Any]]
_FORMATS = {
    "/responses": responses,
    "/chat/completions": chat,
    "/messages": messages,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}


class Script:
    """Answers in their order, and the requests that they were given to. Used from several threads."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = list(entries)
        self._lock = threading.Lock()
        self.requests: list[Recorded] = []

    @property
    def left(self) -> int:
        """Entries that nobody asked for."""
        return len(self._entries)

    def add(self, *entries: Entry) -> None:
        with self._lock:
            self._entries.extend(entries)

    def next(self, request: Recorded) -> Answer:
        with self._lock:
            self.requests.append(request)
            entry = self._entries.pop(0) if self._entries else Fault(500, message="the script is at its end")
        return entry(request) if callable(entry) else entry


class Server(Script):
    """A server with its script."""

    def __init__(self, entries: Sequence[Entry], url: str = "") -> None:
        super().__init__(entries)
        self.url = url

    @property
    def environment(self) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "XAI_API_KEY": KEY,
            "XAI_BASE_URL": f"{self.url}/v1",
            "CELLWRIGHT_MODEL_KEY": KEY,
        }


@contextmanager
def serve(entries: Sequence[Entry] = ()) -> Iterator[Server]:
    """A server that speaks OpenAI's Responses and Chat Completions, Anthropic's Messages and the Gemini API."""
    server = Server(entries)

    class Handler(_Handler):
        script = server

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join(LIMIT_S)


@contextmanager
def serve_grok(entries: Sequence[Entry] = ()) -> Iterator[Server]:
    """A server that speaks xAI's own protocol. Its ``environment`` is for ``grok-grpc``."""
    from tests.support.agent.wires import grok  # gRPC is heavy, and most tests do without

    server = Server(entries)
    with grok.serving(server) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def log_message(self, format: str, *args: Any) -> None:  # the base class calls it so
        """Nothing is printed."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.split("?")[0]
        request = Recorded(path, {name.lower(): value for name, value in self.headers.items()}, body)
        format_ = next((module for end, module in _FORMATS.items() if path.endswith(end)), None)
        if format_ is None:
            self._send(404, json.dumps({"error": {"message": f"nothing at {path}"}}).encode())
            return
        answer = self.script.next(request)
        streamed = bool(body.get("stream")) or path.endswith(":streamGenerateContent")
        match answer:
            case Fault():
                later = {} if answer.retry_after_s is None else {"retry-after": f"{answer.retry_after_s:g}"}
                self._send(answer.status, json.dumps(format_.fault(answer)).encode(), later)
            case Garbled(how="page"):
                self._send(200, b"<html>Please sign in</html>", {"content-type": "text/html"})
            case Garbled() if streamed:
                self._stream([(None, "{this is no JSON")])
            case Garbled():
                self._send(200, b"{this is no JSON")
            case Reply() if streamed:
                events = format_.events(answer, body)
                shown = events if answer.cut == "no" else events[: format_.CUT_AFTER]
                self._stream(shown, broken=answer.cut == "broken")
            case Reply() if answer.cut != "no":
                self._send(200, json.dumps(format_.whole(answer, body)).encode(), cut=True)
            case Reply():
                self._send(200, json.dumps(format_.whole(answer, body)).encode())

    def _send(
        self, status: int, content: bytes, headers: dict[str, str] | None = None, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = cut or self.close_connection

    def _stream(self, events: Events, *, broken: bool = False) -> None:
        """In chunks, so that a stream that is cut is seen to be: its last chunk is missing."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            event = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
            raw = event.encode()
            self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
            self.wfile.flush()
        if broken:
            self.close_connection = True
        else:  # and stays open: a client that was not told so asks the next time on the same connection
            self.wfile.write(b"0\r\n\r\n")
