"""Files as tools use them: read as a digest, written all at once, listed, moved, deleted; in one directory only.

That directory is a session's, or the shared one (``data_directory``). How a file
is looked into, ``digests``'s.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from cellwright.engine import Engine, Session
from cellwright.engine.placement import refuse_foreign
from cellwright.errors import FileFailed, FileRefused, FileTooLarge, KernelBusy, NoSuchFile, SandboxError
from cellwright.sandbox.files import Entry, Listing, Workdir, shown_path
from cellwright.sandbox.safe_paths import components
from cellwright.sandbox.workspace import Workspace
from cellwright.tools.data_directory import DataDirectory
from cellwright.tools.files.digests import ReadLimits, read_digest

__all__ = [
    "FileInfo",
    "FileRoots",
    "Files",
    "Reading",
    "Root",
    "change_inside",
    "check_capacity",
    "workspace_roots",
]

T = TypeVar("T")

MAX_CHARACTERS = 12_000

MAX_ROWS = 20

MAX_LINES = 200

MAX_LISTED = 500

_MOST_HASHED = 512 << 20

_MOST_PICTURE = 20 << 20

_CHUNK = 1 << 20

_NS = 1_000_000_000

# Two calls that add to one file must not lose each other's part, nor both take the room that is left.
_WRITING = threading.Lock()


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What the file system says of a name."""

    path: str
    type: str
    """``file``, ``directory``, ``link`` or ``other``."""
    size: int
    modified: float
    sha256: str | None = None
    """Of a file, where it was asked for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as far as there was room for it."""

    path: str
    size: int
    form: str
    """``csv``, ``json``, ``jsonl``, ``parquet``, ``excel``, ``text``, ``image`` or ``binary``."""
    text: str
    next_offset: int | None = None
    """The row or line to go on at; None where that was all."""
    total: int | None = None
    """Rows or lines in all."""
    picture: bytes | None = None
    """An image's own bytes."""


