"""What the journal keeps of a session and of an execution, and the events made from them.

Plain values and their encoding; ``context`` and ``executions`` change them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.engine.event_kinds import EventKind
from cellwright.engine.journal import Event, EventStream, Journal, Statement, insert_event
from cellwright.errors import SandboxError
from cellwright.hosts.protocol import ExecutionState
from cellwright.sandbox.files import Entry, Workdir, shown_path
from cellwright.sandbox.policy import Mode, Narrowing
from cellwright.sandbox.tiers import Tier

__all__ = [
    "FINAL_STATES",
    "Artifacts",
    "Batch",
    "CheckpointRecord",
    "ExecutionRecord",
    "Handback",
    "Hold",
    "LeftFile",
    "Meanwhile",
    "OnError",
    "Recorder",
    "Requester",
    "SessionRecord",
    "SessionState",
    "Span",
    "artifacts_of",
    "delete_session",
    "entries_in",
    "new_agent_run_id",
    "new_checkpoint_id",
    "new_conversation_id",
    "new_execution_id",
    "new_plan_run_id",
    "new_replay_id",
    "new_run_id",
    "new_session_id",
    "new_verification_id",
    "put_execution",
    "put_session",
]


# Names that are short enough to be read aloud and long enough not to meet.

# No vowels and no look-alikes: an id never spells a word and survives being typed.
_ALPHABET = "23456789bcdfghjkmnpqrstvwxz"


def new_session_id() -> str:
    return "s-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_execution_id() -> str:
    return "x-" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_checkpoint_id() -> str:
    return "c-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_conversation_id() -> str:
    return "c-" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_plan_run_id() -> str:
    return "p-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_replay_id() -> str:
    return "r-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_run_id() -> str:
    return "run-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_agent_run_id() -> str:
    return "a-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_verification_id() -> str:
    return "v-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


# What code left in a session's working directory, by what the file system says of each file. Reads no
# contents.

MOST_LISTED = 50

# File systems tell time by a clock that may be some ticks behind.
_TICKS_NS = 20_000_000

_NS = 1_000_000_000


class LeftFile(msgspec.Struct, frozen=True):
    """A file in a working directory; ``type`` is ``file``, ``link``, ``deleted`` (from the project) or ``other``."""

    path: str
    type: str
    size: int
    time: float


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Files, the newest first, by their paths from ``directory``; ``more`` counts those beyond a bound."""

    directory: str
    files: tuple[LeftFile, ...] = ()
    more: int = 0
    seen: Mapping[str, Entry] = field(default_factory=dict, repr=False)
    """All that lay there, for the next look."""


def entries_in(directory: str) -> Mapping[str, Entry]:
    """All that lies in a directory; nothing where it is not there yet, or no longer. Blocking."""
    try:
        with Workdir.open(Path(directory)) as workdir:
            return workdir.snapshot().entries
    except SandboxError:
        return {}


def artifacts_of(
    directory: str,
    seen: Mapping[str, Entry],
    *,
    since: float = 0,
    until: float | None = None,
    before: Mapping[str, Entry] | None = None,
    but: Collection[Path] = (),
    limit: int = MOST_LISTED,
) -> Artifacts:
    """Of the files that were seen in a directory, those that came or changed since a moment and since an earlier look.

    What changed after ``until`` is another's, and is left for the look that is meant for it. ``but`` are files of the
    engine's own.
    """
    own = {str(path.relative_to(directory)) for path in but if path.is_relative_to(directory)}
    first = int(since * _NS) - _TICKS_NS
    known = before or {}
    if until is not None:
        last = int(until * _NS)
        then = {path: entry for path, entry in seen.items() if _changed_at(entry) <= last}
        seen = {path: entry for path, entry in known.items() if path in seen} | then
    found = [
        entry
        for path, entry in seen.items()
        if _is_new(entry, first) and known.get(path) != entry and path not in own
    ]
    found.sort(key=_changed_at, reverse=True)
    return Artifacts(directory, tuple(map(_left_file, found[:limit])), max(len(found) - limit, 0), seen)


