"""Carries connections to 127.0.0.1:PORT in a session's own network to the unix socket of its proxy outside.
And the other way round, for kernels that only listen on ports (see ``_ferry``).

Programs know proxies by host and port only, and a closed network has none but its own loopback. Looks into nothing
and decides nothing: what may be reached is the proxy's business. One thread, bounded memory, standard library only.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["CONNECTIONS_VARIABLE", "open_listener", "proxy_environment", "relay", "relay_to_port"]

CONNECTIONS_VARIABLE = "CELLWRIGHT_CONNECTIONS_AT"
"""Where code asks for the operator's connections (see ``connect``), if there are any."""

MAX_CONNECTIONS = 128
"""Further connections wait in the kernel until one ends."""

_BUFFER = 64 * 1024
# Long enough for a program to read an answer that came before it had sent all of its question.
_GRACE_S = 2.0
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_GONE = (
    b"HTTP/1.1 502 cellwright's network proxy is gone: restart the session\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


def open_listener(port: int = 0) -> socket.socket:
    """A socket that listens on this network's loopback; port 0 takes a free one."""
    return socket.create_server(("127.0.0.1", port), backlog=MAX_CONNECTIONS)


def proxy_environment(port: int) -> dict[str, str]:
    """The variables by which programs find the proxy. What listens inside the sandbox is reached without it."""
    address, direct = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    found = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "NO_PROXY": direct}
    return found | {name.lower(): value for name, value in found.items()}


def relay(listener: socket.socket, target: str) -> None:
    """Carry every connection to the unix socket, until the listener is closed or the process ends.

    ``target`` may be ``/proc/self/fd/N`` of a descriptor that was opened while the socket's directory was in sight.
    """
    with selectors.DefaultSelector() as selector:
        _Bridge(listener, lambda: _connect(socket.AF_UNIX, target), selector, gone=_GONE).run()


def relay_to_port(listener: socket.socket, port: int) -> None:
    """Carry every connection to a port of the loopback, until the listener is closed or the process ends."""
    with selectors.DefaultSelector() as selector:
        _Bridge(listener, lambda: _connect(socket.AF_INET, ("127.0.0.1", port)), selector).run()


def main(arguments: list[str]) -> None:
    """``python -m cellwright_kernel.bridge SOCKET [PORT]``: says ``ready PORT``, then carries until it is ended."""
    target, port = arguments[0], int(arguments[1]) if len(arguments) > 1 else 0
    with open_listener(port) as listener:
        sys.stdout.write(f"ready {listener.getsockname()[1]}\n")
        sys.stdout.flush()
        relay(listener, target)


@dataclass(eq=False)
class _Flow:
    """One direction of a connection."""

    source: socket.socket
    sink: socket.socket
    waiting: bytes = b""
    is_over: bool = False
    """The source has ended, and the sink was told once nothing waits."""

    is_unheard: bool = False
    """The sink takes no more; the source is read to its end all the same."""

    def read(self) -> None:
        try:
            data = self.source.recv(_BUFFER)
        except ConnectionResetError:
            data = b""
        if data:
            self.waiting = b"" if self.is_unheard else data
        else:
            self.is_over = True
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)

    def write(self) -> None:
        self.waiting = self.waiting[self.sink.send(self.waiting) :]


