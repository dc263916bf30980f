"""A checkpoint group: one sandbox, the kernel in it, its checkpoints, and the kernels that go on from them.

A checkpoint group lasts as long as anything in it does: a kernel, a checkpoint, a checkpoint group that grew below it. It decides nothing
about which checkpoints are worth keeping (the host does), and runs no cells.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cellwright.errors import CheckpointRefused, KernelError, KernelGone, KernelStartError
from cellwright.kernels._checkpoints import Frozen, KernelChannel
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._monitor import MonitorChannel, NestedSandbox
from cellwright.kernels._resources import LISTENED, Connection, KernelResources, create_connection
from cellwright.kernels.client import KernelClient
from cellwright.kernels.kernel import Kernel, OutputLimits, StartingKernel
from cellwright.kernels.processes import ExitOutput, KernelProcess, expected_child
from cellwright.sandbox.cgroups import Group
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import PROXY_SOCKET
from cellwright.sandbox.workspace import Workspace, needs_own_fork
from cellwright_kernel import descendants

__all__ = ["CheckpointGroup", "CheckpointGroups"]
RELAY = b"cw-relay"

STATUS_TIMEOUT_S = 20.0

REMEMBERED_ENDS = 256

BURY_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class KernelFactory:
    """The functions of a launcher by which kernels are made from checkpoints."""

    bring_up: Callable[[StartingKernel], Awaitable[Kernel]]
    grow: Callable[[CheckpointGroup, Workspace, Policy], Awaitable[tuple[CheckpointGroup, NestedSandbox]]]
    """Makes a sandbox below a checkpoint group's."""
    mounts: Callable[[Workspace, Policy], list[dict[str, Any]]]
    """The mounts that show a workspace to the kernels in a sandbox."""
    start_timeout_s: float


