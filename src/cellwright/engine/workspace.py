"""Where a session's code works: its directories, its limits, its network, and the files that it leaves. Needs no kernel."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
from msgspec import to_builtins
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cellwright.audit import actor
from cellwright.charts import FILENAME
from cellwright.engine._context import Services, SessionContext
from cellwright.engine._executions import Execution
from cellwright.engine._recovery import read_event_rows
from cellwright.engine.approvals import Matter
from cellwright.engine.journal import Journal, Statement
from cellwright.engine.placement import refuse_foreign
from cellwright.engine.records import (
    Artifacts,
    Batch,
    Recorder,
    SessionRecord,
    artifacts_of,
    entries_in,
    put_execution,
)
from cellwright.errors import KernelStartError, LimitReached, SandboxError
from cellwright.hosts import protocol
from cellwright.sandbox.chosen_folders import judge_folder, secrets_in
from cellwright.sandbox.files import Entry
from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.network_rules import NetworkMode
from cellwright.sandbox.overlay import (
    Applied,
    LayerChange,
    apply_changes,
    layer_changes,
    layer_diff,
    note_originals,
)
from cellwright.sandbox.policy import SETTINGS, Mode, Narrowing, Policy, limit_text, narrowed, refuse_wider
from cellwright.sandbox.tiers import UNSAFE_BANNER
from cellwright.sandbox.workspace import PRIVATE, Workspace
from cellwright.settings.model import Size

__all__ = [
    "NetworkUse",
    "SessionLimits",
    "SessionWorkspace",
    "checked_narrowing",
    "explained",
    "read_requests",
    "refuse_other_limits",
]

_MOST_FILES = 1_000
_MOST_NAMED = 20

_MOST_DESTINATIONS = 200

# A directory that takes longer to look through is not waited for.
_LOOK_S = 30.0

_log = logging.getLogger(__name__)


# File systems tell time by a clock that may be some ticks behind.
_TICKS_S = 0.02


@dataclass(frozen=True, slots=True)
class ManifestStamp:
    """By what one chart manifest is told from another."""

    inode: int
    changed_ns: int
    size: int

    def is_of_run(self, started_at: float) -> bool:
        """Whether it came or changed since a run began."""
        return self.changed_ns / 1e9 >= started_at - _TICKS_S


class SessionWorkspace:
    """The directories, limits and files of one session."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._services = session.services
        self._looking = anyio.Lock()
        self._seen: Mapping[str, Entry] = {}
        """What lay in the working directory when somebody last looked."""
        self._noted: Mapping[str, Entry] = {}
        """What lay there when the originals below it were noted last."""
        self._looked_at = session.record.created_at
        self._newest_ended: Execution | None = None
        self._cut: tuple[str | None, str] = (None, "")
        """The execution whose request to the network was stopped half-way last, and why."""
        self._fetched = 0
        self._destinations: set[tuple[str, str]] = set()
        """What the audit log has of the network."""

    # Directories and limits --------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where the notebook belongs, and where the search for its project and interpreter begins."""
        cwd = self._session.record.cwd
        return Path(cwd) if cwd is not None else self._session.file.path.parent

    @property
    def storage(self) -> Path:
        """The session's own directory, which goes with it."""
        return self._services.options.storage / "sessions" / self._session.id

    @property
    def cwd(self) -> Path:
        """The kernel's working directory, as its code sees it."""
        if self.mode != "private":
            return self.folder
        seen_at = self._session.record.seen_at
        return Path(seen_at) if seen_at is not None else self.storage / PRIVATE

    @property
    def mode(self) -> Mode:
        return self._session.record.mode

    @property
    def place(self) -> Workspace:
        """The working directory, and what of the project is seen there."""
        return Workspace(
            mode=self.mode,
            cwd=str(self.cwd),
            project=self._session.record.project,
            storage=str(self.storage),
            hidden=(str(self._services.options.storage), *self._session.record.secrets),
        )

    async def look_again(self) -> None:
        """Find what holds keys in a folder that was chosen, for its kernel not to see.

        Raises:
            KernelStartError: a person has said since that code may not see that folder.
        """
        record, options = self._session.record, self._services.options
        if not record.chosen or record.project is None:
            return
        project = Path(record.project)
        judged = await anyio.to_thread.run_sync(
            partial(judge_folder, project, home=options.home, storage=options.storage)
        )
        if judged.unseen is not None:
            raise KernelStartError(judged.unseen, hint="Or create the notebook again, in a folder of its own")
        found, _ = await anyio.to_thread.run_sync(secrets_in, project)
        self._session.record = replace(self._session.record, secrets=found)

    @property
    def network(self) -> NetworkMode:
        """How far the session's code reaches."""
        limits = self._session.record.limits
        if self._session.record.tier == "C" or (limits is not None and limits.network is not None):
            return "off"
        opening = self._services.options.opening
        return opening.mode if opening is not None and self.network_refused is None else "off"

    @property
    def network_refused(self) -> str | None:
        """Why its code does not reach the network that the settings open; None where it does, or they do not."""
        record = self._session.record
        if not _may_reach(self._services, record.limits):
            return None
        # What a person said of this session alone goes before what they say of all.
        if self._services.approvals.rule("network") == "ask" and record.network_allowed is not None:
            return None if record.network_allowed else "it was not approved"
        decision = self._services.approvals.known(Matter.of("network", "", record))
        if decision is None:
            return "nobody was asked yet, and notebook_open asks"
        return None if decision.allowed else decision.why

    async def ask_for_network(self) -> None:
        """Ask whether its code may reach the network, where that was never asked; its next kernel does, or does not."""
        record = self._session.record
        if record.network_allowed is None and not record.is_foreign:
            matter = Matter.of("network", network_words(self._services, record.name), record)
            allowed = await network_answer(self._services, matter, record.limits)
            if allowed is not None:
                batch = Batch()
                self._session.propose(batch, network_allowed=allowed)
                await self._services.recorder.commit(batch)

    @property
    def banner(self) -> str | None:
        """The warning that every reply about the session begins with, where its code runs unconfined."""
        record = self._session.record
        # An engine that confined nothing may have started a kernel that outlived it.
        outlived = record.state == "active" and record.tier == "none"
        return UNSAFE_BANNER if outlived or self._services.options.host.policy is None else None

    @property
    def limits(self) -> dict[str, Any]:
        """What it asked for below the operator's limits, in words."""
        return limit_words(self._session.record.limits)

    @property
    def policy(self) -> Policy | None:
        """What its code may do, by the operator's policy and its own; None where nothing confines it."""
        return whole_policy(self._services.options.host.policy, self._narrowing)

    @property
    def own_policy(self) -> Policy | None:
        """What its code may do, where that is less than the operator allows everybody."""
        return session_policy(self._services.options.host.policy, self._narrowing)

    @property
    def _narrowing(self) -> Narrowing | None:
        limits = self._session.record.limits
        if self.network_refused is None:
            return limits
        return dataclasses.replace(limits or Narrowing(), network="off")

    def time_limit(self, requested_s: float | None) -> float:
        """How long a cell may run: as asked, else as the settings say; never longer than the session's own limit."""
        own = self._session.record.limits.cell_seconds if self._session.record.limits is not None else None
        limit_s = requested_s if requested_s is not None else self._services.options.cell_timeout_s
        return limit_s if own is None else min(limit_s, own)

    # Files -------------------------------------------------------------------------------------------------------

    async def files(self) -> Artifacts:
        """What lies in its working directory; in ``overlay`` mode what it wrote over the project."""
        refuse_foreign(self._session.record, "files")
        seen = await anyio.to_thread.run_sync(entries_in, self.place.written)
        return artifacts_of(self.place.written, seen, but=self._services.notebooks(), limit=_MOST_FILES)

    async def take_as_given(self) -> None:
        """Take what lies there now for given: it was put there, and is not what the next execution leaves.

        By time alone the two are told apart only where some ticks lie between them.
        """
        if self._session.runs.live:
            return  # what it has left so far is its own
        begun_at = time.time()
        async with self._looking:
            seen = await anyio.to_thread.run_sync(entries_in, self.place.written)
            # What came while this looked may be of an execution that began meanwhile.
            self._seen = artifacts_of(self.place.written, seen, until=begun_at, before=self._seen).seen

    async def files_known(self) -> None:
        """Return when it is known what each execution that has ended left (they are looked after in order)."""
        if self._newest_ended is not None:
            await self._newest_ended.wait_for_files(_LOOK_S)

    async def changes(self) -> list[LayerChange]:
        """What it wrote over the project (in ``overlay`` mode), each with the real path where others find it."""
        refuse_foreign(self._session.record, "files")
        return await anyio.to_thread.run_sync(layer_changes, self.place)

    async def diff(self, paths: Sequence[str] | None = None) -> str:
        """The same as a unified diff.

        Raises:
            NoSuchFile: a named path was not changed.
        """
        refuse_foreign(self._session.record, "files")
        return await anyio.to_thread.run_sync(layer_diff, self.place, paths)

    async def apply(
        self, paths: Sequence[str] | None = None, *, force: bool = False, trusted: Collection[str] = ()
    ) -> Applied:
        """Bring what it wrote over into the project: all of it, or the named files and directories.

        What tools run by themselves stays behind (``.git``, ``.venv``, a Makefile: ``sandbox.overlay`` lists them), as
        do files that can newly be run, except for paths that a person named: ``trusted``.

        Raises:
            FileConflict: the project's own changed meanwhile, and ``force`` was not given. Nothing was applied.
            NoSuchFile: a named path was not changed.
            FileRefused: it has no layer over a project, or a named path is no plain file or for a person to name.
            NotApproved: it is asked about first, and the answer was no.
        """
        refuse_foreign(self._session.record, "files")
        await self.approve_applying(paths)
        async with self._looking:
            return await anyio.to_thread.run_sync(
                partial(self.apply_now, paths, since=self._looked_at, force=force, trusted=trusted)
            )

    async def approve_applying(self, paths: Sequence[str] | None) -> None:
        """Ask whether files may be brought over, by name; once more where they changed while somebody was asked.

        Raises:
            NotApproved: the answer was no.
            NoSuchFile: a named path was not changed.
        """
        approvals, record = self._services.approvals, self._session.record
        project = self.place.project or "its project"
        matter = Matter.of("apply", f"apply what {record.name} changed to {project}", record)
        if approvals.rule("apply") != "ask":
            await approvals.require(matter)
            return
        approved: list[LayerChange] = []
        while approved != (now := await anyio.to_thread.run_sync(layer_changes, self.place, paths)):
            approved = now
            what = f"apply {_named(now)} of {record.name} to {project}"
            await approvals.require(replace(matter, what=what, exactly=_digest(now)))
            if approvals.known(matter) is not None:
                return

    def apply_now(
        self,
        paths: Sequence[str] | None,
        *,
        since: float,
        force: bool,
        trusted: Collection[str] = (),
    ) -> Applied:
        """Bring files over, and write down which, however whoever waits for it ends. Blocking."""
        params = {"asked": paths, "force": force or None, "named_by_a_person": sorted(trusted) or None}
        with self._services.audit.outcome("apply", session=self._session.id, **params) as outcome:
            applied = apply_changes(self.place, paths, since=since, force=force, trusted=trusted)
            outcome["project"] = self.place.project
            outcome["applied"] = [f"{change.change} {change.path}" for change in applied.changes]
            outcome["skipped"] = applied.skipped or None
        return applied

    # Network -----------------------------------------------------------------------------------------------------

    def explained(self, body: protocol.Finished) -> protocol.Finished:
        """The end of an execution, with what the network and the session's own limits had to do with it."""
        reason = body.reason
        if reason is None and self._cut[0] == body.execution_id:
            # Many a client takes what came so far for all there is.
            reason = self._cut[1]
        return replace(body, reason=explained(reason, self._session.record.limits))

    def _audit_request(self, entry: NetworkEntry) -> None:
        """Write down each destination once with what became of it; code may ask as often as it likes."""
        destination = (f"{entry.host}:{entry.port}", entry.verdict)
        if destination in self._destinations or len(self._destinations) >= _MOST_DESTINATIONS:
            return
        self._destinations.add(destination)
        why = f"{entry.reason} ({entry.setting})" if entry.verdict in ("refused", "cut") else None
        self._services.audit.note(
            "network", session=self._session.id, refused=why, to=destination[0], verdict=entry.verdict
        )

    def note_request(self, batch: Batch, entry: NetworkEntry, at: float) -> None:
        execution = self._session.runs.find(entry.execution) if entry.execution is not None else None
        note_request(self._services.recorder, batch, self._session.record, entry, execution=execution, at=at)
        self._audit_request(entry)
        if entry.verdict == "cut":
            why = f"The request to {entry.host} was stopped: {entry.reason} ({entry.setting})"
            setting = (entry.setting or "").upper()
            self._cut = (entry.execution, f"{why}. Move less, or raise CELLWRIGHT_{setting}")

    def note_fetch(self, entry: NetworkEntry) -> None:
        """Journal a request that was made for it on the host's side, under a number of its own."""
        self._fetched += 1
        batch, recorder = Batch(), self._services.recorder
        numbered = dataclasses.replace(entry, number=self._fetched)
        self._audit_request(entry)
        note_request(recorder, batch, self._session.record, numbered, execution=None, at=entry.time)
        recorder.commit(batch)

    def look_later(self, batch: Batch, execution: Execution, ended_at: float) -> None:
        """Have the files of an execution that has ended looked for once that is journalled."""
        execution.expect_files()
        self._newest_ended = execution
        look = partial(self._note_files, execution, ended_at)
        batch.after.append(partial(self._services.in_background, look))

    async def _note_files(self, execution: Execution, ended_at: float) -> None:
        """Journal what an execution left; after its end was told, so that nobody waits for the looking."""
        try:
            since = execution.record.started_at or 0.0
            async with self._looking:
                seen = await anyio.to_thread.run_sync(self._look, since)
                # Where another was queued by the end of the look, what came after this one's end may be that one's.
                until = ended_at if self._session.runs.count > execution.record.number else None
                left = artifacts_of(
                    self.place.written,
                    seen,
                    since=since,
                    until=until,
                    before=self._seen,
                    but=self._services.notebooks(),
                )
                self._seen = left.seen
            # What is not numbered is code of Cellwright's own, such as a file tool's: it left nothing of its own.
            if left.files and execution.record.numbered:
                record = execution.record = replace(
                    execution.record, files=left.files, files_directory=left.directory, more_files=left.more
                )
                recorder, batch = self._services.recorder, Batch()
                data = {
                    "files": to_builtins(left.files),
                    "directory": left.directory,
                    "more": left.more,
                }
                self._session.note(batch, "notebook.cell.files", data, execution=record)
                batch.statements.append(put_execution(record))
                await recorder.commit(batch)
        finally:
            execution.files_known()

    def manifest_since(self, started_at: float | None) -> ManifestStamp | None:
        """The chart manifest that came or changed since a run began, if there is one. Quick: one look at one name."""
        try:
            # Only whether it may be worth reading: what is read is opened without following any link.
            status = os.stat(f"{self.place.written_cwd}/{FILENAME}", follow_symlinks=False)  # quick
        except OSError:
            return None
        if started_at is None or not stat.S_ISREG(status.st_mode):
            return None
        found = ManifestStamp(status.st_ino, status.st_ctime_ns, status.st_size)
        return found if found.is_of_run(started_at) else None

    def _look(self, since: float) -> Mapping[str, Entry]:
        now = time.time()
        seen = entries_in(self.place.written)
        try:
            if self.place.mode == "overlay" and seen != self._noted:
                note_originals(self.place, since=since)
                self._noted = seen
        except (SandboxError, OSError) as error:
            # What was not noted counts as changed when it is applied.
            _log.warning("originals_not_noted session=%s %s", self._session.id, error)
        else:
            self._looked_at = now
        return seen


