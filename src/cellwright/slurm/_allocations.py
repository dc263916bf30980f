"""Keeps track of this user's allocations: asks for them, ends them, and knows where each stands.

What a state means is decided in ``states``; what is written down lies in ``directories``. Nothing here speaks to a host.
While SLURM does not answer, the last that it said counts, and ``stale_since`` tells since when.
"""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import msgspec

from cellwright.errors import (
    CellwrightError,
    HostStartError,
    LimitReached,
    ShapeRefused,
    SlurmFailed,
    UnknownHost,
)
from cellwright.slurm._directories import (
    Allocation,
    AllocationDirectories,
    AllocationPaths,
    Expectation,
    write_expectation,
)
from cellwright.slurm._shapes import Shape, shape_arguments, warning_s
from cellwright.slurm._states import (
    AllocationState,
    Ended,
    Ending,
    JobRow,
    Pending,
    StateText,
    Submitting,
    Waiting,
    duration,
    position_of,
    state_of,
    state_text,
)
from cellwright.slurm._tls import make_credentials
from cellwright.slurm.commands import SlurmCommands

__all__ = ["AllocationOptions", "Allocations", "batch_script", "read_template"]
Changed: TypeAlias = Callable[[Allocation, Allocation | None], Awaitable[None]]

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")

_SOON_S: Final = 2.0

# A job that has waited so long is in a queue; asking more often would not bring it forward.
_EAGER_S: Final = 60.0

# Whoever asked sbatch and got no answer sees the job in the queue by then, or it is not there.
_SUBMITTED_BY_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class AllocationOptions:
    """What the settings say of all allocations."""

    python: str
    template: Path | None = None
    max_allocations: int = 4
    warn_s: int = 300
    poll_s: float = 10
    tls: bool = False
    """Whether hosts are reached by TLS, for which each allocation gets keys of its own."""
    expected: Expectation | None = None
    """What a host may begin with before anybody has reached it."""