class CheckpointGroup:
    """One sandbox with its kernel, the checkpoints of that kernel, and the kernels made from them."""

    def __init__(
        self,
        resources: KernelResources,
        line: MonitorChannel,
        factory: KernelFactory,
        *,
        monitor: int,
        depth: int,
        above: CheckpointGroup | None = None,
    ) -> None:
        """``depth`` says how many generations below the monitor the last of those is who look after the sandbox."""
        self.line = line
        self.proxy_socket = resources.proxy_socket
        self._resources = resources
        self._factory = factory
        self.monitor = monitor
        self._depth = depth
        self.unforkable = ""
        """Why there are no checkpoints of its kernels, if so."""
        self._above = above
        self.below: set[CheckpointGroup] = set()
        """The groups whose sandboxes began in one of this group's checkpoints."""
        self._frozen: set[Frozen] = set()
        self._members = 0
        self._numbers = count(1)
        self._codes: dict[int, int] = {}
        self._told = anyio.Event()
        self._held = above is not None
        self._first: tuple[int, KernelProcess] | None = None
        self._closed = False
        self._mounts: tuple[Workspace, list[dict[str, Any]]] | None = None
        self._gone = anyio.Event()
        line.on_end = self._on_end
        if above is not None:
            above.below.add(self)

    @property
    def directory(self) -> Path:
        """Where the sandbox is built, with a directory for each kernel after the first."""
        return self._resources.directory

    @property
    def cgroup(self) -> Group | None:
        """The cgroup that holds the sandbox; one that grew below another is in that one's."""
        return self._resources.group or (self._above.cgroup if self._above is not None else None)

    @property
    def shares_group(self) -> bool:
        """Whether kernels of sandboxes above or below are in the same cgroup."""
        return self._above is not None or bool(self.below)

    # Checkpoints -------------------------------------------------------------------------------------------------

    async def freeze(self, kernel: Kernel, *, at_once: bool = True) -> Frozen:
        """A checkpoint of a kernel that is idle.

        Raises:
            CheckpointRefused: it cannot be forked now, with the reason.
            KernelGone: it ended meanwhile.
        """
        if kernel.kernel_channel is None or kernel.over.is_set():
            raise CheckpointRefused("this kernel cannot be forked")
        if self.unforkable:
            raise CheckpointRefused(self.unforkable)
        await self._hold(kernel)
        ended, kernel.unburied = kernel.unburied, []
        try:
            frozen = await kernel.kernel_channel.freeze(ended, self.pids, at_once=at_once)
        except TimeoutError:
            raise CheckpointRefused("the kernel did not answer in time") from None
        except KernelStartError as error:
            raise CheckpointRefused(error.message) from error
        frozen.parent = kernel
        self._frozen.add(frozen)
        return frozen

    async def drop(self, frozen: Frozen, *, at_leisure: bool = False) -> None:
        """Let a checkpoint go, and with the last member the group itself.

        Its origin is its parent, and must take note; ``at_leisure`` it does so when it is asked for the next one.
        """
        if frozen not in self._frozen:
            return
        self._frozen.discard(frozen)
        frozen.close()
        parent: Kernel | None = frozen.parent
        if parent is not None and not parent.over.is_set():
            parent.unburied.append(frozen.number)
            if not at_leisure:
                await self._bury(parent)
        await self.close_if_empty()

    async def _bury(self, kernel: Kernel) -> None:
        content = {"pids": kernel.unburied}
        kernel.unburied = []
        with contextlib.suppress(TimeoutError, KernelGone, KernelError):
            await kernel.client.request(
                "cellwright_bury_request", content, timeout_s=BURY_TIMEOUT_S, channel="control"
            )

    async def spawn(self, frozen: Frozen, limits: OutputLimits) -> Kernel:
        """A kernel that goes on from a checkpoint, in this sandbox; whoever was its kernel must have ended.

        Raises:
            KernelStartError: it could not be made.
        """
        return await self._make(frozen, limits, self)

    async def grow(
        self, frozen: Frozen, limits: OutputLimits, workspace: Workspace, policy: Policy
    ) -> tuple[CheckpointGroup, Kernel]:
        """A kernel that goes on from a checkpoint of this sandbox in another one below it, with its checkpoint group.

        Raises:
            KernelStartError: it could not be made.
        """
        below, nested = await self._factory.grow(self, workspace, policy)
        parent: Kernel | None = frozen.parent
        if parent is not None and parent.kernel_channel is not None and not parent.over.is_set():
            parent.kernel_channel.set_apart()
        try:
            return below, await self._make(frozen, limits, below, nested.namespaces)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await below.close()
            raise
        finally:
            for fd in (*nested.namespaces, nested.pidfd):
                os.close(fd)

    async def _make(
        self, frozen: Frozen, limits: OutputLimits, owner: CheckpointGroup, namespaces: Sequence[int] = ()
    ) -> Kernel:
        directory = owner.directory / f"n{next(owner._numbers)}"
        connection = create_connection(directory)
        exit_output, line = ExitOutput(), KernelChannel()
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        owner._members += 1
        try:
            with _listening(connection) as listeners:
                fds = [exit_output.write_fd, ready_write, line.fd, *listeners, *namespaces]
                job = {
                    "prefix": connection.prefix,
                    "key": connection.key,
                    "max_bytes": limits.max_bytes,
                    "max_messages": limits.max_messages,
                }
                born, pid, lost = await frozen.spawn(job, fds, owner.line.admit if namespaces else None)
                pidfd = _opened(pid)
        except BaseException:
            os.close(ready_read)
            exit_output.handed_over()
            exit_output.close()
            line.close()
            shutil.rmtree(directory, ignore_errors=True)
            owner._members -= 1
            raise
        finally:
            os.close(ready_write)
        exit_output.handed_over()
        line.handed_over()
        starting_kernel = StartingKernel(
            process=owner._process(pid, pidfd, born, exit_output),
            client=KernelClient(connection),
            directory=directory,
            started_by="checkpoint",
            ready=partial(_ready, line, ready_read),
            start_timeout_s=self._factory.start_timeout_s,
            owner=owner,
            line=owner.line,
            proxy_socket=owner.proxy_socket,
            kernel_channel=line,
        )
        kernel = await owner._bring_up(starting_kernel)
        kernel.lost = (*(frozen.cannot_return or ()), *lost)
        return kernel

    def _process(self, pid: int, pidfd: int, born: int, exit_output: ExitOutput) -> KernelProcess:
        """A kernel's process here, whose end the sandbox tells by the number that it was born with."""
        return KernelProcess(
            pid,
            pidfd,
            status=partial(self.status_of, born),
            exit_output=exit_output,
            group=self.cgroup,
            tree=self,
        )

    async def _bring_up(self, starting_kernel: StartingKernel) -> Kernel:
        try:
            return await self._factory.bring_up(starting_kernel)
        finally:
            # From here on it counts for itself; it may even have ended.
            self._members -= 1
            with anyio.CancelScope(shield=True):
                await self.close_if_empty()

    def settled(self, workspace: Workspace, mounts: list[dict[str, Any]]) -> None:
        """How the sandbox's working directory was mounted, should it have to be again."""
        self._mounts = (workspace, mounts)

    def moved(self, workspace: Workspace, policy: Policy) -> None:
        """The working directory is another place's from now on: its files lie there, as they are."""
        self.settled(workspace, self._factory.mounts(workspace, policy))

    async def resettle(self) -> None:
        """Show what now lies in the working directory: an overlay must not be changed from below while it is used.

        Raises:
            KernelStartError: it could not be mounted.
        """
        if self._mounts is not None:
            workspace, mounts = self._mounts
            await self.line.settle(mounts, saved=Path(workspace.written), again=True)

    async def run(self) -> None:
        """Listen to the sandbox, until it is gone or closed."""
        try:
            await self._resources.run()
        except anyio.get_cancelled_exc_class():
            # Whoever owned all checkpoint groups gives up: nobody will come to empty this one.
            with anyio.CancelScope(shield=True):
                await self.close()
            raise
        finally:
            self._gone.set()
            self._told.set()

    # Ends --------------------------------------------------------------------------------------------------------

    def joined(self) -> None:
        """A kernel is about to live here."""
        self._members += 1

    async def left(self, process: KernelProcess) -> None:  # as every home has it
        """A kernel has ended."""
        self._members -= 1
        if self._held:
            # What it started and disowned is not its successor's.
            self.kill()
        with contextlib.suppress(OSError):
            await self.line.save()
        await self.close_if_empty()

    async def status_of(self, number: int) -> int | None:
        """How a process ended whose parent keeps this sandbox; None where nobody can tell."""
        with anyio.move_on_after(STATUS_TIMEOUT_S):
            while number not in self._codes and not self._gone.is_set():
                await self._told.wait()
        return self._codes.pop(number, None)

    async def _hold(self, kernel: Kernel) -> None:
        """Let the sandbox outlive its kernel from now on."""
        process, line = kernel.process, kernel.kernel_channel
        if self._held or line is None or line.pid is None or not isinstance(process, KernelProcess):
            return
        number = _number_inside(line.pid)
        await self.line.hold()
        self._held, self._first = True, (number, process)
        process.belong_to(self)
        if number in self._codes:  # it ended just now
            self._on_end(number, self._codes.pop(number))

    def _on_end(self, number: int, code: int) -> None:
        if self._first is not None and number == self._first[0]:
            self._first[1].report_end(code)
            self._first = None
            return
        self._codes[number] = code
        while len(self._codes) > REMEMBERED_ENDS:  # most are of processes that nobody asks about
            del self._codes[next(iter(self._codes))]
        self._told.set()
        self._told = anyio.Event()

    async def close_if_empty(self) -> None:
        if not (self._members or self._frozen or self.below or self._closed):
            await self.close()

    async def close(self) -> None:
        """End everything that is left, and let go of all."""
        if self._closed:
            return
        self._closed = True
        for one in list(self.below):
            await one.close()
        for frozen in list(self._frozen):
            frozen.close()
        if self._held:
            self.line.end()
        await self._resources.close()
        if self._above is not None:
            self._above.below.discard(self)
            await self._above.close_if_empty()

    # Its processes -----------------------------------------------------------------------------------------------

    def pids(self) -> list[int]:
        """Everybody here, checkpoints included, checkpoint groups below not."""
        return descendants.tree_of(self.monitor, but=self._others())

    def kill(self) -> None:
        """End the kernel and what it started, but neither checkpoints nor those who look after the sandbox."""
        spared = {frozen.pid for frozen in self._frozen} | self._others()
        keepers = self._keepers()
        descendants.kill_tree(self.monitor, but=spared, spared=lambda pid: pid in keepers or _is_relay(pid))

    def _keepers(self) -> set[int]:
        """Those who look after the sandbox: its monitor, and below that one after another."""
        found = [self.monitor]
        for _ in range(self._depth):
            found += [pid for pid in descendants.children_of(found[-1]) if pid not in self._others()][:1]
        return set(found)

    def _others(self) -> set[int]:
        """Where checkpoint groups below begin."""
        return {one.monitor for one in self.below}


