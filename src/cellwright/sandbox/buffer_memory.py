"""Measures the memory in a session's sockets and pipes, which is no process's. Blocking; decides nothing.

Sockets are asked for over netlink (``sock_diag``), which tells all of a network namespace, also those that nobody holds a
descriptor of: unaccepted, closed with data in them, or on their way. Pipes can only be counted.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

__all__ = ["Held", "descriptors_of", "held_by", "pipe_bytes", "socket_bytes", "unix_bytes_among"]

_SOCK_DIAG, _DUMP, _DIAG_BY_FAMILY = 4, 0x301, 20
_HEADER = struct.Struct("=IHHII")
_OVER = (2, 3)  # an error, and the end
_PACKET_BYTES = 1 << 16
_ALL_STATES, _LISTENING = 0xFFFFFFFF, 10
# Of a unix socket: its peer, its queues and its memory. Of others: memory.
_SHOW_UNIX, _PEER, _QUEUES, _UNIX_MEMORY, _UNIX_HEAD = 0x34, 2, 4, 5, 16
_SHOW_MEMORY, _MEMORY, _HEAD = 1 << 6, 7, 72
_MEMORY_FIELDS = struct.Struct("=8I")
_PROTOCOLS = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)
_ALL_SOCKETS, _PAGES = Path("/proc/net/sockstat"), re.compile(r"^(?:TCP|UDP):.* mem (\d+)$", re.MULTILINE)
_LARGEST = Path("/proc/sys/net/core/wmem_max")
_NUMBER = re.compile(r"(socket|pipe):\[(\d+)\]")

# As Linux has them: what pipes of one user take before they are cut to two pages, and what one takes unasked.
_USERS_PIPES, _PIPE, _SMALL_PIPE = 64 << 20, 64 << 10, 8 << 10


class Held:
    """The sockets and pipes of which processes have descriptors, by their numbers."""

    def __init__(self) -> None:
        self.sockets: set[int] = set()
        self.pipes: set[int] = set()


def descriptors_of(pids: Iterable[int]) -> int:
    """How many descriptors these processes have, as far as they can be looked into."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            # Before Linux 6.2 the size of the directory tells nothing.
            told = os.stat(f"/proc/{pid}/fd").st_size  # quick
            found += told or len(os.listdir(f"/proc/{pid}/fd"))  # as above
    return found


def held_by(pids: Iterable[int]) -> Held:
    """What these processes hold, as far as they can be looked into."""
    held = Held()
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                with contextlib.suppress(OSError):  # closed meanwhile
                    if found := _NUMBER.match(os.readlink(descriptor.path)):  # quick
                        (held.sockets if found[1] == "socket" else held.pipes).add(int(found[2]))
    return held


def pipe_bytes(count: int) -> int:
    """What so many pipes take, if all are full and nobody made one larger."""
    return min(count * _PIPE, _USERS_PIPES) + count * _SMALL_PIPE


def unix_bytes_among(numbers: Collection[int]) -> int:
    """What those of this network namespace's unix sockets hold that have these numbers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diagnostics:
        return _unix_bytes(diagnostics.fileno(), numbers)


def socket_bytes(diagnostics: int, capacity: int) -> int:
    """What the sockets of the network namespace hold that a netlink socket is of; ``capacity`` is how much would be no matter.

    Those of the internet are asked for only where all of the machine's together hold more: the system walks a table that is
    the whole machine's, for tens of milliseconds.
    """
    held = _unix_bytes(diagnostics)
    if held + _machines_bytes() <= capacity:
        return held
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in _PROTOCOLS:
            request = struct.pack("=BBBxI48x", family, protocol, _SHOW_MEMORY, _ALL_STATES)
            for told in _dump(diagnostics, request):
                held += _memory_of(dict(_attributes(told, _HEAD)).get(_MEMORY, b""))
    return held


def _machines_bytes() -> int:
    """What all of this machine's sockets of the internet hold."""
    return sum(map(int, _PAGES.findall(_ALL_SOCKETS.read_text()))) * os.sysconf("SC_PAGE_SIZE")


def _unix_bytes(diagnostics: int, among: Collection[int] | None = None) -> int:
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_UNIX, 0, 0)
    held = orphaned = 0
    for told in _dump(diagnostics, request):
        state, number = struct.unpack_from("=xxBxI", told)
        if among is not None and number not in among:
            continue
        attributes = dict(_attributes(told, _UNIX_HEAD))
        held += _memory_of(attributes.get(_UNIX_MEMORY, b""))
        unread = struct.unpack_from("=I", attributes.get(_QUEUES, bytes(8)))[0]
        has_peer = any(attributes.get(_PEER, b""))
        # One that listens has connections unread, of which the system tells nothing before somebody accepts them.
        orphaned += unread if state == _LISTENING else bool(unread and not has_peer)
    # What was sent counts with its sender; of one that is gone nobody can tell how much memory it took.
    return held + (orphaned * 2 * int(_LARGEST.read_text()) if orphaned else 0)


def _memory_of(told: bytes) -> int:
    if len(told) < _MEMORY_FIELDS.size:
        return 0
    received, _, sent, _, ahead, queued, options, waiting = _MEMORY_FIELDS.unpack_from(told)
    return int(received + max(sent, queued) + ahead + options + waiting)


def _dump(diagnostics: int, request: bytes) -> Iterator[bytes]:
    """Everything that is told of sockets of one kind; nothing where the system does not know the question."""
    os.write(diagnostics, _HEADER.pack(_HEADER.size + len(request), _DIAG_BY_FAMILY, _DUMP, 0, 0) + request)
    while True:
        packet = os.read(diagnostics, _PACKET_BYTES)
        place = 0
        while place < len(packet):
            length, kind = struct.unpack_from("=IH", packet, place)
            if kind in _OVER:
                return
            yield packet[place + _HEADER.size : place + length]
            place += length + 3 & ~3


def _attributes(told: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    while place + 4 <= len(told):
        length, kind = struct.unpack_from("=HH", told, place)
        yield kind, told[place + 4 : place + length]
        place += max(length, 4) + 3 & ~3