class Files:
    """Files of the data directory, and with ``session`` of that session's directory."""

    def __init__(self, engine: Engine, *, limits: ReadLimits | None = None) -> None:
        self._engine = engine
        self._data_directory = DataDirectory.of(engine)
        self._limits = limits

    async def read(
        self,
        path: str,
        *,
        session: Session | None = None,
        offset: int = 0,
        limit: int | None = None,
        max_characters: int = MAX_CHARACTERS,
        sheet: str | None = None,
    ) -> Reading:
        """A file as a digest: a table's columns and rows, JSON's structure, a text's lines, what a binary file is.

        ``offset`` and ``limit`` count rows or lines; ``sheet`` names one of a workbook.

        Raises:
            FileRefused: the path leads elsewhere, or to no plain file.
            NoSuchFile: there is none.
            FileUnreadable: it is not what it should be, or too much to be looked at.
        """
        descriptor, size = await self.open(path, session=session)
        name = path.rstrip("/").rpartition("/")[2]
        try:
            answer = await read_digest(
                descriptor,
                name,
                offset=offset,
                limit=limit if limit is not None else _usual_limit(name),
                max_characters=max_characters,
                sheet=sheet,
                limits=self._limits,
            )
            shows = answer.form == "image" and size <= _MOST_PICTURE
            picture = await _in_thread(partial(_bytes_of, descriptor, size)) if shows else None
        finally:
            os.close(descriptor)
        return Reading(path, size, answer.form, answer.text, answer.next_offset, answer.total, picture)

    async def open(self, path: str, *, session: Session | None = None) -> tuple[int, int]:
        """A plain file of any size to read from, by its descriptor, which is the caller's to close; and its size."""
        file_roots = await self._file_roots(session)
        return await _in_thread(partial(_descriptor, file_roots, path))

    async def read_bytes(self, path: str, *, session: Session | None = None) -> bytes:
        """A file's whole content, up to 100 MB."""
        file_roots = await self._file_roots(session)

        def read() -> bytes:
            with file_roots.holding(path) as directory:
                return directory.read(path)

        return await _in_thread(read)

    async def write(
        self, path: str, content: str | bytes, *, session: Session | None = None, append: bool = False
    ) -> FileInfo:
        """Put a file of this content there, all at once, with the directories that it needs; or add to its end.

        Raises:
            FileRefused: the path leads elsewhere, or to something that is never written.
            FileTooLarge: the directory would hold more than ``max_session_disk``.
        """
        data = _encoded(content) if isinstance(content, str) else content

        def write(directory: Workdir) -> Entry:
            with _WRITING:
                content = _appended(directory, path, data) if append else data
                whole = session is not None and session.place.mode == "private"
                check_capacity(directory, path, len(content), self._capacity(session), whole=whole)
                return directory.write(path, content, parents=True)

        return await self._change("append" if append else "write", path, write, session, data=data)

    async def make_directory(self, path: str, *, session: Session | None = None) -> FileInfo:
        """Make a directory, with those above it; one that is there stays."""

        def make(directory: Workdir) -> Entry:
            directory.make_directory(path)
            return _there(directory.entry(path), path)

        return await self._change("mkdir", path, make, session)

    async def delete(self, path: str, *, session: Session | None = None) -> FileInfo:
        """Delete a file, a link itself, or an empty directory, and tell what it was."""

        def delete(directory: Workdir) -> Entry:
            entry = _there(directory.entry(path), path)
            directory.remove(path)
            return entry

        return await self._change("delete", path, delete, session)

    async def move(self, path: str, to: str, *, session: Session | None = None) -> FileInfo:
        """Give a file or directory another name; what has that name already is not replaced."""
        return await self._change("move", path, lambda directory: directory.move(path, to), session, to=to)

    async def list(self, path: str = "", *, session: Session | None = None) -> tuple[list[FileInfo], bool]:
        """What lies in a directory, by its path from the beginning, and whether that is all."""
        file_roots = await self._file_roots(session)
        found = await _in_thread(partial(file_roots.listing, path, MAX_LISTED))
        return [_file_info(entry) for entry in found.entries], found.complete

    async def exists(self, path: str, *, session: Session | None = None) -> bool:
        """Whether anything has this name."""
        file_roots = await self._file_roots(session)
        if not file_roots.check(path, writes=False):
            return True
        return await _in_thread(partial(file_roots.entry, path)) is not None

    async def info(self, path: str, *, session: Session | None = None) -> FileInfo:
        """Type, size, time and hash of what has this name.

        Raises:
            NoSuchFile: nothing has.
        """
        file_roots = await self._file_roots(session)
        return await _in_thread(partial(_info, file_roots, path))

    async def _file_roots(self, session: Session | None) -> FileRoots:
        if session is None:
            return await _in_thread(partial(data_directory_roots, self._data_directory))
        refuse_foreign(session.record, "files")
        return workspace_roots(session.place)

    async def _change(
        self,
        change: Change,
        path: str,
        act: Callable[[Workdir], Entry],
        session: Session | None,
        *,
        data: bytes = b"",
        to: str | None = None,
    ) -> FileInfo:
        if session is not None and session.mode == "overlay":
            # Where nothing can be mounted it is another mode, which only a kernel finds out.
            await session.resume()
        file_roots = await self._file_roots(session)
        for one in (path, to):
            if one is not None and not file_roots.check(one, writes=True):
                raise FileRefused(
                    f"{file_roots.called} itself cannot be changed", hint="Name something inside it"
                )
        if session is None:
            return _file_info(await _in_thread(partial(_acted, file_roots, act)))
        info = await self._change_there(change, path, act, session, file_roots, data=data, to=to)
        await session.take_as_given()
        return info

    async def _change_there(
        self,
        change: Change,
        path: str,
        act: Callable[[Workdir], Entry],
        session: Session,
        file_roots: FileRoots,
        *,
        data: bytes,
        to: str | None,
    ) -> FileInfo:
        if not file_roots.is_layered:
            return _file_info(await _in_thread(partial(_acted, file_roots, act)))
        before = await _in_thread(partial(file_roots.entry, path))
        await change_inside(session, change, path, data, to)
        entry = before if change == "delete" else await _in_thread(partial(file_roots.entry, to or path))
        return _file_info(_there(entry, to or path))

    def _capacity(self, session: Session | None) -> int:
        policy = session.own_policy if session is not None else None
        return policy.disk_bytes if policy is not None else self._engine.settings.max_session_disk


