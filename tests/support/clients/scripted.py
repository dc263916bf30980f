"""A model that plays a script: a loopback server for the three wires, which also catches what wants to go elsewhere.

The step to play is the number of tool results in the request, so a request sent again gets the same answer. Speaks
no provider's protocol itself (see wires) and starts no client (see launching).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

from tests.support.clients.wires import (
    SERVER_NAME,
    TOOL_SEARCH,
    WIRES,
    Answer,
    Invoke,
    Json,
    Say,
    Seen,
    ToolName,
    Wire,
)

__all__ = ["Call", "Request", "Say", "ScriptedModel", "Seen"]

Arguments = Callable[[Sequence[Seen]], Mapping[str, Any]]
MAX_SEARCHES = 50
ASIDE = Say("nothing to add")
"""The answer to what a client asks its model beside the conversation: a title, a summary, who speaks next."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of our server's tool, by the name that the server gave it."""

    tool: str
    arguments: Mapping[str, Any] | Arguments
    """Or how to find them in the results so far."""

    def resolve(self, seen: Sequence[Seen]) -> Mapping[str, Any]:
        return self.arguments(seen) if callable(self.arguments) else self.arguments


@dataclass(frozen=True, slots=True)
class Request:
    """One request that reached the model."""

    path: str
    body: Json


@dataclass(slots=True)
class ScriptedModel:
    """Serves a script on loopback for as long as it is entered."""

    script: Sequence[Call | Say]
    requests: list[Request] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    """Every tool result, as the model read it."""
    problems: list[str] = field(default_factory=list)
    """Where the script could not go on."""
    elsewhere: list[str] = field(default_factory=list)
    """What a client wanted from other machines: refused."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: _Server | None = None
    _searches: int = 0

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("The scripted model is not being served: enter it first")
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, path: str, body: Json) -> Answer:
        """What the model says to one request."""
        wire = next((wire for wire in WIRES if wire.asks_model(path)), None)
        with self._lock:
            self.requests.append(Request(path, body))
            if wire is None:
                return Answer.as_json({"data": [], "models": [], "input_tokens": 1, "totalTokens": 1})
            return wire.answer(path, body, self._next(wire, body))

    def refuse(self, target: str) -> None:
        with self._lock:
            self.elsewhere.append(target)

    def _next(self, wire: Wire, body: Json) -> Say | Invoke:
        offered, seen = wire.tools(body), wire.results(body)
        if not offered:
            return ASIDE
        if len(seen) > len(self.seen):
            self.seen = seen
        if len(seen) >= len(self.script):
            return self._give_up(f"The script has {len(self.script)} steps, and the client goes on")
        match self.script[len(seen)]:
            case Say() as say:
                return say
            case Call(tool) as call:
                name = next((name for name in offered if name.means(tool)), None)
                if name is None:
                    lacking = f"{tool} is not offered among {[name.name for name in offered]}"
                    return self._search(offered, tool) or self._give_up(lacking)
                try:
                    return Invoke(name, call.resolve(seen))
                except Exception as error:  # noqa: BLE001  # boundary: the script's own code, reported to the test
                    return self._give_up(f"The arguments of {tool} were not found: {error!r} in {seen[-1:]}")

    def _search(self, offered: Sequence[ToolName], tool: str) -> Invoke | None:
        """Look for a tool where the client has its models do so, again while its server is being connected."""
        search = next((name for name in offered if name.name == TOOL_SEARCH), None)
        self._searches += 1
        if search is None or self._searches > MAX_SEARCHES:
            return None
        return Invoke(search, {"query": f"select:mcp__{SERVER_NAME}__{tool}", "max_results": 5})

    def _give_up(self, problem: str) -> Say:
        self.problems.append(problem)
        return Say(problem)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_CONNECT(self) -> None:
        self._refuse(self.path)

    def log_message(self, format: str, *args: object) -> None:  # the base class names it so
        """Keep quiet: the requests are in the model."""

    @property
    def _model(self) -> ScriptedModel:
        return cast("_Server", self.server).model

    def _handle(self) -> None:
        target = urlsplit(self.path)
        if target.netloc and target.hostname not in {"127.0.0.1", "localhost"}:
            self._refuse(self.path)
            return
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = self._model.answer(target.path, json.loads(content or b"{}"))
        self.send_response(200)
        self.send_header("content-type", answer.content_type)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _refuse(self, target: str) -> None:
        self._model.refuse(target)
        self.close_connection = True
        with suppress(ConnectionError):  # it may not wait for the answer
            self.send_error(403, "This model's clients stay on this machine")
