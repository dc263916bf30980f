"""Receives clients while the rest of the daemon is still being imported, in a thread of its own.

It answers a client's first question from ``greetings.json`` where that holds the answer, tells a status, and keeps
everything that was said for the real server, which then answers the same question again: that answer is dropped.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading

from cellwright.daemon.handshake import LONGEST_HANDSHAKE, parse_handshake

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

__all__ = ["DISCOVER", "FILE", "OTHER", "VERSION_KEY", "Arrival", "EarlyResponder", "Greetings"]

_CHUNK = 64 * 1024

# What a client may say before anybody has time for it; the rest waits in the socket.
_MOST_BYTES = 4 * 1024 * 1024


class Arrival:
    """A connection, what it said so far beyond its hello, and the question that is answered already."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.said = b""
        self.handshake: dict[str, Any] | None = None
        self.answered: str | int | None = None
        self.first_line_seen = False

    def take(self, chunk: bytes) -> None:
        """Add what was read; the hello is taken off the front when it is complete."""
        self.said += chunk
        if self.handshake is None and (b"\n" in self.said or len(self.said) > LONGEST_HANDSHAKE):
            line, _, rest = self.said.partition(b"\n")
            found = parse_handshake(line)
            if found is not None:
                self.handshake, self.said = found, rest
            else:  # no pump: MCP from the first byte
                self.handshake = {"want": "mcp", "dialect": None, "directory": None}

    @property
    def wants(self) -> str | None:
        """What the hello asks for, once it is there."""
        return self.handshake["want"] if self.handshake is not None else None


class EarlyResponder:
    """Accepts connections until ``finish`` hands them over."""

    def __init__(self, listener: socket.socket, about: dict[str, Any]) -> None:
        self._listener = listener
        self._about = about
        self._arrivals: dict[int, Arrival] = {}
        self._poll = select.poll()
        self._wake_reading, self._wake_writing = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="early_responder", daemon=True)
        self._greetings = Greetings()
        self._greeted = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def wait_for_first(self, seconds: float) -> None:
        """Wait until a client was greeted, but no longer than this."""
        self._greeted.wait(seconds)

    def finish(self) -> list[Arrival]:
        """Stop accepting, and hand over every connection with what it said."""
        os.close(self._wake_writing)
        self._thread.join()
        os.close(self._wake_reading)
        return list(self._arrivals.values())

    def _run(self) -> None:
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._wake_reading, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._wake_reading:
                    return
                if fd == self._listener.fileno():
                    connection, _ = self._listener.accept()
                    self._arrivals[connection.fileno()] = Arrival(connection)
                    self._poll.register(connection, select.POLLIN)
                else:
                    self._read(self._arrivals[fd])

    def _read(self, arrival: Arrival) -> None:
        try:
            chunk = arrival.connection.recv(_CHUNK)
        except OSError:
            chunk = b""
        if chunk:
            arrival.take(chunk)
            self._greet(arrival)
        # At its end, or with enough said, it is the server's to go on with: the socket remembers an end.
        if not chunk or len(arrival.said) > _MOST_BYTES:
            self._poll.unregister(arrival.connection)

    def _greet(self, arrival: Arrival) -> None:
        if arrival.wants == "status":
            _send(arrival, {**self._about, "state": "starting"})
            self._poll.unregister(arrival.connection)
            del self._arrivals[arrival.connection.fileno()]
            arrival.connection.close()
        elif arrival.wants == "mcp" and not arrival.first_line_seen and b"\n" in arrival.said:
            arrival.first_line_seen = True
            assert arrival.handshake is not None  # for the type checker: wants is known
            handshake = arrival.handshake
            # What is said to whoever chose some of the tools was not recorded.
            known = None if handshake.get("toolset") else arrival.said.partition(b"\n")[0]
            answer = self._greetings.answer(known, handshake.get("dialect")) if known is not None else None
            if answer is not None:
                _send(arrival, answer)
                arrival.answered = answer["id"]
            self._greeted.set()


def _send(arrival: Arrival, message: dict[str, Any]) -> None:
    try:
        arrival.connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:  # gone already; the server finds out
        return


# What the server answers to a client's first question, known before the server is there.

FILE = os.path.join(os.path.dirname(__file__), "greetings.json")

DISCOVER = "server/discover"

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"

OTHER = "other"
"""Stands for every protocol version that the server does not know."""


class Greetings:
    """Answers by dialect, method and protocol version."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}
        try:
            with open(FILE, encoding="utf-8") as file:
                recorded = json.load(file)
        except (OSError, ValueError):
            return
        if _is_installed(recorded["sdk"]):
            self._answers = recorded["dialects"]

    def answer(self, line: bytes, dialect: object) -> dict[str, Any] | None:
        """The reply to a first message, if it is one that has a known reply."""
        try:
            message = json.loads(line)
            method, ident, params = message["method"], message["id"], message["params"]
            version = params["_meta"][VERSION_KEY] if method == DISCOVER else params["protocolVersion"]
            well_formed = method == DISCOVER or (
                isinstance(params["clientInfo"]["name"], str) and isinstance(params["capabilities"], dict)
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not well_formed or not isinstance(version, str) or not isinstance(ident, str | int):
            return None
        if not isinstance(method, str) or not isinstance(dialect, str | None):
            return None
        known = self._answers.get(dialect or "", {}).get(method, {})
        result = known.get(version, known.get(OTHER))
        return {"jsonrpc": "2.0", "id": ident, "result": result} if result is not None else None


def _is_installed(sdk: str) -> bool:
    """Whether the SDK is of that release: looked up by name, as importing it is what takes so long."""
    return any(os.path.isdir(os.path.join(place, f"mcp-{sdk}.dist-info")) for place in sys.path)
