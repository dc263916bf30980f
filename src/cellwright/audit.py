"""The audit log: a line for each decision and act, each with the hash of the line before. The one place that writes it.

A line says who did what to which session, never what code says or what a token is. The lines lie in a directory of the
storage that only the user can enter and no sandbox shows. Whoever can write there can write another chain: what proves
that nobody did is a hash that was noted elsewhere (see ``docs/guides/audit.md``). Who may do what is decided elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.paths import make_private

__all__ = [
    "KINDS",
    "NOBODY",
    "AuditKind",
    "AuditLine",
    "AuditLog",
    "Checked",
    "acting",
    "actor",
    "check",
    "is_line",
    "read_lines",
]

AuditKind: TypeAlias = Literal[
    "start",
    "run",
    "apply",
    "install",
    "network",
    "connection",
    "listen",
    "sign_in",
    "share",
    "people",
    "folders",
    "plugins",
    "templates",
    "take_over",
    "approval",
    "audit",
]

KINDS: dict[AuditKind, str] = {
    "start": "each start of an engine, with settings that weaken protection",
    "run": "each execution, with the SHA-256 of its source, never the source",
    "apply": "files brought into a project: which, which not and why, which a person named",
    "install": "packages asked for and installed",
    "network": "a kernel that starts with the network open; then each destination once (200 a session)",
    "connection": "each request to a named connection (200 a session): what for and how much came, never what it said",
    "listen": "a TCP port opened or closed",
    "sign_in": "a sign-in, a sign-in link, a wrong token",
    "share": "a link to a verified notebook, given or taken back",
    "people": "roles given, changed, taken away; what a role did not allow",
    "plugins": "a plugin that was enabled or disabled by a person",
    "folders": "a folder that code may see, or may not: said by a person, or forgotten",
    "templates": "a gallery's template added or removed, and where it came from",
    "take_over": "a session taken over or given back; agents refused meanwhile",
    "approval": "each decision about what is asked about: what, by whom or which rule, for how long",
    "audit": "the log itself: a repaired line, old lines removed",
}
"""What each kind of line is for: the site lists them from here."""

_log = logging.getLogger(__name__)
NOBODY = "cellwright"
"""Who acts where nobody else does: Cellwright by itself, or a program that uses it as a library."""

_actor: ContextVar[str] = ContextVar("actor", default=NOBODY)
_NOTHING_BEFORE = "0" * 64
_CURRENT = "audit.jsonl"
_HASH, _END = b',"hash":"', b'"}'
_HASH_BYTES = len(_HASH) + 64 + len(_END)
_FILES = 8
_TAIL_BYTES = 256 * 1024
_MOST_UNWRITTEN = 10_000
_MOST_CHARACTERS = 500
_MOST_ITEMS = 100
_STRANGERS_S = 60.0


class AuditLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line but for its own hash, which covers everything here."""

    seq: int
    time: float
    kind: AuditKind
    by: str
    """Who: ``page:NAME``, ``mcp:PROGRAM``, ``lab``, ``command line``, ``address IP``, or ``cellwright`` by itself."""
    before: str
    """The hash of the line before."""
    session: str | None = None
    refused: str | None = None
    """Why it was not done."""
    about: dict[str, Any] = {}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditLine).decode


@contextmanager
def acting(who: str) -> Iterator[None]:
    """Have what is done in here, and in tasks that are begun here, put down to somebody."""
    before = _actor.set(_bounded(who))
    try:
        yield
    finally:
        _actor.reset(before)


