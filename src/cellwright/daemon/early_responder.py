"""Receives clients while the rest of the daemon is still being imported, in a thread of its own.

It answers a client's first question from ``greetings.json`` where that holds the answer, tells a status, and keeps
everything that was said for the real server, which then answers the same question again: that answer is dropped.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading

from cellwright.daemon.greetings import Greetings
from cellwright.daemon.handshake import LONGEST_HELLO, parse_hello

__all__ = ["Arrival", "EarlyResponder"]

_CHUNK = 64 * 1024
# What a client may say before anybody has time for it; the rest waits in the socket.
_MOST_BYTES = 4 * 1024 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Arrival:
    """A connection, what it said so far beyond its hello, and the question that is answered already."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.said = b""
        self.hello: dict[str, Any] | None = None
        self.answered: str | int | None = None
        self.first_line_seen = False

    def take(self, chunk: bytes) -> None:
        """Add what was read; the hello is taken off the front when it is complete."""
        self.said += chunk
        if self.hello is None and (b"\n" in self.said or len(self.said) > LONGEST_HELLO):
            line, _, rest = self.said.partition(b"\n")
            found = parse_hello(line)
            if found is not None:
                self.hello, self.said = found, rest
            else:  # no pump: MCP from the first byte
                self.hello = {"want": "mcp", "dialect": None, "directory": None}

    @property
    def wants(self) -> str | None:
        """What the hello asks for, once it is there."""
        return self.hello["want"] if self.hello is not None else None


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
            assert arrival.hello is not None  # for the type checker: wants is known
            hello = arrival.hello
            # What is said to whoever chose some of the tools was not recorded.
            known = None if hello.get("toolset") else arrival.said.partition(b"\n")[0]
            answer = self._greetings.answer(known, hello.get("dialect")) if known is not None else None
            if answer is not None:
                _send(arrival, answer)
                arrival.answered = answer["id"]
            self._greeted.set()


def _send(arrival: Arrival, message: dict[str, Any]) -> None:
    try:
        arrival.connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:  # gone already; the server finds out
        return