class Allocations:
    """This user's allocations of one storage directory. ``load`` first; ``watch`` keeps them up to date."""

    def __init__(
        self,
        directory: Path,
        commands: SlurmCommands,
        options: AllocationOptions,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.stale_since: float | None = None
        """Since when SLURM has not answered."""
        self.trouble: SlurmFailed | None = None
        """What it, or its command, said instead."""
        self._directories = AllocationDirectories(directory)
        self._commands = commands
        self._options = options
        self._listeners: list[Changed] = []
        self._now = now
        self._known: dict[str, Allocation] = {}
        self._unreadable: list[str] = []
        self._doubted: set[str] = set()
        self._cancelled: set[str] = set()
        """Those that SLURM was told to end, of which it may say for a moment that they run."""
        self._looking = anyio.Lock()
        self._submitting = anyio.Lock()
        self._looked_at = 0.0
        self._wake = anyio.Event()
        self._news = anyio.Event()

    # What there is ------------------------------------------------------------------------------------------------

    def all(self, *, ended: bool = False) -> list[Allocation]:
        """Allocations that live, or also those that ended and are not forgotten, oldest first."""
        found = sorted(self._known.values(), key=lambda one: one.submitted_at)
        return [one for one in found if ended or one.alive]

    def find(self, wanted: str) -> Allocation:
        """The allocation of a name, a job's number or a key; the living one, else the latest.

        Raises:
            UnknownHost: there is none.
        """
        for candidate in (*reversed(self.all()), *reversed(self.all(ended=True))):
            if candidate.goes_by(wanted):
                return candidate
        names = ", ".join(one.name for one in self.all())
        raise UnknownHost(
            f"There is no allocation {wanted!r}",
            hint=f"There {'are' if ',' in names else 'is'} {names}"
            if names
            else "`cellwright host start` asks for one",
        )

    def told(self, allocation: Allocation) -> StateText:
        """Where an allocation stands, in words; and since when that is not certain."""
        now = self._now()
        told = state_text(allocation.state, now=now, name=allocation.named)
        if self.stale_since is None or not allocation.alive:
            return told
        since = duration(now - allocation.seen_at)
        return StateText(f"{told.text} as of {since} ago; SLURM does not answer: {self.trouble}", told.hint)

    async def has_cluster(self) -> bool:
        """Whether SLURM is configured here, as it was for whoever has an allocation."""
        return bool(self.all() or self._unreadable) or await self._commands.is_configured()

    async def load(self) -> None:
        """Read what an earlier process wrote down."""
        found, self._unreadable = await anyio.to_thread.run_sync(self._directories.read)
        self._known = {one.key: one for one in found}

    def listen(self, changed: Changed) -> None:
        """Have this called with each allocation whose state changed, and as it was before."""
        self._listeners.append(changed)

    # What can be done ---------------------------------------------------------------------------------------------

    async def start(self, name: str, shape: Shape, *, instead_of: str | None = None) -> Allocation:
        """Ask SLURM for an allocation; one of that name and shape that lives already is returned instead.

        ``instead_of`` is what a session asked for that this one is to take in.

        Raises:
            ShapeRefused: the name, the shape or the template cannot be used, or the name is taken by another shape.
            LimitReached: there are as many as ``slurm_max_allocations`` says.
            SlurmFailed: SLURM refused, or did not answer; then the job may still turn up.
        """
        _check_name(name)
        async with self._submitting:
            living = [one for one in self.all() if one.lasting]
            for one in living:
                if one.name == name:
                    return _same(one, shape)
            if len(living) >= self._options.max_allocations:
                raise LimitReached(
                    f"{len(living)} allocations are pending or running, as many as slurm_max_allocations allows",
                    setting="slurm_max_allocations",
                    hint="Stop one with `cellwright host stop NAME`, or raise the setting",
                )
            return await self._submit(name, shape, instead_of)

    async def stop(self, wanted: str) -> Allocation:
        """End an allocation, or take it out of the queue.

        Raises:
            UnknownHost: there is none of that name.
            SlurmFailed: SLURM did not take it, or has not told the job's number, without which nothing can be ended.
        """
        allocation = self.find(wanted)
        if allocation.job_id is None and allocation.alive:
            await self.look()
            allocation = self._known[allocation.key]
        if not allocation.alive:
            return allocation
        if allocation.job_id is None:
            raise SlurmFailed(
                f"Whether SLURM took allocation {allocation.name} is not known yet, and so nothing was ended",
                hint="Stop it again in a minute: its job may still turn up, and would run",
            )
        await self._commands.cancel(allocation.job_id)
        self._cancelled.add(allocation.key)
        self.doubt(allocation.key)
        await self.look()
        return self._known[allocation.key]

    async def forget(self, key: str) -> None:
        """Remove an ended allocation with its journal and log."""
        if (allocation := self._known.get(key)) is not None and not allocation.alive:
            del self._known[key]
            self._cancelled.discard(key)
            await anyio.to_thread.run_sync(self._directories.remove, key)

    # Keeping up ---------------------------------------------------------------------------------------------------

    def doubt(self, key: str) -> None:
        """Look more often until this one's state changes, or ``trust`` is said: its link broke."""
        self._doubted.add(key)
        self._wake.set()

    def trust(self, key: str) -> None:
        self._doubted.discard(key)

    async def news(self) -> None:
        """Wait until the state of some allocation changes."""
        await self._news.wait()

    async def watch(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self.look()
            self._wake = anyio.Event()
            with anyio.move_on_after(self._pause_s()):
                await self._wake.wait()

    async def look(self) -> bool:
        """Ask SLURM for all states now; whether it answered. Who asks while somebody looks gets the next look."""
        asked_at = self._now()
        async with self._looking:
            if self._looked_at > asked_at:
                return self.trouble is None
            begun = self._now()
            try:
                await self._look(begun)
            except SlurmFailed as error:
                if self.stale_since is None:
                    _log.warning("slurm_silent %s", error)
                    self.stale_since = begun
                self.trouble = error
            else:
                self.stale_since = self.trouble = None
            self._looked_at = begun
        return self.trouble is None

    async def _look(self, begun: float) -> None:
        if not self.all() and not self._unreadable:
            return  # nobody is asked about nothing
        # One that is submitted while SLURM answers is not in that answer.
        asked = {one.key for one in self.all()}
        rows = await self._commands.jobs()
        by_id = {row.job_id: row for row in rows}
        await self._adopt(rows)
        pending = any(row.state == "PENDING" and row.name.startswith(JOB_PREFIX) for row in rows)
        waiting = await self._queue() if pending else []
        for allocation in [one for one in self.all() if one.key in asked]:
            row = by_id.get(allocation.job_id) if allocation.job_id is not None else None
            state = await self._state(allocation, row, waiting, begun)
            if allocation.key in self._cancelled and not isinstance(state, Ended):
                state = Ending()
            fresh = msgspec.structs.replace(allocation, state=state, seen_at=begun)
            await self._take(fresh, allocation)

    async def _queue(self) -> list[Waiting]:
        try:
            return await self._commands.waiting()
        except SlurmFailed:  # a site may hide others' jobs; the place in the queue is then not known
            return []

    async def _state(
        self, allocation: Allocation, row: JobRow | None, waiting: list[Waiting], now: float
    ) -> AllocationState:
        if row is not None:
            return state_of(row, position=position_of(row, waiting))
        if allocation.job_id is None:
            lost = now - allocation.submitted_at > _SUBMITTED_BY_S
            return Ended("never_submitted", ended_at=now) if lost else Submitting()
        past = await self._commands.past(allocation.job_id)
        return state_of(past) if past is not None else Ended("unknown", ended_at=now)

    async def _adopt(self, rows: list[JobRow]) -> None:
        """Take up jobs of ours whose number was never written down, by the directory that only they have."""
        for row in rows:
            key = Path(row.directory).name
            if not row.name.startswith(JOB_PREFIX) or self._number_of(key) is not None:
                continue
            known = self._known.get(key)
            if known is None and key not in self._unreadable:
                continue
            if known is None:
                self._unreadable.remove(key)
                known = Allocation(
                    key=key,
                    name=row.name.removeprefix(JOB_PREFIX),
                    directory=str(self._directories.directory / key),
                    shape=Shape(),
                    submitted_at=row.submitted or self._now(),
                    state=Submitting(),
                )
            await self._take(msgspec.structs.replace(known, job_id=row.job_id), known)

    def _number_of(self, key: str) -> int | None:
        return known.job_id if (known := self._known.get(key)) is not None else None

    async def _take(self, fresh: Allocation, before: Allocation | None) -> None:
        """Note where an allocation stands; what matters is written down and told."""
        self._known[fresh.key] = fresh
        if before is not None and (fresh.state, fresh.job_id) == (before.state, before.job_id):
            return
        await anyio.to_thread.run_sync(self._directories.write, fresh)
        if before is None or type(fresh.state) is not type(before.state):
            _log.info("allocation key=%s job=%s state=%s", fresh.key, fresh.job_id, fresh.state)
            self._doubted.discard(fresh.key)
        self._news.set()
        self._news = anyio.Event()
        for changed in self._listeners:
            try:
                await changed(fresh, before)
            except CellwrightError:  # boundary: who listens must not keep others from being looked at
                _log.exception("allocation_listener_failed key=%s", fresh.key)

    def _pause_s(self) -> float:
        eager = self._now() - _EAGER_S
        soon = any(
            isinstance(one.state, Ending | Submitting)
            or one.key in self._doubted
            or (isinstance(one.state, Pending) and one.submitted_at > eager)
            for one in self.all()
        )
        return min(_SOON_S, self._options.poll_s) if soon else self._options.poll_s

    # Asking for one -----------------------------------------------------------------------------------------------

    async def _submit(self, name: str, shape: Shape, instead_of: str | None) -> Allocation:
        template = await anyio.to_thread.run_sync(read_template, self._options.template)
        key, directory = await anyio.to_thread.run_sync(self._directories.reserve, name)
        warn_s = warning_s(self._options.warn_s, shape.time)
        asked = Allocation(
            key=key,
            name=name,
            directory=str(directory),
            shape=shape,
            submitted_at=self._now(),
            state=Submitting(),
            warn_s=warn_s,
            instead_of=instead_of,
        )
        try:
            script = batch_script(
                template,
                name=name,
                python=self._options.python,
                directory=str(directory),
                modules=shape.modules,
            )
            (directory / "job.sh").write_text(script, encoding="utf-8")
            paths = AllocationPaths(directory)
            if self._options.tls:
                await anyio.to_thread.run_sync(make_credentials, paths.credentials)
            if self._options.expected is not None:
                await anyio.to_thread.run_sync(write_expectation, paths.expected, self._options.expected)
            await self._take(asked, None)
            job_id = await self._commands.submit(job_arguments(asked), directory / "job.sh")
        except SlurmFailed as error:
            if not error.refused:  # it may have been taken: the next looks will tell
                self._wake.set()
                raise
            await self._undo(key)
            raise
        except (ShapeRefused, HostStartError):
            await self._undo(key)
            raise
        submitted = msgspec.structs.replace(asked, job_id=job_id, state=Pending("None"), seen_at=self._now())
        await self._take(submitted, asked)
        self._wake.set()
        return submitted

    async def _undo(self, key: str) -> None:
        self._known.pop(key, None)
        await anyio.to_thread.run_sync(self._directories.remove, key)


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ShapeRefused(
            f"An allocation cannot be called {name!r}",
            hint="Use a letter, then up to 39 letters, digits, - or _",
        )


def _same(allocation: Allocation, shape: Shape) -> Allocation:
    if allocation.shape == shape:
        return allocation
    raise ShapeRefused(
        f"Allocation {allocation.name!r} (job {allocation.job_id}) was asked for with another shape",
        hint="Stop it first, or give the new one a --name of its own",
    )


# How ``sbatch`` is asked for an allocation. Pure; who asks is ``allocations``.

JOB_PREFIX: Final = "cellwright-"


def job_arguments(allocation: Allocation) -> list[str]:
    """How ``sbatch`` is asked for an allocation. Anybody may read it: there is nothing secret in it."""
    # sbatch takes "%" in a file's name for a pattern.
    log = str(allocation.log).replace("%", "%%")
    return [
        f"--job-name={JOB_PREFIX}{allocation.name}",
        "--nodes=1",
        "--ntasks=1",
        # What comes back after a requeue would be an empty host; sessions resume on a new allocation instead.
        "--no-requeue",
        f"--signal=B:USR1@{allocation.warn_s}",
        "--export=ALL",
        f"--chdir={allocation.directory}",
        f"--output={log}",
        "--open-mode=append",
        *shape_arguments(allocation.shape),
    ]


# The batch script of an allocation: our own ``job.sh``, or a site's. Fills in; submits nothing.

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")

_OURS: Final = Path(__file__).with_name("job.sh")


def batch_script(
    template: str, *, name: str, python: str, directory: str, modules: tuple[str, ...] = ()
) -> str:
    """The script of one allocation.

    Raises:
        ShapeRefused: the template cannot be used.
    """
    host = shlex.join([python, "-m", "cellwright.slurm.inside", directory])
    return fill_template(
        template,
        {
            "host": host,
            "modules": "\n".join(_loading(module) for module in modules),
            "python": shlex.quote(python),
            "directory": shlex.quote(directory),
            "name": shlex.quote(name),
        },
    )


def read_template(path: Path | None) -> str:
    """A site's template, or our own.

    Raises:
        ShapeRefused: it cannot be read.
    """
    try:
        return (path or _OURS).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ShapeRefused(
            f"The template {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="Correct slurm_template, or remove it",
        ) from error


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """A template with its placeholders filled in.

    Raises:
        ShapeRefused: it is no script, names what there is not, or does not start the host.
    """
    if not template.startswith("#!"):
        raise ShapeRefused("The template is no script: its first line must be `#!/bin/bash -l` or alike")
    for number, line in enumerate(template.splitlines(), 1):
        for match in _PLACEHOLDER.finditer(line):
            if match[1] not in values:
                raise ShapeRefused(
                    f"The template's line {number} has {match[0]}, which there is not",
                    hint=f"There are {', '.join(f'{{{{{known}}}}}' for known in values)}",
                )
    if "host" not in {match[1] for match in _PLACEHOLDER.finditer(template)}:
        raise ShapeRefused(
            "The template does not start the host", hint="End it with the line `exec {{host}}`"
        )
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _loading(module: str) -> str:
    complaint = shlex.quote(f"cellwright: module {module} cannot be loaded")
    return f"module load {shlex.quote(module)} || {{ echo {complaint} >&2; exit 97; }}"