async def _in_thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work)


def _acted(file_roots: FileRoots, act: Callable[[Workdir], Entry]) -> Entry:
    with file_roots.roots[0].open() as directory:
        return act(directory)


def _descriptor(file_roots: FileRoots, path: str) -> tuple[int, int]:
    """A plain file, open to read; the caller's to close."""
    with file_roots.holding(path) as directory, directory.opened(path) as (descriptor, size):
        return os.dup(descriptor), size


def _bytes_of(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, size, 0)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise FileRefused(
            f"The content holds what is no character, at {error.start:,}", hint="Write it as bytes"
        ) from None


def _appended(directory: Workdir, path: str, data: bytes) -> bytes:
    return (directory.read(path) if directory.exists(path) else b"") + data


def _info(file_roots: FileRoots, path: str) -> FileInfo:
    with file_roots.holding(path) as directory:
        entry = _there(directory.entry(path), path)
        if entry.type != "file" or entry.size > _MOST_HASHED:
            return _file_info(entry)
        digest = hashlib.sha256()
        with directory.opened(path) as (descriptor, _):
            while part := os.read(descriptor, _CHUNK):
                digest.update(part)
    return _file_info(entry, sha256=digest.hexdigest())


def _there(entry: Entry | None, path: str) -> Entry:
    if entry is None:
        raise NoSuchFile(f"There is no {path}", hint="List the directory")
    return entry


def _file_info(entry: Entry, sha256: str | None = None) -> FileInfo:
    return FileInfo(shown_path(entry.path), entry.type, entry.size, entry.mtime_ns / _NS, sha256)


def _usual_limit(name: str) -> int:
    ending = name.lower().rpartition(".")[2]
    tables = ("csv", "tsv", "tab", "parquet", "xlsx", "xls", "xlsb", "xlsm", "ods", "jsonl", "ndjson")
    return MAX_ROWS if ending in tables else MAX_LINES


# Where the paths of ``files`` begin, what of it may be seen, and what may be written: a session's workspace,
# or the data directory.

# Code that writes there would be run by others later: by git, by whoever uses the environment.
_NEVER_WRITTEN = (".git", ".venv")

_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Root:
    """A directory, from one above it on that nobody but us can replace."""

    top: Path
    below: str = ""

    def open(self) -> Workdir:
        return Workdir.open(self.top, below=self.below)


