"""Answers an MCP client that cannot be served: each of its requests gets the error, with what to do, until it leaves.

A connection that only ends would explain nothing to the person: clients show what a reply says, and few show stderr. Standard
library only, for the byte pump and for a daemon that did not come to be.
"""

from __future__ import annotations

import json
import socket
import threading

from cellwright.daemon._early_responder import Arrival
from cellwright.errors import CellwrightError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

__all__ = ["cause_of", "refusal_of", "refuse_arrivals", "refuse_requests"]

_INTERNAL_ERROR = -32603
_CHUNK = 65_536


def refusal_of(line: bytes, error: CellwrightError, answered: Container[Any] = ()) -> bytes | None:
    """The reply to one message; none if it is no request, or one that is ``answered`` already."""
    try:
        message = json.loads(line)
        ident = message["id"] if "method" in message else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(ident, str | int) or ident in answered:
        return None
    data = {"code": error.code, "reason": error.message, "hint": error.hint}
    refusal = {"code": _INTERNAL_ERROR, "message": str(error), "data": data}
    # As the SDK writes it: who waits for the last reply knows one by its head.
    reply = {"jsonrpc": "2.0", "id": ident, "error": refusal}
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"


def refuse_requests(
    read: Callable[[], bytes],
    write: Callable[[bytes], object],
    error: CellwrightError,
    *,
    received: bytes = b"",
    answered: Container[Any] = (),
) -> None:
    """Answer every request that ``received`` holds and ``read`` brings, until the client is gone."""
    rest = received
    while True:
        *lines, rest = rest.split(b"\n")
        try:
            for line in lines:
                if (reply := refusal_of(line, error, answered)) is not None:
                    write(reply)
            chunk = read()
        except OSError:
            return
        if not chunk:
            return
        rest += chunk


def refuse_arrivals(listener: socket.socket, arrivals: list[Arrival], error: CellwrightError) -> None:
    """Refuse all who came to a daemon that cannot start, each until it leaves.

    The socket's name must be gone by now: who comes later then starts another daemon, with settings that may be right.
    """
    listener.setblocking(False)
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            break
        connection.setblocking(True)
        arrivals.append(Arrival(connection))
    threads = [threading.Thread(target=_refuse_arrival, args=(arrival, error)) for arrival in arrivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _refuse_arrival(arrival: Arrival, error: CellwrightError) -> None:
    connection = arrival.connection
    with connection:
        try:
            while arrival.wants is None and (chunk := connection.recv(_CHUNK)):
                arrival.take(chunk)
            if arrival.wants not in (None, "mcp"):
                connection.sendall(json.dumps({"error": error.message, "hint": error.hint}).encode() + b"\n")
        except OSError:
            return
        if arrival.wants == "mcp":
            refuse_requests(
                lambda: connection.recv(_CHUNK),
                connection.sendall,
                error,
                received=arrival.said,
                answered=arrival.answered,
            )


def cause_of(error: BaseException) -> CellwrightError | None:
    """The error that is meant for people: itself, or the first one in a group of what several tasks met."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := cause_of(one)) is not None), None)
    return error if isinstance(error, CellwrightError) else None