def _is_new(entry: Entry, first: int) -> bool:
    ours = entry.path.rpartition("/")[2].startswith(".cellwright-")
    return entry.type != "directory" and _changed_at(entry) >= first and not ours


def _changed_at(entry: Entry) -> int:
    # Of the file itself: code can set the other times.
    return entry.identity[1]


def _left_file(entry: Entry) -> LeftFile:
    kind = "deleted" if entry.type == "whiteout" else entry.type
    return LeftFile(shown_path(entry.path), kind, entry.size, entry.mtime_ns / _NS)


SessionState: TypeAlias = Literal["active", "suspended"]

OnError: TypeAlias = Literal["keep", "rollback"]
"""What becomes of a session whose cell failed: it keeps what the cell did, or goes back to before it."""

FINAL_STATES: frozenset[ExecutionState] = frozenset({"ok", "error", "timeout", "interrupted", "died"})


class Span(msgspec.Struct, frozen=True):
    """Executions of one generation: those with a number below ``upto``, or all (see ``lineage``)."""

    generation: int
    upto: int | None = None
    session: str | None = None
    """The session whose executions they are, where it is another one: what a branch was grown from."""


class CheckpointRecord(msgspec.Struct, frozen=True):
    """A checkpoint that is kept by the host."""

    id: str
    name: str | None
    time: float
    generation: int
    lineage: tuple[Span, ...]
    """What made its state."""
    cell_id: str | None = None
    """The cell that it was taken before, and by which execution of it."""
    execution_id: str | None = None
    private_bytes: int = 0
    cannot_return: tuple[str, ...] = ()
    """What will not come back with it, in words."""
    files: int = 0
    files_left_out: tuple[str, ...] = ()


class Hold(msgspec.Struct, frozen=True):
    """A person who has taken a session over."""

    by: str
    at: float
    seq: int
    """The number of the event that told it: what came after it, a person did."""


class Meanwhile(msgspec.Struct, frozen=True):
    """What became of a session's cells, by their ids, while a person had it."""

    added: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()

    def as_data(self) -> dict[str, list[str]]:
        """The same as data, without what did not happen."""
        return {what: list(cells) for what, cells in msgspec.structs.asdict(self).items() if cells}