def actor() -> str:
    """Who acts now, as the audit log names them."""
    return _actor.get()


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a line will say; its number and chain come when it is written."""

    time: float
    kind: AuditKind
    by: str
    session: str | None
    refused: str | None
    about: dict[str, Any]


@dataclass(slots=True)
class _Tail:
    """Where the log ends."""

    seq: int
    hash: str
    size: int
    inode: int


class AuditLog:
    """Appends lines. Several processes may, one after the other: a lock is held for each write."""

    def __init__(self, storage: Path, *, max_bytes: int | None = None) -> None:
        """``max_bytes`` is kept altogether, where this is to see to it."""
        self._directory = storage / "audit"
        make_private(str(self._directory))
        self._path = self._directory / _CURRENT
        self._file_bytes = max_bytes // _FILES if max_bytes is not None else None
        self._lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = -1
        self._tail: _Tail | None = None
        self._unwritten: list[_Entry] = []
        self._writing = threading.Lock()
        self._strangers: dict[str, tuple[float, int]] = {}

    def note(
        self, kind: AuditKind, *, session: str | None = None, refused: str | None = None, **about: Any
    ) -> None:
        """Append a line. What cannot be written now is written with the next one, and the act goes on meanwhile."""
        said = {name: _bounded(value) for name, value in about.items() if value is not None}
        entry = _Entry(time.time(), kind, _actor.get(), session, _bounded(refused), said)
        with self._writing:
            self._unwritten.append(entry)
            del self._unwritten[:-_MOST_UNWRITTEN]
            try:
                with self._locked():
                    self._write_all()
            except OSError as error:
                _log.error("audit_not_written lines=%s %s", len(self._unwritten), error)

    def note_stranger(self, kind: AuditKind, *, refused: str, **about: Any) -> None:
        """Append a line for what anybody may try as often as they like: one a minute, which counts the others."""
        since, others = self._strangers.get(refused, (-_STRANGERS_S, 0))
        if time.monotonic() - since < _STRANGERS_S:
            self._strangers[refused] = (since, others + 1)
            return
        self._strangers[refused] = (time.monotonic(), 0)
        self.note(kind, refused=refused, others_before=others or None, **about)

    @contextmanager
    def outcome(
        self, kind: AuditKind, *, session: str | None = None, **about: Any
    ) -> Iterator[dict[str, Any]]:
        """Append a line once something is done, with what was put into the yielded dict, or that it was refused."""
        try:
            yield about
        except CellwrightError as error:
            self.note(kind, session=session, refused=f"{error.code}: {error.message}", **about)
            raise
        except BaseException as error:
            self.note(kind, session=session, refused=f"failed: {type(error).__name__}", **about)
            raise
        self.note(kind, session=session, **about)

    def close(self) -> None:
        for fd in (self._file, self._lock):
            if fd >= 0:
                os.close(fd)
        self._file = self._lock = -1

    # Writing, with the lock held ---------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _write_all(self) -> None:
        tail = self._found_tail()
        lines: list[bytes] = []
        seq, before = tail.seq, tail.hash
        for entry in self._unwritten:
            seq += 1
            line, before = _line(entry, seq, before)
            lines.append(line)
        data = b"".join(lines)
        if os.write(self._file, data) != len(data):
            os.ftruncate(self._file, tail.size)
            raise OSError(f"there is no room for {len(data)} bytes in {self._path}")
        self._unwritten.clear()
        self._tail = _Tail(seq, before, tail.size + len(data), tail.inode)
        if self._file_bytes is not None and self._tail.size > self._file_bytes:
            self._rotate(self._tail)

    def _found_tail(self) -> _Tail:
        """The end as it was left here, or read anew where another process wrote since, or this is the first line."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            status = None
        known = self._tail
        if known and status and (known.size, known.inode) == (status.st_size, status.st_ino):
            return known
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        return self._read_tail()

    def _read_tail(self) -> _Tail:
        status = os.fstat(self._file)
        size = status.st_size
        end = os.pread(self._file, _TAIL_BYTES, max(size - _TAIL_BYTES, 0))
        whole, torn = end[: end.rfind(b"\n") + 1], end[end.rfind(b"\n") + 1 :]
        if torn:
            # A process was killed, or the power went, in the middle of this line: the next one says so.
            size -= len(torn)
            os.ftruncate(self._file, size)
            about = {"mended": _bounded(torn.decode(errors="replace")), "bytes": len(torn)}
            self._unwritten.insert(0, _Entry(time.time(), "audit", "cellwright", None, None, about))
        if not whole:
            older = _older(self._directory)
            whole = older[-1].read_bytes()[-_TAIL_BYTES:] if older else b""
        last = whole.splitlines()[-1] if whole else None
        seq, found = _end_of(last) if last is not None else (0, _NOTHING_BEFORE)
        return _Tail(seq, found, size, status.st_ino)

    def _rotate(self, tail: _Tail) -> None:
        """Begin another file; the oldest goes when there are too many, and a line says up to where."""
        self._path.rename(self._directory / f"audit-{tail.seq:012d}.jsonl")
        self._tail = None
        older = _older(self._directory)
        for gone in older[: -(_FILES - 1)]:
            upto = int(gone.stem.removeprefix("audit-"))
            about = {"let_go_upto": upto}
            self._unwritten.append(_Entry(time.time(), "audit", "cellwright", None, None, about))
            # First said, then done: a file that stays is let go again, and one that is missing was announced.
            self._write_all()
            gone.unlink()


