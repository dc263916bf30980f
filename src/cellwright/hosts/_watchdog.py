"""Watches what no hard limit keeps: the memory of a kernel's whole tree with its sockets and pipes, and what it writes to
its directory.

Looks and tells (``look`` returns the limit that was passed); whoever asked ends the kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cellwright.kernels import Kernel, QuickCount
from cellwright.sandbox.exit_reasons import LimitHit, over_disk, over_files, over_memory, over_processes
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.workspace import Workspace
from cellwright_kernel import descendants

__all__ = ["Usage", "Watch", "held_by", "pipe_bytes", "socket_bytes", "unix_bytes_among"]

Counts = dict[tuple[int, int], QuickCount]

# The processes that stay beside a kernel.
_OWN_TASKS = 4

# Looking at a directory may take no more than this part of a processor's time.
_SHARE = 10
_BLOCK = 512

# Were they all pipes, they would hold a few megabytes.
_FEW_DESCRIPTORS = 256

# So many times over its quota, a session is not even let to clear up any more.
_HOPELESS = 4


@dataclass(slots=True)
class Usage:
    """What lies in directories."""

    used: int = 0
    files: int = 0


class Watch:
    """Looks after one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        workspace: Workspace,
        policy: Policy,
        found: Usage | None = None,
        holder: Kernel | None = None,
    ) -> None:
        """``holder`` is the kernel that holds what is written there, where that is another one."""
        self._kernel = kernel
        line = (holder or kernel).line
        # Without a mount namespace temporary files lie on the disk, beside the sockets.
        self._directories = [str(kernel.directory / "tmp")]
        # What is in memory is limited by its size.
        if line is None or line.layer is None:
            self._directories.append(workspace.written)
        self._policy = policy
        if found is None:
            found = _usage([workspace.written]) if workspace.mode == "direct" else Usage()
        self.found = found
        """What its session found there: a folder of the person's own is not empty."""
        begun = self._written()
        self._clearing = begun if self._is_over(begun) else None
        self._next_look = 0.0
        self._worked: dict[tuple[int, int], int] = {}
        self._buffers_then = 0
        self._counts: Counts = {}
        self._memory_then = 0
        """What an exact count found, when the quick ones were these."""

    def look(self) -> LimitHit | None:
        """The limit that the kernel is over, if it is. Blocking."""
        return self._memory() or self._tasks() or self._disk()

    def _memory(self) -> LimitHit | None:
        limit = self._policy.memory_bytes
        process = self._kernel.process
        if limit is None:
            return None
        if (
            process.in_group
        ):  # which keeps the limit itself, and ends one process for it: the rest go with that
            return process.group_limit()
        counts = process.quick_counts()
        # The quick count has shared pages in it more than once, and can only be too high.
        quick = sum(count.resident for count in counts.values())
        buffers = self._buffers(counts, limit - quick)
        if quick + buffers <= limit:
            return None
        # Checkpoints share nearly all they have: the exact count is far below, and too dear to be taken at each look.
        if self._counts and self._memory_then + most_grown(self._counts, counts) + buffers <= limit:
            return None
        self._counts, self._memory_then = counts, process.memory_bytes()
        used = self._memory_then + buffers
        return over_memory(self._policy, used) if used > limit else None

    def _buffers(self, counts: Counts, capacity: int) -> int:
        """What sockets and pipes hold, up to what does not matter; asked for only when somebody did something."""
        worked = {which: count.worked for which, count in counts.items()}
        if worked == self._worked:
            return self._buffers_then
        self._worked = worked
        pids, line = [pid for pid, _ in counts], self._kernel.line
        diagnostics = line.diagnostics if line is not None else -1
        few = diagnostics >= 0 and descriptors_of(pids) <= _FEW_DESCRIPTORS
        held = Held() if few else held_by(pids)
        # Without a network of its own it has unix sockets only, among all of the machine's.
        sockets = socket_bytes(diagnostics, capacity) if diagnostics >= 0 else unix_bytes_among(held.sockets)
        self._buffers_then = sockets + pipe_bytes(len(held.pipes))
        return self._buffers_then

    def _tasks(self) -> LimitHit | None:
        """Processes and threads: hard where the kernel's user is nobody else, watched where it is the host's."""
        limit = self._policy.processes
        if limit is None:
            return None
        count = sum(map(descendants.threads_of, self._kernel.process.descendants()))
        return over_processes(self._policy, count) if count > limit + _OWN_TASKS else None

    def _disk(self) -> LimitHit | None:
        begun, worked = time.monotonic(), time.thread_time()
        if begun < self._next_look:
            return None
        now = self._written()
        # Its own work, not the clock's: a busy machine, which a session can make, would put off the next look. A slow
        # disk is left alone for as long as it took.
        ended = time.monotonic()
        self._next_look = ended + max(_SHARE * (time.thread_time() - worked), ended - begun)
        if not self._is_over(now):
            self._clearing = None
        elif not self._is_clearing(now):
            over_bytes = now.used > self._policy.disk_bytes
            return over_disk(self._policy, now.used) if over_bytes else over_files(self._policy, now.files)
        return None

    def _written(self) -> Usage:
        there = _usage(self._directories)
        return Usage(there.used - self.found.used + self._deleted(), there.files - self.found.files)

    def _is_over(self, usage: Usage, times: int = 1) -> bool:
        policy = self._policy
        return usage.used > times * policy.disk_bytes or usage.files > times * policy.disk_files

    def _is_clearing(self, now: Usage) -> bool:
        """Whether a kernel that took over from one that filled the directory makes it no fuller."""
        last = self._clearing
        if last is None or now.used > last.used or now.files > last.files or self._is_over(now, _HOPELESS):
            return False
        self._clearing = now
        return True

    def _deleted(self) -> int:
        """What files without a name take up, which code keeps by keeping them open."""
        held: dict[tuple[int, int], int] = {}
        devices = {os.stat(path).st_dev for path in self._directories if os.path.isdir(path)}
        for pid in self._kernel.process.descendants():
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
                for descriptor in descriptors:
                    _note_deleted(descriptor, held)
        return sum(size for (device, _), size in held.items() if device in devices)


def most_grown(before: Counts, now: Counts) -> int:
    """By how many bytes the memory of all processes together can have grown at most."""
    grown = 0
    for which, count in now.items():
        earlier = before.get(which)
        was = earlier.resident + earlier.faulted if earlier is not None else 0
        grown += max(0, count.resident + count.faulted - was)
    return grown


def _note_deleted(descriptor: os.DirEntry[str], held: dict[tuple[int, int], int]) -> None:
    with contextlib.suppress(OSError):  # closed meanwhile
        status = descriptor.stat()
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
            held[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK


def _usage(directories: list[str]) -> Usage:
    total = Usage()
    ahead = list(directories)
    while ahead:
        try:
            entries = os.scandir(ahead.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                _count(entry, total, ahead)
    return total


def _count(entry: os.DirEntry[str], total: Usage, ahead: list[str]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        total.used += status.st_blocks * _BLOCK
        total.files += 1
        if entry.is_dir(follow_symlinks=False):
            ahead.append(entry.path)
    except OSError:  # it was deleted meanwhile
        return


# Measures the memory in a session's sockets and pipes, which is no process's. Blocking; decides nothing.

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