class Handback(msgspec.Struct, frozen=True):
    """The last time that a person gave a session back."""

    by: str
    note: str
    seq: int
    """The number of the event that told it."""
    meanwhile: Meanwhile = Meanwhile()


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as the journal has it. ``kernel_id`` names the live kernel; without one it is suspended."""

    id: str
    name: str
    path: str
    language: str
    created_at: float
    generation: int = 0
    kernel_id: str | None = None
    python: str | None = None
    cwd: str | None = None
    reason: str | None = None
    mode: Mode = "direct"
    project: str | None = None
    chosen: bool = False
    """Whether its project is a folder that a person works in, without a mark of a project."""
    secrets: tuple[str, ...] = ()
    """What holds keys in there, as found when its kernel was started last."""
    tier: Tier | None = None
    losses: tuple[str, ...] = ()
    python_version: str = ""
    search_path: tuple[str, ...] = ()
    """Where its interpreter imports from, as found before any of its code ran."""
    layers: tuple[str, ...] = ()
    """Layers of packages that were installed for it, by name."""
    packages: tuple[str, ...] = ()
    """What those layers hold."""
    limits: Narrowing | None = None
    """What it asked for below the operator's limits."""
    lineage: tuple[Span, ...] = ()
    """What made the state of its kernel, or of the last one it had."""
    former: tuple[Span, ...] = ()
    """What made the state that it lost with an earlier kernel; none once something new ran well in this one."""

    let_go: int = 0
    """The newest generation of which something that ran is no longer kept (see ``_background``)."""
    checkpoints: tuple[CheckpointRecord, ...] = ()
    """Those that it can go back to, oldest first."""
    returning_to: str | None = None
    """The checkpoint that the host is just bringing back."""
    left_by: str | None = None
    """The kernel that died and left them, if it did."""
    branch_of: str | None = None
    """The session that it was branched from."""
    branched_from: str | None = None
    """The checkpoint that it was branched from."""
    seen_at: str | None = None
    """Where code sees its private folder, where that is not where it lies."""
    adopted_by: str | None = None
    """The session that took its kernel and its cells over; it is kept only for its history."""
    host: str = "local"
    """The host that was asked for, such as ``slurm`` or ``jupyter:lab``."""
    on: str | None = None
    """The one that has its kernel, or had its last one, such as ``slurm:4711``; None for the one asked for."""
    expires_at: float | None = None
    """When its host will be ended, where that is known."""
    remote: tuple[str, str] | None = None
    """Its kernel's id on a Jupyter server and that of our connection."""
    remote_ours: bool = False
    """Whether that kernel was started for it, and ends with it."""
    remote_languages: tuple[str, ...] = ()
    """The languages that its server has kernels for."""
    there: tuple[str, str] | None = None
    """Where its notebook lies on a Jupyter server (the name of that, and a path), of which ``path`` is a copy."""
    rehearses: str | None = None
    """The session whose notebook it runs from the top; it goes once that is done (see ``verification``)."""
    once: bool = False
    """Whether it is there for one run only, and goes once that is done (see ``hidden_sessions``)."""
    hold: Hold | None = None
    """The person who has it, where one took it over (see ``_ownership``)."""
    handback: Handback | None = None
    client: str | None = None
    """The program that worked on it last, by the name that it gives itself."""
    approved: tuple[str, ...] = ()
    """The actions that a person allowed for as long as it lives (see ``approvals``)."""
    network_allowed: bool | None = None
    """Whether a person, or an earlier answer, let its code reach the network; None where nobody was asked."""
    deleted_at: float | None = None
    """When a person deleted it, while that can be undone (see ``_trash``)."""

    @property
    def state(self) -> SessionState:
        return "active" if self.kernel_id is not None else "suspended"

    @property
    def is_foreign(self) -> bool:
        """Whether its kernels live on a Jupyter server."""
        return self.host.partition(":")[0] == "jupyter"

    @property
    def is_unseen(self) -> bool:
        """Whether it serves something else, with which it goes, and nobody comes across it."""
        return self.once or self.rehearses is not None


class Requester(msgspec.Struct, frozen=True):
    """A program in which somebody works by hand and which shows what comes of it by itself, such as JupyterLab."""

    client: str
    request: str
    """What it calls this, and under what it wants to hear of it."""
    stops: bool = True
    """Whether a failure drops what it asked for behind this."""


class ExecutionRecord(msgspec.Struct, frozen=True):
    """One run of one cell, or of code that is in no cell."""

    id: str
    session_id: str
    cell_id: str | None
    number: int
    generation: int
    attempt: int
    source: str
    queued_at: float
    state: ExecutionState = "queued"
    started_at: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    execution_count: int | None = None
    error: dict[str, Any] | None = None
    reason: str | None = None
    dropped_bytes: int = 0
    dropped_messages: int = 0
    exit_code: int | None = None
    """Of a script, or of the process that ended with it; negative where a signal ended it."""
    files: tuple[LeftFile, ...] = ()
    """What it left in the working directory, the newest first; noted a moment after its end."""
    files_directory: str | None = None
    more_files: int = 0
    timeout_s: float | None = None
    """How long it might run; unknown where an older version wrote this."""
    replays: str | None = None
    """The execution that it repeats."""
    undone: bool = False
    """Whether the session was rolled back to before it."""
    on_error: OnError = "keep"
    checkpoint: str | None = None
    """The checkpoint that was taken before it."""
    no_checkpoint: str | None = None
    """Why none was, where one was wanted."""
    rolled_back: bool = False
    """Whether it failed and left no trace."""
    note: str | None = None
    """What else whoever reads it should know."""
    numbered: bool = True
    """Whether the kernel counted it; what only looks at the state leaves the numbers to the cells."""
    language: str | None = None
    """What it is written in, where that is not the notebook's language."""
    asker: Requester | None = None
    """The program that asked for it, where that shows it by itself."""

    @property
    def is_to_undo(self) -> bool:
        """Whether it failed, was to leave no trace then, and nobody has seen to that yet."""
        failed = self.state in FINAL_STATES and self.state != "ok" and self.started_at is not None
        return failed and self.on_error == "rollback" and not self.rolled_back and self.note is None


