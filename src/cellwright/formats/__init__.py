"""Notebooks as other people's files, and back. Knows documents and charts, and neither sessions nor kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.formats._registry import (
        every_format,
        export,
        format_named,
        format_of_file,
        missing_extra,
        read,
        readable,
        writable,
    )
    from cellwright.formats.model import Exported, FindFile, Format, Imported

__all__ = [
    "Exported",
    "FindFile",
    "Format",
    "Imported",
    "every_format",
    "export",
    "format_named",
    "format_of_file",
    "missing_extra",
    "read",
    "readable",
    "writable",
]

_HELD_BY_MODEL = frozenset({"Exported", "FindFile", "Format", "Imported"})


def __getattr__(name: str) -> Any:
    """Load a public name on first use: the process that makes a page needs none of the other formats."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # see above

    home = "model" if name in _HELD_BY_MODEL else "_registry"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