def read_lines(storage: Path) -> Iterator[bytes]:
    """Every line that is kept, oldest first, as it was written."""
    directory = storage / "audit"
    for path in (*_older(directory), directory / _CURRENT):
        try:
            with path.open("rb") as file:
                yield from file
        except FileNotFoundError:
            continue


def is_line(raw: bytes) -> bool:
    """Tell whether a line has the form of one, whatever its hash says."""
    try:
        _decode(raw)
    except msgspec.MsgspecError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look through a log found."""

    lines: int
    first_seq: int | None
    last_hash: str | None
    problem: str | None
    """What is wrong with the first line that is; none where the chain is whole."""


def check(lines: Iterable[bytes], *, known: str | None = None) -> Checked:
    """Follow the chain to its end, or to the first line that breaks it. ``known`` is a hash that must be in it. Pure."""
    count, first, seq, before, let_go, seen = 0, None, 0, _NOTHING_BEFORE, 0, known is None
    for count, raw in enumerate(lines, 1):
        try:
            line = _checked(raw)
        except ValueError as error:
            return Checked(count, first, before, f"line {count} {error}")
        if first is None:
            first, seq, before = line.seq, line.seq - 1, before if line.seq == 1 else line.before
        if line.seq != seq + 1 or line.before != before:
            where = f"line {count} (number {line.seq})"
            return Checked(count, first, before, f"{where} does not follow number {seq}, which is before it")
        seq, before = line.seq, _end_of(raw)[1]
        let_go = max(let_go, line.about.get("let_go_upto", 0)) if line.kind == "audit" else let_go
        seen = seen or before == known
    problem = None
    if first is not None and first > let_go + 1:
        problem = f"line 1 has number {first}, and nothing says that the lines before it were let go"
    elif not seen:
        problem = f"no line has the hash {known}: lines were removed or written anew since it was noted"
    return Checked(count, first, before if count else None, problem)


def _checked(raw: bytes) -> AuditLine:
    """A line that says what its own hash covers.

    Raises:
        ValueError: it does not.
    """
    if not raw.endswith(b"\n"):
        raise ValueError("has no end: it was being written when its process was killed")
    body, marked = raw[: -_HASH_BYTES - 1] + b"}", raw[-_HASH_BYTES - 1 : -1]
    if marked != _HASH + _hash(body).encode() + _END:
        raise ValueError("is not what its hash was made of")
    try:
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"is no line of an audit log: {error}") from error


def _line(entry: _Entry, seq: int, before: str) -> tuple[bytes, str]:
    line = AuditLine(seq, entry.time, entry.kind, entry.by, before, entry.session, entry.refused, entry.about)
    body = _encode(line)
    own = _hash(body)
    return body[:-1] + _HASH + own.encode() + _END + b"\n", own


def _end_of(raw: bytes) -> tuple[int, str]:
    """A line's number and hash as they stand there; of something else its bytes' hash, which proves it is wrong."""
    try:
        told = msgspec.json.decode(raw)
        return int(told["seq"]), str(told["hash"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return 0, _hash(raw)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _older(directory: Path) -> list[Path]:
    return sorted(directory.glob("audit-*.jsonl"))


def _bounded(value: Any) -> Any:
    """A value of at most so many characters and items: code may have chosen it."""
    if isinstance(value, str):
        short = value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}…"
        return short.encode(errors="backslashreplace").decode()  # a path may hold what no encoding has
    if isinstance(value, list | tuple):
        more = [f"… {len(value) - _MOST_ITEMS} more"] if len(value) > _MOST_ITEMS else []
        return [*map(_bounded, value[:_MOST_ITEMS]), *more]
    if isinstance(value, dict):
        return dict(zip(map(_bounded, value), _bounded(list(value.values())), strict=False))
    return value
