"""Branches: sessions grown from another one's state, compared, and one of them taken back.

By a checkpoint where the kernel can be forked into a sandbox of its own, else by replay, which is said. What a single
session does stands in ``session``.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
from msgspec.structs import replace

from cellwright.engine import _recovery
from cellwright.engine._checkpoints import NOT_FILES
from cellwright.engine._context import Services
from cellwright.engine._replay import run_steps
from cellwright.engine.approvals import Matter
from cellwright.engine.lineage import cut, of_session, returned, steps
from cellwright.engine.records import Batch, CheckpointRecord, SessionRecord, put_session
from cellwright.engine.session import Session
from cellwright.errors import (
    CellwrightError,
    CheckpointRefused,
    KernelBusy,
    KernelError,
    LimitReached,
    UnknownSession,
)
from cellwright.hosts import protocol
from cellwright.notebook import DocumentReplaced
from cellwright.sandbox.workspace import exchange_storage, remove_storage

__all__ = ["Adopted", "Branch", "Branches", "SessionView", "compare_sessions"]
MOST_BRANCHES = 64


@dataclass(frozen=True, slots=True)
class Branch:
    """A session that was grown from another, how, and what it had to do without."""

    session: Session
    by: Literal["checkpoint", "replay"]
    reason: str | None = None
    """Why it was replayed, where it was."""
    not_carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Adopted:
    """A session that took one of its branches back, and the branches that went."""

    session: Session
    branch_id: str
    dropped: tuple[str, ...]


class Branches:
    """Grows and takes back. Belongs to the engine, whose sessions these are."""

    def __init__(
        self,
        services: Services,
        sessions: dict[str, Session],
        *,
        enter: Callable[[SessionRecord, Session], Awaitable[Session]],
        delete: Callable[[str], Awaitable[None]],
        new_id: Callable[[], str],
    ) -> None:
        """``enter`` makes a session that begins as a copy of another's document, and is kept from work until it has its
        kernel; ``delete`` ends one with its file.
        """
        self._services = services
        self._sessions = sessions
        self._enter = enter
        self._delete = delete
        self._new_id = new_id

    # Growing -----------------------------------------------------------------------------------------------------

    async def grow(
        self, origin: Session, checkpoint: str | None, count: int, *, trial: bool = False
    ) -> list[Branch]:
        """Sessions of their own from a checkpoint, or from the state that there is now.

        For a ``trial`` nothing is replayed, and no session suspended.

        Raises:
            UnknownCheckpoint: it is not kept.
            KernelBusy: there is no such state while a cell runs.
            KernelError: a trial cannot go on from the checkpoint.
        """
        if not 1 <= count <= MOST_BRANCHES:
            raise LimitReached(
                f"{count} branches cannot be made at once",
                setting="count",
                hint=f"Ask for 1 to {MOST_BRANCHES}",
            )
        await origin.refresh()
        reason, kept = None, origin.find_checkpoint(checkpoint) if checkpoint is not None else None
        if kept is None:
            try:
                kept = await origin.checkpoint()
            except CheckpointRefused as refusal:
                reason = refusal.message
        try:
            grown = await self._grow_all(origin, kept, reason, count, trial=trial)
            return [branch for branch in grown if branch is not None]
        finally:
            if checkpoint is None and kept is not None:
                with suppress(CellwrightError):  # it went with its kernel
                    await origin.drop_checkpoint(kept.id)

    async def _grow_all(
        self, origin: Session, kept: CheckpointRecord | None, reason: str | None, count: int, *, trial: bool
    ) -> list[Branch | None]:
        grown: list[Branch | None] = [None] * count

        async def grow_one(place: int) -> None:
            grown[place] = await self._grow_one(origin, kept, reason, trial=trial)

        failures: list[CellwrightError] = []
        try:
            async with anyio.create_task_group() as growing:
                for place in range(count):
                    growing.start_soon(grow_one, place)
        except* CellwrightError as group:
            failures = [error for error in group.exceptions if isinstance(error, CellwrightError)]
        if failures:
            for branch in grown:
                if branch is not None:
                    await self._delete(branch.session.id)
            raise failures[0]
        return grown

    async def _grow_one(
        self, origin: Session, kept: CheckpointRecord | None, reason: str | None, *, trial: bool
    ) -> Branch:
        with anyio.CancelScope(shield=True):  # one that is half begun would be nobody's to remove
            session = await self._enter(self._new_record(origin, kept), origin)
        try:
            with origin.at_work(), session.at_work():
                return await self._give_state(origin, session, kept, reason, trial=trial)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._delete(session.id)
            raise

    async def _give_state(
        self,
        origin: Session,
        session: Session,
        kept: CheckpointRecord | None,
        reason: str | None,
        *,
        trial: bool,
    ) -> Branch:
        """Bring a branch to its original's state, from a checkpoint or, where that cannot be and it is no trial, by replay."""
        try:
            # Neither what it grows from nor what grows beside it makes room for it.
            spare = [one.id for one in self._sessions.values() if one.record.branch_of == origin.id]
            async with self._services.admit(session.record, spare=(origin.id, *spare), suspends=not trial):
                if kept is not None:
                    try:
                        return await self._by_checkpoint(origin, session, kept)
                    except KernelError as error:
                        if trial:
                            raise
                        reason = error.message
                # Without a sandbox that shows it elsewhere, its folder is where it lies.
                session.context.record = replace(session.record, seen_at=None)
                with anyio.CancelScope(shield=True):
                    await session.kernel.ensure()
        finally:
            session.context.turn.release()
        return await self._by_replay(origin, session, kept, reason)

    def _new_record(self, origin: Session, kept: CheckpointRecord | None) -> SessionRecord:
        """A branch as it is before it has a kernel."""
        before, branch_id = origin.record, self._new_id()
        path = _free_path(origin.path, branch_id)
        # Two sessions cannot both work in one folder: the branch gets a view over it.
        direct = before.mode == "direct"
        return replace(
            before,
            id=branch_id,
            name=path.stem,
            path=str(path),
            created_at=time.time(),
            kernel_id=None,
            reason=None,
            mode="overlay" if direct else before.mode,
            project=before.project or (str(origin.folder) if direct else None),
            lineage=(),
            former=(),
            checkpoints=(),
            left_by=None,
            hold=None,
            handback=None,
            branch_of=origin.id,
            branched_from=kept.id if kept is not None else None,
            seen_at=str(origin.cwd) if before.mode == "private" else None,
        )

    async def _by_checkpoint(self, origin: Session, branch: Session, kept: CheckpointRecord) -> Branch:
        generation = branch.generation + 1
        request = protocol.BranchKernel(
            kernel_id=origin.record.kernel_id or origin.record.left_by or "",
            checkpoint_id=kept.id,
            new_kernel_id=f"{branch.id}.{generation}",
            place=branch.place,
        )
        with anyio.CancelScope(shield=True):
            ready = await origin.host.call(request, protocol.KernelReady)
            branch.context.record = replace(
                branch.record,
                generation=generation,
                kernel_id=request.new_kernel_id,
                on=origin.record.on,
                mode=ready.mode,
                lineage=returned(of_session(kept.lineage, origin.id), generation),
            )
            lost = (*dict.fromkeys((*kept.cannot_return, *ready.lost, *kept.files_left_out)), NOT_FILES)
            await self._mark_stale(origin, branch)
            await self._tell(origin, branch, by="checkpoint", reason=None, lost=lost)
        return Branch(branch, "checkpoint", None, lost)

    async def _mark_stale(self, origin: Session, branch: Session) -> None:
        """Say in the branch's document which outputs are of what ran after the checkpoint that it began at."""
        recorder, batch = self._services.recorder, Batch()
        await recorder.journal.flush()
        branch.checkpointing.mark_stale(
            batch, _recovery.load_lineage(recorder.journal, origin.id, branch.record.lineage)
        )
        await recorder.commit(batch)

    async def _by_replay(
        self, origin: Session, branch: Session, kept: CheckpointRecord | None, reason: str | None
    ) -> Branch:
        """Make the state again. What a step put out then is compared by whoever replays for its own sake."""
        journal = self._services.recorder.journal
        await journal.flush()
        lineage = kept.lineage if kept is not None else cut(origin.record.lineage, origin.runs.count + 1)
        _recovery.refuse_if_let_go(journal, origin.record, lineage)
        replayed = steps(_recovery.load_lineage(journal, origin.id, lineage), lineage)
        failed = ""
        async for redone in run_steps(branch.queue, replayed, journal):
            failed = (
                "" if redone.goes_on else f"; it stopped at {redone.step.cell_id or redone.step.execution_id}"
            )
        why = f"{reason or 'the kernel cannot be forked'}{failed}"
        await self._tell(origin, branch, by="replay", reason=why, lost=())
        return Branch(branch, "replay", why)

    async def _tell(
        self, origin: Session, branch: Session, *, by: str, reason: str | None, lost: tuple[str, ...]
    ) -> None:
        batch, recorder = Batch(statements=[put_session(branch.record)]), self._services.recorder
        data = {"branch": branch.id, "of": origin.id, "by": by, "reason": reason, "not_carried": list(lost)}
        for session in (origin, branch):
            recorder.note(batch, "notebook.session.branched", session.record, data)
        await recorder.commit(batch)

    # Taking back -------------------------------------------------------------------------------------------------

    async def adopt(self, branch: Session, *, keep_others: bool = False) -> Adopted:
        """Let a branch's cells, files and kernel become the original's, and end or suspend the other branches.

        Raises:
            UnknownSession: it is no branch, or its original is gone.
            KernelBusy: it runs something.
        """
        origin = self._sessions.get(branch.record.branch_of or "")
        if origin is None:
            raise UnknownSession(
                f"Session {branch.id} is no branch of a session that there is", hint="Go on working in it"
            )
        if branch.runs.live:
            raise KernelBusy(f"Branch {branch.id} is running a cell", hint="Wait for its end, or cancel it")
        await branch.refresh()
        with anyio.CancelScope(shield=True):
            await origin.suspend(reason=f"It takes branch {branch.id} back")
            await origin.refresh()
            await self._bring_files(origin, branch)
            await self._bring_kernel(origin, branch)
            del self._sessions[branch.id]
            await anyio.to_thread.run_sync(lambda: branch.path.unlink(missing_ok=True))
            others = self._branches_of(origin)
            for other in others:
                if keep_others:
                    await other.suspend(reason=f"Branch {branch.id} was taken instead")
                else:
                    await self._delete(other.id)
        return Adopted(origin, branch.id, () if keep_others else tuple(other.id for other in others))

    async def approve_adoption(self, branch: Session, *, keep_others: bool) -> None:
        """Ask about the files that taking a branch back applies, and the other branches that it deletes."""
        origin = self._sessions.get(branch.record.branch_of or "")
        if origin is None:
            return
        if _applies(origin, branch):
            await branch.workspace.approve_applying(None)
        others = [] if keep_others else [one.id for one in self._branches_of(origin) if one.id != branch.id]
        if others:
            what = f"delete {', '.join(others)}, the other branches of {origin.name}"
            await self._services.approvals.require(Matter.of("delete", what, origin.record))

    def _branches_of(self, origin: Session) -> list[Session]:
        return [one for one in self._sessions.values() if one.record.branch_of == origin.id]

    async def _bring_files(self, origin: Session, branch: Session) -> None:
        if _applies(origin, branch):
            apply = partial(branch.workspace.apply_now, None, since=branch.record.created_at, force=True)
            await anyio.to_thread.run_sync(apply)
        elif origin.mode == branch.mode:
            await anyio.to_thread.run_sync(exchange_storage, origin.storage, branch.storage)

    async def _bring_kernel(self, origin: Session, branch: Session) -> None:
        generation, kernel_id = max(origin.generation, branch.generation) + 1, None
        old_kernel = branch.record.kernel_id
        if old_kernel is not None:
            kernel_id = f"{origin.id}.{generation}"
            request = protocol.Transfer(old_kernel, kernel_id, origin.place)
            await branch.host.call(request, type(None))
        batch, recorder = Batch(), self._services.recorder
        document = branch.document
        origin.notebook.change(batch, DocumentReplaced(document.to_bytes().decode(), document.versions))
        gone = replace(branch.record, kernel_id=None, adopted_by=origin.id)
        origin.context.record = replace(
            origin.record,
            generation=generation,
            kernel_id=kernel_id,
            reason=None if kernel_id is not None else branch.reason,
            lineage=returned(of_session(branch.record.lineage, branch.id), generation),
            former=(),
            on=branch.record.on,
            layers=branch.record.layers,
            packages=branch.record.packages,
        )
        branch.context.record = gone
        recorder.note(batch, "notebook.session.adopted", origin.record, {"branch": branch.id})
        batch.statements += [put_session(origin.record), put_session(gone)]
        await recorder.commit(batch)
        await anyio.to_thread.run_sync(remove_storage, branch.storage)
        await origin.save()


