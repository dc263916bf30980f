"""Files as tools use them: read as a digest, written all at once, listed, moved, deleted; in one directory only.

That directory is a session's, or the shared one (``data_directory``). Which paths lead where is ``locations``'s to say; how a file
is looked into, ``digests``'s.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio

from cellwright.engine import Engine, Session
from cellwright.engine.foreign_kernels import refuse_foreign
from cellwright.errors import FileRefused, NoSuchFile
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.listings import shown_path
from cellwright.tools.data_directory import DataDirectory
from cellwright.tools.files.digests import ReadLimits, read_digest
from cellwright.tools.files.locations import FileRoots, check_capacity, data_directory_roots, workspace_roots
from cellwright.tools.files.overlay_writes import Change, change_inside

__all__ = ["FileInfo", "Files", "Reading"]

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
