"""Recognises the kind of a file by its first bytes, then by its name. Pure; reports a name that the bytes contradict.

What is in it is for others to say (``duckdb_frames``, ``reader``, ``reader``, ``reader``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["HEAD_BYTES", "FileKind", "Form", "kind_of_file"]

Form: TypeAlias = Literal["csv", "json", "jsonl", "parquet", "excel", "text", "image", "binary"]
HEAD_BYTES = 65_536
_NUL_SHARE = 0.3
_CONTROL_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class FileKind:
    form: Form
    called: str
    """What people call it."""
    contradicts: bool = False
    """Whether its name says that it is something else."""


# Where several begin alike, the longer stands first.
_MAGIC: tuple[tuple[bytes, FileKind], ...] = (
    (b"PAR1", FileKind("parquet", "Parquet")),
    (b"\x89PNG\r\n\x1a\n", FileKind("image", "PNG image")),
    (b"\xff\xd8\xff", FileKind("image", "JPEG image")),
    (b"GIF87a", FileKind("image", "GIF image")),
    (b"GIF89a", FileKind("image", "GIF image")),
    (b"SQLite format 3\x00", FileKind("binary", "SQLite database")),
    (b"PK\x03\x04", FileKind("binary", "ZIP archive")),
    (b"PK\x05\x06", FileKind("binary", "ZIP archive")),
    (b"\x1f\x8b", FileKind("binary", "gzip file")),
    (b"BZh", FileKind("binary", "bzip2 file")),
    (b"\xfd7zXZ\x00", FileKind("binary", "xz file")),
    (b"\x28\xb5\x2f\xfd", FileKind("binary", "Zstandard file")),
    (b"7z\xbc\xaf\x27\x1c", FileKind("binary", "7z archive")),
    (b"Rar!\x1a\x07", FileKind("binary", "RAR archive")),
    (b"%PDF-", FileKind("binary", "PDF document")),
    (b"\x7fELF", FileKind("binary", "ELF program")),
    (b"MZ\x90", FileKind("binary", "Windows program")),
    (b"\x93NUMPY", FileKind("binary", "NumPy array")),
    (b"ARROW1", FileKind("binary", "Arrow file (Feather)")),
    (b"\x89HDF\r\n\x1a\n", FileKind("binary", "HDF5 file")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileKind("binary", "Microsoft Office file")),
    (b"OggS", FileKind("binary", "Ogg media")),
    (b"ID3", FileKind("binary", "MP3 audio")),
    (b"fLaC", FileKind("binary", "FLAC audio")),
    (b"\x00asm", FileKind("binary", "WebAssembly module")),
    (b"\xca\xfe\xba\xbe", FileKind("binary", "Java class")),
)
_RIFF = {
    b"WEBP": FileKind("image", "WebP image"),
    b"WAVE": FileKind("binary", "WAV audio"),
    b"AVI ": FileKind("binary", "AVI video"),
}
_TABLE_ENDINGS = frozenset({"csv", "tsv", "tab"})
_EXCEL_ENDINGS = frozenset({"xlsx", "xlsm", "xlsb", "xls", "ods"})
_JSON_ENDINGS = frozenset({"json", "geojson", "ipynb"})
_LINES_ENDINGS = frozenset({"jsonl", "ndjson"})
_IMAGE_ENDINGS = frozenset({"png", "jpg", "jpeg", "gif", "webp", "bmp"})


def kind_of_file(name: str, head: bytes) -> FileKind:
    """What a file of this name is that begins with these bytes."""
    ending = name.lower().rpartition(".")[2] if "." in name else ""
    magic = _by_magic(head)
    if magic is None:
        return _by_name(ending, head)
    if ending in _EXCEL_ENDINGS and magic.called in ("ZIP archive", "Microsoft Office file"):
        return FileKind("excel", "Excel")
    return FileKind(magic.form, magic.called, contradicts=_contradicts(ending, magic))


def _by_magic(head: bytes) -> FileKind | None:
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    # Media that say what they are a little later.
    inner = _RIFF.get(head[8:12]) if head[:4] == b"RIFF" else None
    if inner is None and head[4:8] == b"ftyp":
        inner = FileKind("binary", "MP4 media")
    if inner is None and head[257:262] == b"ustar":
        inner = FileKind("binary", "tar archive")
    if inner is None and head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        inner = FileKind("image", "BMP image")
    return inner


def _by_name(ending: str, head: bytes) -> FileKind:
    if not _is_text(head):
        if ending in ("pkl", "pickle", "joblib"):
            return FileKind("binary", "pickle (never loaded here: it is code)")
        known = ending in (
            *_TABLE_ENDINGS,
            *_EXCEL_ENDINGS,
            *_JSON_ENDINGS,
            *_LINES_ENDINGS,
            "parquet",
            "txt",
        )
        return FileKind("binary", "binary file", contradicts=known or ending in _IMAGE_ENDINGS)
    if ending in _TABLE_ENDINGS:
        return FileKind("csv", "TSV" if ending in ("tsv", "tab") else "CSV")
    if ending in _JSON_ENDINGS:
        return FileKind("json", "JSON")
    if ending in _LINES_ENDINGS:
        return FileKind("jsonl", "JSON Lines")
    lies = bool(head) and ending in (*_EXCEL_ENDINGS, *_IMAGE_ENDINGS, "parquet", "pdf", "zip")
    return FileKind("text", "text", contradicts=lies)


def _contradicts(ending: str, magic: FileKind) -> bool:
    if magic.form == "image":
        return bool(ending) and ending not in _IMAGE_ENDINGS
    if magic.form == "parquet":
        return bool(ending) and ending not in ("parquet", "pq", "parq")
    endings = (*_TABLE_ENDINGS, *_EXCEL_ENDINGS, *_JSON_ENDINGS, *_LINES_ENDINGS, *_IMAGE_ENDINGS)
    return ending in (*endings, "parquet", "txt", "md", "py")


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    nuls = head.count(0)
    if nuls:
        # UTF-16 without a mark has one in every other byte.
        even, odd = head[::2].count(0), head[1::2].count(0)
        return nuls > _NUL_SHARE * len(head) and min(even, odd) * 20 < max(even, odd)
    control = sum(head.count(code) for code in (*range(1, 9), *range(14, 27), *range(28, 32), 127))
    return control <= _CONTROL_SHARE * len(head)
