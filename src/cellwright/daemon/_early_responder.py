"""Receives clients while the rest of the daemon is still being imported, in a thread of its own.

It answers a client's first questions from the record (``_recorded_answers``) where that holds the answer, tells a
status, and keeps everything that was said for the real server. That answers the same questions again: its answers are
dropped where they are the recorded ones, and corrected where they are not (``_connections``).
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading

from cellwright.daemon._recorded_answers import RecordedAnswer, RecordedAnswers
from cellwright.daemon.handshake import LONGEST_HANDSHAKE, parse_handshake

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Arrival", "EarlyResponder"]

_CHUNK = 64 * 1024

# What a client may say before anybody has time for it; the rest waits in the socket.
_MOST_BYTES = 4 * 1024 * 1024

# What a client is answered before that: as much as its socket holds unread, since one that does not read must not keep
# everybody else waiting. Each line takes some room of its own there.
_MOST_ANSWERED = 100 * 1024
_LINE_COST = 1024


class Arrival:
    """A connection, what it said so far beyond its hello, and the questions that are answered already."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.said = b""
        self.handshake: dict[str, Any] | None = None
        self.answered: dict[str | int, RecordedAnswer] = {}
        self._looked_at = 0
        self._room = _MOST_ANSWERED

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

    def new_lines(self) -> list[bytes]:
        """The complete lines of what it said that nobody has looked at yet."""
        end = self.said.rfind(b"\n") + 1
        lines = self.said[self._looked_at : end].splitlines()
        self._looked_at = max(end, self._looked_at)
        return lines

    def has_room(self, line: bytes) -> bool:
        """Whether the client's socket surely takes a line more, which counts as sent; after the first no, none does."""
        self._room -= len(line) + _LINE_COST
        return self._room >= 0

    @property
    def is_greeted(self) -> bool:
        """Whether it had its answer to ``initialize``, and may have the recorded lists."""
        return any(answer.greets for answer in self.answered.values())

    @property
    def wants(self) -> str | None:
        """What the hello asks for, once it is there."""
        return self.handshake["want"] if self.handshake is not None else None


class EarlyResponder:
    """Accepts connections until ``finish`` hands them over."""

    def __init__(self, listener: socket.socket, about: dict[str, Any], directory: str) -> None:
        self._listener = listener
        self._about = about
        self._arrivals: dict[int, Arrival] = {}
        self._poll = select.poll()
        self._wake_reading, self._wake_writing = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="early_responder", daemon=True)
        self._record = RecordedAnswers(directory)
        self._greeted = threading.Event()
        self._finished = False

    def start(self) -> None:
        self._thread.start()

    def wait_for_first(self, seconds: float) -> None:
        """Wait until a client was greeted, but no longer than this."""
        self._greeted.wait(seconds)

    def finish(self) -> list[Arrival]:
        """Stop accepting, and hand over every connection with what it said; nothing the second time."""
        if self._finished:
            return []
        self._finished = True
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
            _send(arrival, json.dumps({**self._about, "state": "starting"}).encode() + b"\n")
            self._poll.unregister(arrival.connection)
            del self._arrivals[arrival.connection.fileno()]
            arrival.connection.close()
        elif arrival.wants == "mcp":
            assert arrival.handshake is not None  # for the type checker: wants is known
            for line in arrival.new_lines():
                answer = self._record.answer(line, arrival.handshake, greeted=arrival.is_greeted)
                if answer is not None and answer.ident not in arrival.answered:
                    reply = answer.line
                    if arrival.has_room(reply):
                        arrival.answered[answer.ident] = answer
                        _send(arrival, reply)
                self._greeted.set()


def _send(arrival: Arrival, line: bytes) -> None:
    try:
        arrival.connection.sendall(line)
    except OSError:  # gone already; the server finds out
        return