# Limits of one session below the operator's: asked for, checked, explained where they are reached. Pure.

_WORDS = {
    "memory_bytes": "memory",
    "processes": "processes",
    "cpu_seconds": "cpu_s",
    "cpus": "cpus",
    "cell_seconds": "cell_s",
    "disk_bytes": "disk",
    "network": "network",
    "gpus": "gpus",
    "read": "read_paths",
    "write": "write_paths",
}


class SessionLimits(BaseModel):
    """Each at most what the operator allows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Size | None = None
    disk: Size | None = None
    processes: int | None = None
    cpu_s: int | None = None
    cpus: float | None = None
    cell_s: float | None = None
    network: Literal["off"] | None = None
    gpus: Literal["off"] | None = None
    read_paths: tuple[str, ...] | None = Field(default=None, max_length=100)
    write_paths: tuple[str, ...] | None = Field(default=None, max_length=100)

    def narrowing(self) -> Narrowing:
        """The same for the engine."""
        return Narrowing(**{field: getattr(self, word) for field, word in _WORDS.items()})


def session_narrowing(words: dict[str, Any] | None) -> Narrowing | None:
    """What a person asked for in words.

    Raises:
        LimitReached: a word or its value is not one of them.
    """
    try:
        return SessionLimits.model_validate(words).narrowing() if words else None
    except ValidationError as error:
        wrong = error.errors()[0]
        raise LimitReached(
            f"limit {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}",
            setting="limits",
            hint=f"There are: {', '.join(SessionLimits.model_fields)}",
        ) from None


def checked_narrowing(policy: Policy | None, narrowing: Narrowing | None) -> Narrowing | None:
    """What a session may be given of what it asks for below the operator's ``policy``: all of it.

    Raises:
        LimitReached: it is more than the settings allow, or cannot be kept.
    """
    if not narrowing:
        return None
    if policy is None:
        raise LimitReached(
            "Without a sandbox no session's limits are kept",
            setting="unsafe_no_sandbox",
            hint="Leave `limits` out, or let the operator unset CELLWRIGHT_UNSAFE_NO_SANDBOX",
        )
    refuse_wider(policy, narrowing)
    return narrowing


def refuse_other_limits(session_id: str, has: Narrowing | None, requested: Narrowing | None) -> None:
    """Raise where a session that there is already was asked for with other limits than it has."""
    if requested is not None and requested != has:
        raise LimitReached(
            f"Session {session_id} has this notebook open with {limit_words(has) or 'no limits of its own'}",
            setting="limits",
            hint="Leave `limits` out to work with it, or delete the session first",
        )


def _named(changes: Sequence[LayerChange]) -> str:
    """Files as a person is asked about them."""
    names = [f"{one.path} (deleted)" if one.change == "deleted" else one.path for one in changes]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or "nothing") + more


def _digest(changes: Sequence[LayerChange]) -> str:
    return hashlib.sha256(repr(changes).encode(errors="surrogateescape")).hexdigest()


async def network_answer(services: Services, matter: Matter, limits: Narrowing | None) -> bool | None:
    """Whether code may reach the network as far as the settings open it; None where nobody is to be asked."""
    if services.approvals.rule("network") != "ask" or not _may_reach(services, limits):
        return None
    if actor().startswith("page:"):  # a person who makes a session by hand
        return True
    return (await services.approvals.decide(matter)).allowed


def network_words(services: Services, name: str) -> str:
    """What a person is asked when code would reach the network."""
    opening = services.options.opening
    reach = (
        f"the hosts {', '.join(opening.allow)}"
        if opening is not None and opening.mode == "allow"
        else "public hosts"
    )
    return f"let the code of {name} reach {reach}"


def _may_reach(services: Services, limits: Narrowing | None) -> bool:
    """Whether the settings and a session's own limits leave the network open."""
    return services.options.opening is not None and (limits is None or limits.network is None)