@dataclass(frozen=True, slots=True)
class FileRoots:
    """The directories that relative paths are looked up in, from the first root on."""

    called: str
    roots: tuple[Root, ...]
    hidden: tuple[tuple[str, ...], ...] = ()
    """Names that lead to the engine's own state."""
    unwritten: tuple[str, ...] = ()
    """Names at its beginning that are never written."""

    @property
    def is_layered(self) -> bool:
        return len(self.roots) > 1

    def check(self, path: str, *, writes: bool) -> tuple[str, ...]:
        """The names along a path that may be used.

        Raises:
            FileRefused: it leads elsewhere, or to what is not to be seen or written.
        """
        try:
            names = components(path)
            path.encode()
        except UnicodeEncodeError:
            raise FileRefused(f"{path!a} is no text in UTF-8", hint="Name the file in Unicode") from None
        except ValueError as error:
            raise FileRefused(
                f"{path!r} cannot be used in {self.called}: {error}",
                hint="Give a path relative to it, such as 'prices/may.csv'",
            ) from None
        if any(names[: len(one)] == one for one in self.hidden):
            raise FileRefused(f"{path!r} is the engine's own", hint="Name a file of yours")
        if writes and names and names[0] in self.unwritten:
            raise FileRefused(
                f"{names[0]} is not written to: others run what is in it", hint="Write elsewhere"
            )
        return names

    @contextmanager
    def holding(self, path: str) -> Iterator[Workdir]:
        """The directory in which what is at a path is to be found.

        Raises:
            SandboxError: there is none, or the way leads elsewhere.
        """
        names = self.check(path, writes=False)
        with ExitStack() as stack:
            *above, last = self.roots
            for root in above:
                try:
                    layer = stack.enter_context(root.open())
                except SandboxError:  # nothing was written there yet
                    continue
                if _covers(layer, names, path):
                    yield layer
                    return
            yield stack.enter_context(last.open())

    def entry(self, path: str) -> Entry | None:
        """What has this name, or None."""
        try:
            with self.holding(path) as directory:
                return directory.entry(path)
        except NoSuchFile:
            return None

    def listing(self, path: str, max_entries: int) -> Listing:
        """What lies in a directory; of several the uppermost of each name."""
        names = self.check(path, writes=False)
        found: dict[str, Entry] = {}
        complete, missing = True, None
        with self.holding(path) as directory:
            if names and directory.entry(path) is None:
                raise NoSuchFile(f"Cannot list {path}: there is none", hint="List what is above it")
        for root in self.roots:
            try:
                with root.open() as directory:
                    listed = directory.list(path, max_entries)
                    is_opaque = self.is_layered and bool(names) and directory.is_opaque(path)
            except NoSuchFile as error:
                missing = error
                continue
            for entry in listed.entries:
                found.setdefault(entry.path, entry)
            complete = complete and listed.complete
            if is_opaque:
                break
        if not found and missing is not None and len(self.roots) == 1:
            raise missing
        kept = [one for one in found.values() if one.type != "whiteout" and self._is_seen(one.path)]
        return Listing(tuple(sorted(kept, key=lambda one: one.path)), complete)

    def _is_seen(self, path: str) -> bool:
        names = tuple(path.split("/"))
        return names not in self.hidden and not names[-1].startswith(".cellwright-")


def data_directory_roots(data_directory: DataDirectory) -> FileRoots:
    """The shared data directory."""
    data_directory.open().close()
    return FileRoots("the data directory", (Root(data_directory.root),))


def workspace_roots(workspace: Workspace) -> FileRoots:
    """A session's working directory, as its code sees it."""
    cwd = PurePath(workspace.cwd)
    hidden = tuple(
        PurePath(path).relative_to(cwd).parts
        for path in workspace.hidden
        if PurePath(path).is_relative_to(cwd)
    )
    if workspace.mode == "private":
        return FileRoots("the session's directory", (Root(Path(workspace.written)),))
    below = str(cwd.relative_to(workspace.top))
    project = Root(Path(workspace.top), below)
    roots = (Root(Path(workspace.written), below), project) if workspace.mode == "overlay" else (project,)
    return FileRoots("the session's directory", roots, tuple(one for one in hidden if one), _NEVER_WRITTEN)


def check_capacity(directory: Workdir, path: str, size: int, capacity: int, *, whole: bool = False) -> None:
    """Refuse what would fill a directory beyond what one may hold: the whole, or the one that a path begins with."""
    names = components(path)
    first = "" if whole or len(names) == 1 else names[0]
    held = directory.snapshot(max_entries=_MOST_COUNTED, skip=frozenset()).entries
    beside = [
        entry.size
        for name, entry in held.items()
        if entry.type == "file"
        and name != "/".join(names)
        and (whole or (name.startswith(f"{first}/") if first else "/" not in name))
    ]
    if sum(beside) + size > capacity:
        where = first or "the directory"
        raise FileTooLarge(
            f"{path}: with {size:,} bytes more {where} would hold more than {capacity:,} (max_session_disk)",
            hint="Delete files there, write less, or raise CELLWRIGHT_MAX_SESSION_DISK",
        )


def _covers(layer: Workdir, names: tuple[str, ...], path: str) -> bool:
    """Whether a layer says what is at a path: it holds it, or something that hides what lies below."""
    for count in range(1, len(names) + 1):
        part = "/".join(names[:count])
        entry = layer.entry(part)
        if entry is None:
            return False
        if entry.type == "whiteout":
            raise NoSuchFile(f"Cannot reach {path}: the session deleted {part}", hint="List what is there")
        if entry.type != "directory" or layer.is_opaque(part):
            return True
    return bool(names)