def put_session(record: SessionRecord) -> Statement:
    return "INSERT OR REPLACE INTO sessions VALUES (?,?)", (record.id, msgspec.json.encode(record).decode())


def put_execution(record: ExecutionRecord) -> Statement:
    return (
        "INSERT OR REPLACE INTO executions VALUES (?,?,?,?,?)",
        (record.id, record.session_id, record.cell_id, record.number, msgspec.json.encode(record).decode()),
    )


def delete_session(session_id: str) -> list[Statement]:
    """Forget a session and all its history; one event that says so follows and stays."""
    tables = {
        "sessions": "id",
        "documents": "session",
        "executions": "session",
        "events": "session",
        "edits": "session",
    }
    return [(f"DELETE FROM {table} WHERE {column} = ?", (session_id,)) for table, column in tables.items()]  # noqa: S608  # names from the line above


@dataclass(slots=True)
class Batch:
    """What belongs together: events, the rows that go with them, and what to do once all of it is safe."""

    events: list[Event] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    undo: list[Callable[[], object]] = field(default_factory=list)
    """Takes back, the last first, what it is in memory already. With any it is refused where it cannot be written,
    and nothing has happened; without, it tells what cannot be taken back (see ``journal.Journal``)."""
    lasting: bool = False
    """Whether it is to outlive a power cut once it is committed."""


class Recorder:
    """Numbers events, writes them with what belongs to them, and publishes them once they are safe."""

    def __init__(self, journal: Journal, stream: EventStream) -> None:
        self.journal = journal
        self._stream = stream

    def recorded(self, execution_id: str) -> ExecutionRecord | None:
        """An execution as the journal has it."""
        rows = self.journal.read("SELECT record FROM executions WHERE id = ?", (execution_id,))
        return msgspec.json.decode(rows[0][0], type=ExecutionRecord) if rows else None

    def note(
        self,
        batch: Batch,
        kind: EventKind,
        session: SessionRecord,
        data: dict[str, Any],
        *,
        execution: ExecutionRecord | None = None,
        at: float | None = None,
    ) -> Event:
        """Put the next event into a batch, which must be committed before control returns to the loop."""
        event = Event(
            seq=self.journal.next_seq(),
            time=time.time() if at is None else at,
            kind=kind,
            session_id=session.id,
            generation=execution.generation if execution is not None else session.generation,
            cell_id=execution.cell_id if execution is not None else data.get("cell_id"),
            execution_id=execution.id if execution is not None else None,
            data=data,
            hidden=session.once,
        )
        batch.events.append(event)
        return event

    def commit(self, batch: Batch) -> asyncio.Future[None]:
        """Write a batch as one transaction, then publish its events and do what it says comes after."""

        def then() -> None:
            for event in batch.events:
                self._stream.publish(event)
            for act in batch.after:
                act()

        def undo() -> None:
            for act in reversed(batch.undo):
                act()

        kept = (event for event in batch.events if not event.hidden)
        statements = [*(insert_event(event) for event in kept), *batch.statements]
        return self.journal.write(
            statements, then=then, undo=undo if batch.undo else None, lasting=batch.lasting
        )
