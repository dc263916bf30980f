"""What a browser is told of an answer that it is to save. Pure."""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["attachment"]


def attachment(name: str) -> dict[str, str]:
    """The header that names the file, whatever letters its name has."""
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