# Changes to the files of a session that works over a project: made by its own kernel, in its own sandbox.

Change: TypeAlias = Literal["write", "append", "delete", "move", "mkdir"]

_PART_BYTES = 8 << 20
"""What one order to the kernel brings; a larger file comes in several."""

_TIMEOUT_S = 60

_CLEANUP_S = 20

# Written by its rename, as everything is; what stands there is replaced, and a link is not followed.
_PROGRAM = """
import base64, os, zlib
path, data = order["path"], zlib.decompress(base64.b64decode(order["data"]))
above = os.path.dirname(path)
if order["change"] in ("write", "append", "mkdir"):
    os.makedirs(above or ".", exist_ok=True)
if order["change"] in ("write", "append"):
    made = os.path.join(above, order["made"])
    if order["first"] and order["change"] == "append" and os.path.lexists(path):
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = file.read() + data
    try:
        with open(made, "xb" if order["first"] else "ab") as file:
            file.write(data)
        if order["last"]:
            os.rename(made, path)
    except BaseException:
        if os.path.lexists(made):
            os.unlink(made)
        raise
elif order["change"] == "delete":
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
elif order["change"] == "mkdir":
    os.makedirs(path, exist_ok=True)
elif order["change"] == "move":
    if os.path.lexists(order["to"]):
        raise FileExistsError(order["to"] + " is there already")
    os.makedirs(os.path.dirname(order["to"]) or ".", exist_ok=True)
    os.rename(path, order["to"])
"""

_ERRORS: dict[str, type[SandboxError]] = {
    "FileNotFoundError": NoSuchFile,
    "FileExistsError": FileRefused,
    "PermissionError": FileRefused,
}


async def change_inside(
    session: Session, change: Change, path: str, data: bytes = b"", to: str | None = None
) -> None:
    """Make one change in a session's working directory, by its kernel.

    Raises:
        KernelBusy: it runs a cell.
        SandboxError: it could not be made.
    """
    if session.runs.live:
        raise KernelBusy(
            f"Session {session.id} runs a cell, and its files wait for it", hint="Wait for its end"
        )
    order = {"change": change, "path": path, "to": to, "made": f".cellwright-{secrets.token_hex(8)}.tmp"}
    starts = range(0, max(1, len(data)), _PART_BYTES)
    try:
        for start in starts:
            ends = {"first": start == starts[0], "last": start == starts[-1]}
            await _obeyed(session, order | ends, data[start : start + _PART_BYTES])
    except BaseException:
        if len(starts) > 1:  # whoever gave up between two parts leaves nothing of them
            made = str(PurePosixPath(path).parent / str(order["made"]))
            with anyio.move_on_after(_CLEANUP_S, shield=True), suppress(SandboxError):
                await _obeyed(session, {"change": "delete", "path": made})
        raise


async def _obeyed(session: Session, order: dict[str, Any], data: bytes = b"") -> None:
    # Packed: a kernel takes about a second for each megabyte of source.
    packed = await anyio.to_thread.run_sync(zlib.compress, data)
    arguments = json.dumps({**order, "data": base64.b64encode(packed).decode()})
    source = f"exec({_PROGRAM!r}, {{'order': __import__('json').loads({arguments!r})}})"
    execution = await session.execute_code(source, language="python", numbered=False, timeout_s=_TIMEOUT_S)
    await execution.wait()
    if not execution.ok:
        raise _failure(execution.error, execution.reason, order["path"])


def _failure(error: dict[str, Any] | None, reason: str | None, path: str) -> SandboxError:
    if error is None:
        return FileFailed(f"{path} could not be changed: {reason or 'the kernel did not do it'}")
    kind = _ERRORS.get(str(error.get("ename")), FileFailed)
    return kind(f"{path} could not be changed: {error.get('evalue')}", hint="List what is there")