@dataclass(eq=False)
class _Pair:
    """A connection: the program's socket, the proxy's, and what flows between them."""

    inner: socket.socket
    outer: socket.socket
    flows: tuple[_Flow, _Flow] = field(init=False)
    is_dropped: bool = False
    is_ending: bool = False

    def __post_init__(self) -> None:
        self.flows = (_Flow(self.inner, self.outer), _Flow(self.outer, self.inner))

    def sockets(self) -> Iterator[socket.socket]:
        yield self.inner
        yield self.outer

    def wanted(self, end: socket.socket) -> int:
        """The events that are worth waiting for: a source is read again only when all of it was handed on."""
        events = 0
        for flow in self.flows:
            if flow.source is end and not flow.waiting and not flow.is_over:
                events |= _READ
            if flow.sink is end and flow.waiting:
                events |= _WRITE
        return events

    def act(self, end: socket.socket, events: int) -> None:
        for flow in self.flows:
            if flow.sink is end and events & _WRITE and flow.waiting:
                self._hand_on(flow)
            if flow.source is end and events & _READ and not flow.waiting and not flow.is_over:
                flow.read()

    def _hand_on(self, flow: _Flow) -> None:
        try:
            flow.write()
        except ConnectionError:
            if flow.sink is self.inner:
                raise
            # The proxy answered early and left. Its answer reaches the program only if the program's bytes are read.
            flow.is_unheard, flow.waiting = True, b""

    @property
    def is_answered(self) -> bool:
        """Whether the proxy has said all that it will."""
        return self.flows[1].is_over

    @property
    def is_over(self) -> bool:
        return all(flow.is_over for flow in self.flows)


class _Bridge:
    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], socket.socket],
        selector: selectors.BaseSelector,
        *,
        gone: bytes = b"",
    ) -> None:
        self._listener = listener
        self._connect = connect
        self._selector = selector
        self._gone = gone
        self._pairs = 0
        self._listening = False
        self._ending: deque[tuple[float, _Pair]] = deque()

    def run(self) -> None:
        self._listener.setblocking(False)
        while True:
            self._listen()
            if not self._selector.get_map():
                return
            for key, events in self._selector.select(self._drop_ended()):
                if key.data is None:
                    self._accept()
                elif not key.data.is_dropped:
                    self._carry(key.data, key.fileobj, events)  # type: ignore[arg-type]  # only sockets are registered

    def _listen(self) -> None:
        """Listen while there is room."""
        wanted = self._pairs < MAX_CONNECTIONS and self._listener.fileno() >= 0
        if wanted and not self._listening:
            self._selector.register(self._listener, _READ)
        elif self._listening and not wanted:
            self._selector.unregister(self._listener)
        self._listening = wanted

    def _accept(self) -> None:
        try:
            inner, _ = self._listener.accept()
        except OSError:
            return
        try:
            outer = self._connect()
        except OSError:
            with inner, contextlib.suppress(OSError):
                inner.sendall(self._gone)
            return
        pair = _Pair(inner, outer)
        self._pairs += 1
        for end in pair.sockets():
            if end.family != socket.AF_UNIX:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setblocking(False)
            self._selector.register(end, _READ, pair)

    def _carry(self, pair: _Pair, end: socket.socket, events: int) -> None:
        try:
            pair.act(end, events)
        except BlockingIOError:
            return
        except OSError:
            self._drop(pair)
            return
        if pair.is_over:
            self._drop(pair)
            return
        if pair.is_answered and not pair.is_ending:
            pair.is_ending = True
            self._ending.append((time.monotonic() + _GRACE_S, pair))
        for one in pair.sockets():
            self._want(pair, one)

    def _want(self, pair: _Pair, end: socket.socket) -> None:
        events, known = pair.wanted(end), end in self._selector.get_map()
        if events and known:
            self._selector.modify(end, events, pair)
        elif events:
            self._selector.register(end, events, pair)
        elif known:
            self._selector.unregister(end)

    def _drop_ended(self) -> float | None:
        """Close what the proxy is done with and the program keeps open; tell when to look again."""
        now = time.monotonic()
        while self._ending and (self._ending[0][1].is_dropped or self._ending[0][0] <= now):
            _, pair = self._ending.popleft()
            self._drop(pair)
        return self._ending[0][0] - now if self._ending else None

    def _drop(self, pair: _Pair) -> None:
        if pair.is_dropped:
            return
        pair.is_dropped = True
        for end in pair.sockets():
            if end in self._selector.get_map():
                self._selector.unregister(end)
            end.close()
        self._pairs -= 1


def _connect(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    connection = socket.socket(family)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


if __name__ == "__main__":
    main(sys.argv[1:])
