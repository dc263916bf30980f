"""The checkpoints of one kernel and of those that follow from it: kept in a ring, each with the files that go with it.

Which ones make way when there are too many is a pure function here. How a kernel is frozen is ``kernels``' to know,
how files are kept ``sandbox``'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import anyio

from cellwright.errors import CheckpointRefused, FileFailed, KernelError, UnknownCheckpoint
from cellwright.hosts.protocol import CheckpointStatus, HostOptions, KernelReady
from cellwright.kernels import CheckpointGroup, Frozen, Kernel, OutputLimits
from cellwright.sandbox.listings import shown_path
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.snapshot_store import SKIPPED
from cellwright.sandbox.snapshots import Taken, Versions
from cellwright.sandbox.workspace import Workspace

__all__ = ["CheckpointRing", "KeptCheckpoint", "Size", "checkpoints_to_drop"]

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
        self._kept: dict[str, KeptCheckpoint] = {}
        self._store = Path(workspace.storage, STORE)
        self._versions: Versions | None = None
        self._newest: tuple[Taken | None, int] = (None, 0)
        """The files as they were last taken, and how often they had changed by then."""
        self._ahead: Frozen | None = None
        """The kernel as it is now, for a checkpoint that may be wanted."""
        self._working = anyio.Lock()
        self._looked_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def is_ahead(self) -> bool:
        """Whether the kernel was frozen ahead."""
        return self._ahead is not None

    @property
    def ids(self) -> tuple[str, ...]:
        """From old to new."""
        return tuple(self._kept)

    def get(self, checkpoint_id: str) -> KeptCheckpoint:
        """One of them.

        Raises:
            UnknownCheckpoint: it is not kept, or no longer.
        """
        if checkpoint_id in self._kept:
            return self._kept[checkpoint_id]
        kept = ", ".join(self._kept) or "none"
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
            frozen, self._ahead = self._ahead, None
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
            kept = self._kept[checkpoint_id] = KeptCheckpoint(checkpoint_id, name, frozen, taken)
            return kept

    async def take_ahead(self, kernel: Kernel) -> None:
        """Freeze a kernel that has just become idle, so that whoever wants a checkpoint next need not wait for it."""
        async with self._working:
            if self._ahead is None:
                with contextlib.suppress(KernelError):  # told when a checkpoint is wanted
                    self._ahead = await self.checkpoint_group.freeze(kernel, at_once=False)

    async def drop_ahead(self) -> None:
        """The kernel is not any more as it was when it was frozen ahead."""
        async with self._working:
            await self._drop_ahead()

    async def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await self.checkpoint_group.drop(ahead, at_leisure=True)

    async def drop(self, checkpoint_id: str) -> None:
        """Let one go."""
        async with self._working:
            await self._drop(checkpoint_id)

    async def drop_oldest(self) -> str | None:
        """Let one go for want of memory, but never the newest; tells which, if there was one."""
        async with self._working:
            going = checkpoints_to_drop([_size(kept) for kept in self._kept.values()], most=0, memory=0)
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
            for checkpoint_id in list(self._kept):
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
        return len(self._kept) > self._options().max_checkpoints or (due and len(self._kept) > 1)

    async def make_way(self) -> list[str]:
        """Let those go that are too many, or take too much memory; tells which."""
        async with self._working:
            if time.monotonic() - self._looked_at >= _LOOK_AGAIN_S:
                await anyio.to_thread.run_sync(self._look)
                self._looked_at = time.monotonic()
            options = self._options()
            going = checkpoints_to_drop(
                [_size(kept) for kept in self._kept.values()],
                most=options.max_checkpoints,
                memory=options.max_checkpoint_memory,
            )
            for checkpoint_id in going:
                await self._drop(checkpoint_id, at_leisure=True)
            return going

    def _look(self) -> None:
        for kept in list(self._kept.values()):
            kept.private_bytes = kept.frozen.private_bytes()

    async def _drop(self, checkpoint_id: str, *, at_leisure: bool = False) -> None:
        kept = self._kept.pop(checkpoint_id, None)
        if kept is None:
            return
        await self.checkpoint_group.drop(kept.frozen, at_leisure=at_leisure)
        await self._forget(kept.taken)

    async def _forget(self, taken: Taken | None) -> None:
        """Let files go that no checkpoint has, and that are not the newest."""
        needed = {kept.taken for kept in self._kept.values()} | {self._newest[0]}
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
