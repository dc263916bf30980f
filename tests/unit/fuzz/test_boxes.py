"""What the processes beside and below a kernel say over their sockets: monitors, checkpoints, fork servers.

Code of a session can reach the ends of some of them. Whatever comes, the one who asked gets its own error, the one who
listens goes on or ends in order, and no descriptor stays open.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from hypothesis import strategies as st

from cellwright.errors import CheckpointRefused, KernelGone, KernelStartError
from cellwright.kernels import _checkpoints
from cellwright.kernels._checkpoints import Frozen, KernelChannel
from cellwright.kernels._fork_channel import ForkChannel
from cellwright.kernels._monitor import MonitorChannel
from tests.support.fuzzing import each_effort, mutated_json, seeds, try_all

Packet = tuple[bytes, list[str]]
KINDS = {"file": lambda: os.open("/dev/null", os.O_RDONLY), "process": lambda: os.pidfd_open(os.getpid())}
"""What may come along as a descriptor. No child of the kernel is among them."""


def packets(name: str, *, most: int = 4) -> st.SearchStrategy[list[Packet]]:
    """Some packets, each with what comes along."""
    fds = st.lists(st.sampled_from(sorted(KINDS)), max_size=3)
    # A packet of no bytes is the end.
    content = mutated_json(seeds(name)).filter(lambda data: 0 < len(data) < 60_000)  # what one holds
    return st.lists(st.tuples(content, fds), min_size=1, max_size=most)


def send(end: socket.socket, said: list[Packet]) -> None:
    for content, kinds in said:
        fds = [KINDS[kind]() for kind in kinds]
        with suppress(OSError):  # nobody listens any more
            socket.send_fds(end, [content], fds)
        for fd in fds:
            os.close(fd)


async def read_all(end: socket.socket) -> None:
    """Let go of what is asked and of what comes along, until nobody asks any more."""
    end.setblocking(False)
    while True:
        await anyio.wait_readable(end)
        try:
            data, fds, _, _ = socket.recv_fds(end, 1 << 16, 16)
        except ConnectionError:
            return
        for fd in fds:
            os.close(fd)
        if not data:
            return


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Do the work in a loop of its own; afterwards as many descriptors are open as before."""
    before = _open_files()
    anyio.run(work)
    assert _open_files() == before


def _open_files() -> dict[str, str]:
    found = {}
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            found[fd.name] = str(fd.readlink())
    return found


@each_effort
def test_whatever_a_monitor_says_ends_its_own_box_at_most(effort: float) -> None:
    asks: dict[str, Callable[[MonitorChannel], Awaitable[Any]]] = {
        "hold": lambda line: line.hold(),
        "share": lambda line: line.share("/somewhere"),
        "settle": lambda line: line.settle([]),
        "furnish": lambda line: line.furnish({"mounts": [{"kind": "bind", "offered": True}]}),
        "grow": lambda line: line.grow([], saved=None, lifeline_fd=0),
    }

    def check(said: list[Packet], asked: str) -> None:
        async def work() -> None:
            line = MonitorChannel()
            monitor = socket.socket(fileno=os.dup(line.fd))
            line.handed_over()
            send(monitor, said)
            monitor.shutdown(socket.SHUT_WR)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(line.run)
                tasks.start_soon(read_all, monitor)
                with anyio.fail_after(10), suppress(KernelGone, KernelStartError):
                    if isinstance(fd := await asks[asked](line), int):
                        os.close(fd)
                await line.close()
            monitor.close()

        run(work)

    try_all(check, packets("box.json"), st.sampled_from(sorted(asks)), examples=150, effort=effort)


@each_effort
def test_whatever_a_kernel_says_of_a_checkpoint_is_a_checkpoint_or_a_refusal(effort: float) -> None:
    def check(said: list[Packet]) -> None:
        async def work() -> None:
            line = KernelChannel()
            kernel = socket.socket(fileno=os.dup(line.fd))
            line.handed_over()
            send(kernel, said)
            kernel.shutdown(socket.SHUT_WR)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_all, kernel)
                with anyio.fail_after(10), suppress(CheckpointRefused, KernelStartError):
                    (await line.freeze([1], list, at_once=True)).close()
                tasks.cancel_scope.cancel()
            kernel.close()
            line.close()

        run(work)

    try_all(check, packets("checkpoint.json"), examples=150, effort=effort)


@each_effort
def test_whatever_a_checkpoint_says_is_a_kernel_or_a_failed_start(effort: float) -> None:
    def check(described: list[Packet], spawned: list[Packet]) -> None:
        async def work() -> None:
            mine, theirs = _checkpoints._pair()
            frozen = Frozen(mine)
            send(theirs, described)
            with anyio.move_on_after(0.001), suppress(KernelStartError):
                assert all(isinstance(word, str) for word in await frozen.describe())
            send(theirs, spawned)
            theirs.shutdown(socket.SHUT_WR)
            with anyio.fail_after(10), suppress(KernelStartError):
                born, pid, lost = await frozen.spawn({"key": "k"}, [])
                assert (type(born), type(pid), {type(one) for one in lost} - {str}) == (int, int, set())
            theirs.close()
            frozen.close()

        run(work)

    try_all(check, packets("checkpoint.json"), packets("checkpoint.json"), examples=100, effort=effort)


@each_effort
def test_whatever_a_fork_server_says_is_a_fork_or_a_failed_start(effort: float) -> None:
    def check(said: list[Packet]) -> None:
        async def work() -> None:
            mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            channel = ForkChannel(mine)

            async def fork() -> None:
                with suppress(KernelStartError):
                    forked = await channel.fork({}, [], timeout_s=10)
                    os.close(forked.pidfd)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fork)
                await anyio.wait_readable(theirs)
                # What it says of its kernels ends them; this process is none.
                send(theirs, [(content, ["file" for _ in fds]) for content, fds in said])
                theirs.shutdown(socket.SHUT_WR)
                await channel.run()
            assert channel.closed.is_set()
            theirs.close()
            mine.close()

        run(work)

    try_all(check, packets("forkserver.json"), examples=150, effort=effort)
