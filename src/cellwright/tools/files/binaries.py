"""What can be said of a file that is no text: size of a picture, contents of an archive, tables of a database.

Never its bytes. Looks at heads and directories only; unpacks nothing. Runs in the process that reads.
"""

from __future__ import annotations

import ast
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import BinaryIO

__all__ = ["described", "picture_size"]

_MOST_LISTED = 30
_MOST_TABLES = 30
_LONGEST_NAME = 120
_NPY_HEAD = 10
# Those of 0xC0 to 0xCF that begin a frame, whatever its coding.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def described(called: str, file: BinaryIO, path: str) -> list[str]:
    """Lines about a file; ``path`` is for a library that must open it itself.

    What is broken is said, since the head of a broken file looks like that of a good one.
    """
    describe = {
        "ZIP archive": _zip,
        "tar archive": _tar,
        "SQLite database": lambda _: _sqlite(path),
        "NumPy array": _numpy,
    }.get(called)
    if describe is None:
        return []
    try:
        return list(describe(file))
    except (
        OSError,
        ValueError,
        EOFError,
        SyntaxError,
        NotImplementedError,
        zipfile.BadZipFile,
        tarfile.TarError,
        sqlite3.Error,
        struct.error,
    ) as error:
        return [f"it is broken: {type(error).__name__}: {str(error)[:200]}"]


def picture_size(head: bytes, file: BinaryIO) -> tuple[int, int] | None:
    """Width and height of a picture, by its head."""
    if head.startswith(b"\x89PNG") and head[12:16] == b"IHDR":
        return struct.unpack(">II", head[16:24])
    if head.startswith(b"GIF8"):
        return struct.unpack("<HH", head[6:10])
    if head.startswith(b"BM"):
        width, height = struct.unpack("<ii", head[18:26])
        return width, abs(height)
    if head[8:12] == b"WEBP":
        return _webp(head)
    if head.startswith(b"\xff\xd8"):
        return _jpeg(file)
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _jpeg(file: BinaryIO) -> tuple[int, int] | None:
    """The frame's segment says it; the ones before it are stepped over."""
    file.seek(2)
    for _ in range(1_000):
        mark = file.read(4)
        if len(mark) < 4 or mark[0] != 0xFF:  # noqa: PLR2004  # a marker and a length
            return None
        if mark[1] in _JPEG_FRAMES:
            _, height, width = struct.unpack(">BHH", file.read(5))
            return width, height
        file.seek(int.from_bytes(mark[2:], "big") - 2, 1)
    return None


def _zip(file: BinaryIO) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        yield f"{len(parts):,} entries, {unpacked:,} bytes unpacked"
        for part in parts[:_MOST_LISTED]:
            yield f"{part.file_size:>12,}  {_shown(part.filename)}"
        if len(parts) > _MOST_LISTED:
            yield f"… {len(parts) - _MOST_LISTED:,} more entries"


def _tar(file: BinaryIO) -> Iterator[str]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        found = list(islice(archive, _MOST_LISTED + 1))
    for member in found[:_MOST_LISTED]:
        yield f"{member.size:>12,}  {_shown(member.name)}"
    if len(found) > _MOST_LISTED:
        yield "… and more entries"


def _sqlite(path: str) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        named = database.execute(
            "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name LIMIT ?",
            (_MOST_TABLES + 1,),
        ).fetchall()
    for name, kind, made_by in named[:_MOST_TABLES]:
        yield f"{kind} {_shown(str(name))}: {_shown(str(made_by))}"
    if len(named) > _MOST_TABLES:
        yield "… and more tables"


def _numpy(file: BinaryIO) -> Iterator[str]:
    file.seek(0)
    head = file.read(_NPY_HEAD)
    # The length of what follows takes two bytes more since version 2.
    length = int.from_bytes(head[8:10] if head[6] == 1 else head[8:10] + file.read(2), "little")
    about = ast.literal_eval(file.read(min(length, 10_000)).decode("latin-1"))
    yield f"shape {about['shape']}, dtype {about['descr']}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    kept = line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in kept)
