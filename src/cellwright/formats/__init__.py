"""Notebooks as other people's files, and back. Knows documents and charts, and neither sessions nor kernels."""

from __future__ import annotations

from cellwright.formats.model import Exported, FindFile, Imported
from cellwright.formats.registry import (
    FORMATS,
    Format,
    export,
    format_named,
    format_of_file,
    read,
    readable,
    writable,
)

__all__ = [
    "FORMATS",
    "Exported",
    "FindFile",
    "Format",
    "Imported",
    "export",
    "format_named",
    "format_of_file",
    "read",
    "readable",
    "writable",
]