def session_policy(policy: Policy | None, narrowing: Narrowing | None) -> Policy | None:
    """A session's own policy; None where it has the operator's."""
    if not narrowing or policy is None:
        return None
    own = narrowed(policy, narrowing)
    return own if own != policy else None


def whole_policy(policy: Policy | None, narrowing: Narrowing | None) -> Policy | None:
    """What a session's code may do, by the operator's ``policy`` and its own; None where nothing confines it."""
    return session_policy(policy, narrowing) or policy


def limit_words(narrowing: Narrowing | None) -> dict[str, Any]:
    """What a session asked for, in its own words."""
    limits = asdict(narrowing) if narrowing is not None else {}
    return {
        _WORDS[name]: limit_text(name, value) if not name.endswith("_seconds") else value
        for name, value in limits.items()
        if value is not None
    }


def explained(text: str | None, narrowing: Narrowing | None) -> str | None:
    """Why something stopped, with what a session itself had to do with it: raising the setting would not help."""
    if text is None or narrowing is None:
        return text
    marks = {name: f"({setting})" for name, setting in SETTINGS.items()}
    marks["cell_seconds"] = f"over its limit of {narrowing.cell_seconds or 0:g} s"
    own = [
        _WORDS[name] for name, mark in marks.items() if getattr(narrowing, name) is not None and mark in text
    ]
    if not own:
        return text
    return f"{text}. The session itself asked for this limit ({', '.join(own)}): create one with a higher or none"


