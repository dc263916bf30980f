"""What sockets and pipes hold is told by the system, and counted."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from cellwright.hosts._watchdog import held_by, pipe_bytes, socket_bytes, unix_bytes_among

PAIRS, CHUNK = 4, 1 << 16
# Each takes about twice as much of the machine's memory as of this.
FULL = 64 << 10


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def fill(sender: socket.socket) -> None:
    sender.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            sender.send(bytes(CHUNK))


def own() -> int:
    return unix_bytes_among(held_by([os.getpid()]).sockets)


def test_what_was_sent_and_not_read_counts_while_somebody_holds_it(stack: ExitStack) -> None:
    before = own()
    pairs = [socket.socketpair() for _ in range(PAIRS)]
    for sender, receiver in pairs:
        stack.callback(sender.close)
        stack.callback(receiver.close)
        fill(sender)
    assert own() - before >= PAIRS * FULL
    for sender, _ in pairs:
        sender.close()
    assert own() - before >= PAIRS * FULL, "though who sent it is gone"
    for _, receiver in pairs:
        receiver.close()
    assert own() <= before


def test_a_connection_that_nobody_accepted_counts(stack: ExitStack) -> None:
    diagnostics = stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)).fileno()
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    before = socket_bytes(diagnostics, capacity=0)
    for _ in range(PAIRS):
        with socket.create_connection(listener.getsockname()) as sender:
            fill(sender)
    assert socket_bytes(diagnostics, capacity=0) - before >= PAIRS * FULL


def test_a_unix_connection_that_nobody_accepted_counts_though_who_sent_is_gone(stack: ExitStack) -> None:
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(f"\0cellwright-{os.getpid()}")
    listener.listen()
    before = own()
    for _ in range(PAIRS):
        with socket.socket(socket.AF_UNIX) as sender:
            sender.connect(listener.getsockname())
            fill(sender)
    assert own() - before >= PAIRS * FULL


def test_pipes_are_counted_once_and_as_what_the_system_gives_them(stack: ExitStack) -> None:
    before = held_by([os.getpid()]).pipes
    for end in os.pipe():
        stack.callback(os.close, end)
    assert len(held_by([os.getpid(), os.getpid()]).pipes - before) == 1
    assert pipe_bytes(0) == 0
    assert pipe_bytes(10) >= 10 << 16
    # Beyond what one user has, each is cut to two pages.
    assert pipe_bytes(100_000) - pipe_bytes(50_000) == 50_000 * (8 << 10)