def _number_inside(pid: int) -> int:
    """A process's number as its own pid namespace has it."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def _is_relay(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().strip() == RELAY
    except OSError:
        return False


def _opened(pid: int) -> int:
    """A descriptor of a new kernel's process, whose code may have ended it by now."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise KernelStartError(f"The checkpoint's kernel is gone: {error.strerror}") from error


@contextlib.contextmanager
def _listening(connection: Connection) -> Iterator[list[int]]:
    """The sockets of a connection, bound here and listening; the kernel gets them as they are."""
    with contextlib.ExitStack() as stack:
        found = []
        for channel in LISTENED:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(connection.path(channel))
            listener.listen(64)
            listener.setblocking(False)
            found.append(listener.fileno())
        yield found


async def _ready(line: KernelChannel, ready_fd: int) -> None:
    """Wait until the kernel listens."""
    try:
        await line.meet()
        await anyio.wait_readable(ready_fd)
        if not os.read(ready_fd, 1):
            await anyio.sleep_forever()
    finally:
        os.close(ready_fd)


# Makes what a fork server's kernels live in, and looks after it: checkpoint groups in sandboxes, and sandboxes below those.


class CheckpointGroups:
    """All checkpoint groups of one fork server."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        *,
        bring_up: Callable[[StartingKernel], Awaitable[Kernel]],
        lives: Callable[[int], AbstractContextManager[None]],
        isolation: Isolation | None,
        readable: Callable[[], list[str]],
        directory: Path,
        lifeline_fd: int,
        start_timeout_s: float,
    ) -> None:
        """``lives`` counts a process among those that live, for a while."""
        self._tasks = tasks
        self._lives = lives
        self._isolation = isolation
        self._readable = readable
        self._directory = directory
        self._lifeline_fd = lifeline_fd
        self._numbers = count(1)
        self._factory = KernelFactory(
            bring_up=bring_up,
            grow=self._grow,
            mounts=self.mounts,
            start_timeout_s=start_timeout_s,
        )

    def found(self, resources: KernelResources, line: MonitorChannel, monitor: int) -> CheckpointGroup:
        """A checkpoint group in a sandbox that was just made."""
        sandboxed = self._isolation is not None and self._isolation.stands_by
        checkpoint_group = CheckpointGroup(
            resources, line, self._factory, monitor=monitor, depth=1 if sandboxed else 0
        )
        if self._isolation is not None and not sandboxed:
            checkpoint_group.unforkable = (
                "without namespaces (tier C) no copy of a kernel may look at its own memory"
            )
        self._tasks.start_soon(self._look_after, checkpoint_group, monitor)
        return checkpoint_group

    def mounts(self, workspace: Workspace, policy: Policy | None) -> list[dict[str, Any]]:
        """The mounts that show a workspace to the kernels in a sandbox."""
        if self._isolation is None:
            return []
        return self._isolation.under(policy).mounts(workspace, self._readable())

    async def _grow(
        self, checkpoint_group: CheckpointGroup, workspace: Workspace, policy: Policy
    ) -> tuple[CheckpointGroup, NestedSandbox]:
        """A sandbox below a checkpoint group's, in which nobody lives yet."""
        if self._isolation is None or not self._isolation.stands_by:
            raise CheckpointRefused("without namespaces a branch has no sandbox of its own")
        if needs_own_fork(workspace):
            raise CheckpointRefused(
                f"a project directly below / ({workspace.top}) cannot be shown to a branch"
            )
        mounts = self.mounts(workspace, policy)
        directory = self._directory / f"b{next(self._numbers)}"
        directory.mkdir(mode=0o700)
        proxy_socket = self._isolation.under(policy).proxy_socket()
        if proxy_socket is not None:
            await self._tasks.start(proxy_socket.serve, directory / PROXY_SOCKET)
        try:
            nested = await checkpoint_group.line.grow(
                mounts,
                saved=Path(workspace.written),
                lifeline_fd=self._lifeline_fd,
                proxy_socket=directory / PROXY_SOCKET if proxy_socket is not None else None,
            )
        except BaseException:
            with anyio.CancelScope(shield=True):
                await KernelResources(directory, proxy_socket=proxy_socket).close()
            raise
        resources = KernelResources(directory, nested.line, proxy_socket)
        below = CheckpointGroup(
            resources, nested.line, self._factory, monitor=nested.pid, depth=2, above=checkpoint_group
        )
        below.settled(workspace, mounts)
        self._tasks.start_soon(self._look_after, below, nested.pid)
        return below, nested

    async def _look_after(self, checkpoint_group: CheckpointGroup, monitor: int) -> None:
        # Should the fork server die, its monitors become children of this process.
        with self._lives(monitor), expected_child(monitor):
            await checkpoint_group.run()