def _applies(origin: Session, branch: Session) -> bool:
    """Whether taking a branch back brings its files over into the project."""
    return origin.mode == "direct" and branch.mode == "overlay"


def _free_path(path: Path, branch_id: str) -> Path:
    return path.with_name(f"{path.stem}-{branch_id.removeprefix('s-')}{path.suffix}")


# What sessions hold that another does not, so that somebody can choose among branches. Changes nothing.


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session, against the first of those that are compared."""

    session_id: str
    name: str
    state: str
    changed: tuple[str, ...] = ()
    """Cells with another source, by id."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """What it wrote into its working directory, or over the project."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Those that are different or only here, in short; none where it has no idle kernel to ask."""
    missing: tuple[str, ...] = ()
    """Variables that only the first one has."""


async def compare_sessions(sessions: Sequence[Session]) -> list[SessionView]:
    """Every session against the first."""
    if not sessions:
        return []
    first = sessions[0]
    known = await _variables(first)
    return [await _view(first, known, session) for session in sessions]


async def _view(first: Session, known: Mapping[str, str], session: Session) -> SessionView:
    sources = {cell.id: cell.source for cell in first.cells}
    own = {cell.id: cell.source for cell in session.cells}
    held = await _variables(session) if session is not first else known
    return SessionView(
        session_id=session.id,
        name=session.name,
        state=session.state,
        changed=tuple(cell for cell in own if cell in sources and own[cell] != sources[cell]),
        added=tuple(cell for cell in own if cell not in sources),
        removed=tuple(cell for cell in sources if cell not in own),
        files=tuple(file.path for file in (await session.files()).files),
        variables={name: text for name, text in held.items() if known.get(name) != text},
        missing=tuple(name for name in known if name not in held) if held else (),
    )


async def _variables(session: Session) -> dict[str, str]:
    if session.state != "active":
        return {}
    with suppress(KernelError, TimeoutError):  # busy, or of a language that cannot tell
        found = await session.inspect()
        return {variable.name: variable.digest or variable.type for variable in found.variables}
    return {}
