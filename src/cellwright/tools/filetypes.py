"""What kind of file a name stands for, in the words that tools use. Pure; looks into none (see ``file_system`` for that)."""

from __future__ import annotations

from pathlib import PurePath

__all__ = ["file_type"]

_TYPES = {
    "csv": ("csv", "tsv"),
    "json": ("json", "jsonl", "ndjson", "geojson", "ipynb"),
    "image": ("png", "jpg", "jpeg", "gif", "webp", "svg", "bmp", "tif", "tiff"),
    "parquet": ("parquet",),
    "excel": ("xlsx", "xls", "xlsm", "xlsb", "ods"),
    "html": ("html", "htm"),
    "pdf": ("pdf",),
    "text": (
        "txt",
        "md",
        "log",
        "py",
        "js",
        "ts",
        "mjs",
        "xml",
        "yaml",
        "yml",
        "toml",
        "ini",
        "sql",
        "rst",
        "tex",
    ),
}
_BY_SUFFIX = {suffix: kind for kind, suffixes in _TYPES.items() for suffix in suffixes}


def file_type(path: str) -> str:
    """One of ``csv``, ``json``, ``image``, ``text``, ``parquet``, ``excel``, ``html``, ``pdf``, else ``binary``."""
    return _BY_SUFFIX.get(PurePath(path).suffix.lower().removeprefix("."), "binary")
