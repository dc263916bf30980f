"""The checkpoints of one kernel and of those that follow from it: kept in a ring, each with the files that go with it.

Which ones make way when there are too many is a pure function here. How a kernel is frozen is ``kernels``' to know,
how files are kept ``sandbox``'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import anyio

from cellwright.errors import CheckpointRefused, FileFailed, KernelError, UnknownCheckpoint
from cellwright.hosts.protocol import (
    Checkpointed,
    CheckpointsDropped,
    CheckpointStatus,
    EventBody,
    HostOptions,
    KernelReady,
    Run,
)
from cellwright.kernels import CheckpointGroup, Frozen, Kernel, OutputLimits
from cellwright.sandbox.files import shown_path
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.snapshot_store import SKIPPED
from cellwright.sandbox.snapshots import Taken, Versions
from cellwright.sandbox.workspace import Workspace

__all__ = ["CheckpointRing", "Checkpointing", "KeptCheckpoint", "Size", "checkpoints_to_drop"]

STORE = "checkpoints"
# Looking at how much memory checkpoints take is itself some work.
_LOOK_AGAIN_S = 1.0
_MOST_NAMED = 20
# In a person's folder they are the engine's, or the person's own: what is undone in a kernel is not undone in them.
_NOTEBOOKS = "*.ipynb"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Size:
    """A checkpoint as it counts."""

    id: str
    named: bool
    private_bytes: int


def checkpoints_to_drop(kept: Sequence[Size], *, most: int, memory: int) -> list[str]:
    """Which checkpoints go, of those kept from old to new: the oldest first, named ones last, the newest never."""
    gone: list[str] = []
    left = list(kept)
    while len(left) > 1 and (len(left) > most or sum(one.private_bytes for one in left) > memory):
        oldest = next((one for one in left[:-1] if not one.named), left[0])
        left.remove(oldest)
        gone.append(oldest.id)
    return gone


@dataclass(eq=False, slots=True)
class KeptCheckpoint:
    """A checkpoint: a frozen kernel, and the files that it had."""

    id: str
    name: str | None
    frozen: Frozen
    taken: Taken | None
    at: float = field(default_factory=time.time)
    private_bytes: int = 0

    def status(self) -> CheckpointStatus:
        left_out = self.taken.left_out if self.taken is not None else {}
        return CheckpointStatus(
            id=self.id,
            name=self.name,
            time=self.at,
            private_bytes=self.private_bytes,
            cannot_return=self.frozen.cannot_return or (),
            files=len(self.taken.entries) if self.taken is not None else 0,
            files_left_out=_named(left_out),
        )


class CheckpointRing:
    """All checkpoints that one session can go back to."""

    def __init__(
        self,
        checkpoint_group: CheckpointGroup,
        workspace: Workspace,
        options: Callable[[], HostOptions],
        *,
        ready: KernelReady,
        policy: Policy | None,
        capacity: int,
    ) -> None:
        """``capacity`` is the most that the files of all of them take on the disk."""
        self.checkpoint_group = checkpoint_group
        self.workspace = workspace
        self.ready = ready
        """What was told of the first kernel, which is true of those that follow too."""
        self.policy = policy
        self.capacity = capacity
        self._options = options
        self.kept: dict[str, KeptCheckpoint] = {}
        """From old to new."""
        self._store = Path(workspace.storage, STORE)
        self._versions: Versions | None = None
        self._newest: tuple[Taken | None, int] = (None, 0)
        """The files as they were last taken, and how often they had changed by then."""
        self.ahead: Frozen | None = None
        """The kernel as it is now, for a checkpoint that may be wanted."""
        self._working = anyio.Lock()
        self._looked_at = 0.0

    def __bool__(self) -> bool:
        return bool(self.kept)

    @property
    def ids(self) -> tuple[str, ...]:
        """From old to new."""
        return tuple(self.kept)

    def get(self, checkpoint_id: str) -> KeptCheckpoint:
        """One of them.

        Raises:
            UnknownCheckpoint: it is not kept, or no longer.
        """
        if checkpoint_id in self.kept:
            return self.kept[checkpoint_id]
        kept = ", ".join(self.kept) or "none"
        raise UnknownCheckpoint(f"Checkpoint {checkpoint_id} is not kept any more", hint=f"There are: {kept}")

    async def take(
        self, kernel: Kernel, checkpoint_id: str, name: str | None = None, *, at_once: bool = True
    ) -> KeptCheckpoint:
        """A checkpoint of an idle kernel. Whoever asks lets others make way for it when there is time.

        One that was taken ahead is used, if there is one. Unless it is wanted ``at_once``, what will not come back
        with it is known a little later.

        Raises:
            CheckpointRefused: with the reason.
            KernelGone: the kernel ended.
        """
        async with self._working:
            taken = await self._take_files()
            frozen, self.ahead = self.ahead, None
            try:
                frozen = frozen or await self.checkpoint_group.freeze(kernel, at_once=at_once)
                if at_once:
                    await frozen.describe()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    if frozen is not None:
                        await self.checkpoint_group.drop(frozen)
                    await self._forget(taken)
                raise
            kept = self.kept[checkpoint_id] = KeptCheckpoint(checkpoint_id, name, frozen, taken)
            return kept

    async def take_ahead(self, kernel: Kernel) -> None:
        """Freeze a kernel that has just become idle, so that whoever wants a checkpoint next need not wait for it."""
        async with self._working:
            if self.ahead is None:
                with contextlib.suppress(KernelError):  # told when a checkpoint is wanted
                    self.ahead = await self.checkpoint_group.freeze(kernel, at_once=False)

    async def drop_ahead(self) -> None:
        """The kernel is not any more as it was when it was frozen ahead."""
        async with self._working:
            await self._drop_ahead()

    async def _drop_ahead(self) -> None:
        ahead, self.ahead = self.ahead, None
        if ahead is not None:
            await self.checkpoint_group.drop(ahead, at_leisure=True)

    async def drop(self, checkpoint_id: str) -> None:
        """Let one go."""
        async with self._working:
            await self._drop(checkpoint_id)

    async def drop_oldest(self) -> str | None:
        """Let one go for want of memory, but never the newest; tells which, if there was one."""
        async with self._working:
            going = checkpoints_to_drop([_size(kept) for kept in self.kept.values()], most=0, memory=0)
            await self._drop_ahead()
            for checkpoint_id in going[:1]:
                await self._drop(checkpoint_id)
            return going[0] if going else None

    async def put_files_back(self, kept: KeptCheckpoint) -> list[str]:
        """Make the working directory what it was; nobody may be writing there. Tells what could not be.

        Raises:
            FileFailed: there is no room, or the directory cannot be written. Nothing was changed.
        """
        if kept.taken is None or self._versions is None:
            return []
        versions, taken = self._versions, kept.taken
        await self._drop_ahead()
        (newest, _), self._newest = self._newest, (None, 0)
        await self._forget(newest)
        await self.checkpoint_group.line.save()
        with self._opened(self.workspace.written) as target:
            restored = await anyio.to_thread.run_sync(versions.restore, taken, target)
        if self.workspace.mode == "overlay":
            await self.checkpoint_group.resettle()
        else:
            await self.checkpoint_group.line.bring_in()
        return [f"the file {told}" for told in _named(restored.failed)]

    async def copy_files(self, kept: KeptCheckpoint, workspace: Workspace) -> list[str]:
        """Put the files of a checkpoint into the directory of a branch, which is empty."""
        if kept.taken is None or self._versions is None:
            return []
        versions, taken = self._versions, kept.taken
        with self._opened(workspace.written) as target:
            if self.workspace.mode == "direct" and workspace.mode == "overlay":
                with self._opened(self.workspace.cwd) as lower:
                    done = await anyio.to_thread.run_sync(versions.fill_layer, taken, lower, target)
            else:
                done = await anyio.to_thread.run_sync(versions.restore, taken, target)
        return [f"the file {told}" for told in _named(done.failed)]

    async def move(self, kernel: Kernel, workspace: Workspace, limits: OutputLimits) -> None:
        """Let their kernel work in another place, which holds the same files. The checkpoints are let go."""
        await self.close()
        before, self.workspace = self.workspace, workspace
        self._store = Path(workspace.storage, STORE)
        if self.policy is not None:
            await self.checkpoint_group.line.save()
            self.checkpoint_group.moved(workspace, self.policy)
            if before.mode != workspace.mode:
                await self.checkpoint_group.resettle()
                await kernel.enter(workspace.cwd, limits)

    async def close(self) -> None:
        """Let all go."""
        async with self._working:
            await self._drop_ahead()
            for checkpoint_id in list(self.kept):
                await self._drop(checkpoint_id)
            if self._versions is not None:
                await anyio.to_thread.run_sync(self._versions.close)
                self._versions, self._newest = None, (None, 0)

    async def _take_files(self) -> Taken:
        line = self.checkpoint_group.line
        if not line.is_saved:
            await line.save()
        newest, changes = self._newest
        # What is in memory is known not to have changed since it was last saved.
        if newest is not None and line.layer is not None and changes == line.changes:
            return newest
        changes = line.changes
        taken = await anyio.to_thread.run_sync(self._keep_files)
        self._newest = (taken, changes)
        await self._forget(newest)
        return taken

    def _keep_files(self) -> Taken:
        if self._versions is None:
            # Left by a host that was killed: its checkpoints went with it.
            shutil.rmtree(self._store, ignore_errors=True)
            self._versions = Versions(self._store, capacity=self.capacity)
        try:
            with self._opened(self.workspace.written) as source:
                return self._versions.take(source, skip=_passed_over(self.workspace))
        except (FileFailed, OSError) as error:
            raise CheckpointRefused(f"the files cannot be kept: {error}") from error

    @staticmethod
    @contextlib.contextmanager
    def _opened(path: str) -> Iterator[int]:
        try:
            descriptor = os.open(path, _DIRECTORY)
        except OSError as error:
            raise FileFailed(
                f"The directory {path} cannot be opened: {error.strerror}", hint="Put it back, then try again"
            ) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @property
    def is_to_look_after(self) -> bool:
        """Whether there may be too many."""
        due = time.monotonic() - self._looked_at >= _LOOK_AGAIN_S
        return len(self.kept) > self._options().max_checkpoints or (due and len(self.kept) > 1)

    async def make_way(self) -> list[str]:
        """Let those go that are too many, or take too much memory; tells which."""
        async with self._working:
            if time.monotonic() - self._looked_at >= _LOOK_AGAIN_S:
                await anyio.to_thread.run_sync(self._look)
                self._looked_at = time.monotonic()
            options = self._options()
            going = checkpoints_to_drop(
                [_size(kept) for kept in self.kept.values()],
                most=options.max_checkpoints,
                memory=options.max_checkpoint_memory,
            )
            for checkpoint_id in going:
                await self._drop(checkpoint_id, at_leisure=True)
            return going

    def _look(self) -> None:
        for kept in list(self.kept.values()):
            kept.private_bytes = kept.frozen.private_bytes()

    async def _drop(self, checkpoint_id: str, *, at_leisure: bool = False) -> None:
        kept = self.kept.pop(checkpoint_id, None)
        if kept is None:
            return
        await self.checkpoint_group.drop(kept.frozen, at_leisure=at_leisure)
        await self._forget(kept.taken)

    async def _forget(self, taken: Taken | None) -> None:
        """Let files go that no checkpoint has, and that are not the newest."""
        needed = {kept.taken for kept in self.kept.values()} | {self._newest[0]}
        if taken is not None and self._versions is not None and taken not in needed:
            await anyio.to_thread.run_sync(self._versions.drop, taken)


def _passed_over(workspace: Workspace) -> frozenset[str]:
    """What is no part of a checkpoint: in a folder of a person's own, notebooks and whatever is the engine's."""
    if workspace.mode != "direct":
        return SKIPPED
    engines = [
        PurePath(path).relative_to(workspace.cwd)
        for path in workspace.hidden
        if PurePath(path).is_relative_to(workspace.cwd)
    ]
    return SKIPPED | {_NOTEBOOKS} | {f"/{path}" for path in engines}


def _named(files: Mapping[tuple[str, ...], str]) -> tuple[str, ...]:
    """Files with the reason of each, as many as anybody reads."""
    told = [f"{shown_path('/'.join(names))}: {why}" for names, why in files.items()]
    more = [f"and {len(told) - _MOST_NAMED} more"] if len(told) > _MOST_NAMED else []
    return (*told[:_MOST_NAMED], *more)


def _size(kept: KeptCheckpoint) -> Size:
    return Size(kept.id, kept.name is not None, kept.private_bytes)


# Takes checkpoints before cells, as a kernel's runner asks: when to freeze, when to let old ones go, what to
# tell.

NONE_OF_OURS = "only Python kernels of our own have checkpoints"


class Checkpointing:
    """The checkpoints of one runner's kernel. Without a ring all are refused."""

    def __init__(
        self,
        kernel: Kernel,
        ring: CheckpointRing | None,
        *,
        tell: Callable[[EventBody], None],
        in_background: Callable[..., None],
    ) -> None:
        self._kernel = kernel
        self._ring = ring
        self._tell = tell
        self._in_background: Callable[[Callable[..., Coroutine[Any, Any, None]], CheckpointRing], None] = (
            in_background
        )
        self._wanted: set[str] = set()
        """Executions before which a checkpoint was wanted."""
        self._cells = 0

    async def take(self, checkpoint_id: str, name: str | None) -> CheckpointStatus:
        """Take one now, of a kernel that is idle.

        Raises:
            CheckpointRefused: it cannot be taken, with the reason.
        """
        if self._ring is None:
            raise CheckpointRefused(NONE_OF_OURS)
        kept = await self._ring.take(self._kernel, checkpoint_id, name)
        self._in_background(self._make_way, self._ring)
        return kept.status()

    async def before(self, job: Run, checkpoint_id: str, send: Callable[[], None]) -> None:
        """Take one, if that can be done, and send the cell; tell what became of it as soon as it is known."""
        kept: KeptCheckpoint | None = None
        if self._ring is None:
            self._tell(Checkpointed(job.execution_id, refused=NONE_OF_OURS))
        else:
            self._wanted.add(job.execution_id)
            try:
                kept = await self._ring.take(self._kernel, checkpoint_id, at_once=False)
                self._tell(Checkpointed(job.execution_id, kept.status()))
            except KernelError as error:
                self._tell(Checkpointed(job.execution_id, refused=error.message))
        with contextlib.suppress(KernelError):  # that it has ended is told by itself
            send()
        if kept is not None:
            with contextlib.suppress(KernelError):  # it was dropped meanwhile
                if await kept.frozen.describe():
                    self._tell(Checkpointed(job.execution_id, kept.status()))

    def sent(self) -> None:
        """A cell is on its way to the kernel, which will not be as it was."""
        self._cells += 1
        if self._ring is not None and self._ring.ahead is not None:
            self._in_background(_drop_ahead, self._ring)

    def ended(self, execution_id: str, *, went_well: bool) -> None:
        """A cell has ended. ``went_well``: the kernel has nothing more to do, and the cell was no failure."""
        if self._ring is None:
            return
        if went_well and execution_id in self._wanted:
            # Another one will be wanted before the next cell, which is yet to come: now nobody waits for it.
            self._in_background(self._freeze_ahead, self._ring)
        self._wanted.discard(execution_id)
        # Only now: whatever is let go takes the machine's time, too.
        if self._ring.kept and self._ring.is_to_look_after:
            self._in_background(self._make_way, self._ring)

    async def _freeze_ahead(self, ring: CheckpointRing) -> None:
        cells = self._cells
        await ring.take_ahead(self._kernel)
        if self._cells != cells:  # it may have been frozen before or after that cell: nobody knows
            await ring.drop_ahead()

    async def _make_way(self, ring: CheckpointRing) -> None:
        gone = await ring.make_way()
        if gone:
            self._tell(CheckpointsDropped(tuple(gone)))


async def _drop_ahead(ring: CheckpointRing) -> None:
    await ring.drop_ahead()