# What sessions asked of the network, as the journal has it: noted with the other events, the newest of each
# kept.

KEPT = 1_000

_TRIM_EVERY = 250

_KIND = "notebook.network.request"


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """A session's requests, oldest first; ``dropped`` counts older ones of the first of them's kernel."""

    entries: tuple[NetworkEntry, ...]
    dropped: int


def note_request(
    recorder: Recorder,
    batch: Batch,
    session: SessionRecord,
    entry: NetworkEntry,
    *,
    execution: Execution | None,
    at: float,
) -> None:
    """Journal a request; now and then the oldest go, since code may ask as often as it likes."""
    record = execution.record if execution is not None else None
    recorder.note(batch, "notebook.network.request", session, asdict(entry), execution=record, at=at)
    if entry.number % _TRIM_EVERY == 0:
        batch.statements.append(_trim(session.id))


def read_requests(journal: Journal, session_id: str) -> NetworkUse:
    """The newest requests of a session."""
    rows = read_event_rows(journal, "session = ? AND kind = ?", (session_id, _KIND))
    entries = tuple(msgspec.convert(dict(row.data), NetworkEntry) for row in rows[-KEPT:])
    return NetworkUse(entries, entries[0].number - 1 if entries else 0)


def _trim(session_id: str) -> Statement:
    newest = "SELECT seq FROM events WHERE session = ?1 AND kind = ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3"
    statement = f"DELETE FROM events WHERE session = ?1 AND kind = ?2 AND seq <= ({newest})"  # noqa: S608  # the line above
    return statement, (session_id, _KIND, KEPT)
