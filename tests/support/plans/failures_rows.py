"""What a row of the table of real failures is; the rows stand in ``failures_table_*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Row", "mended", "stopped", "suggested"]

Ending = Literal["mended", "suggested", "stopped"]


@dataclass(frozen=True, slots=True)
class Row:
    """One cell that fails, and what must come of it."""

    name: str
    verdict: str
    """The class of its error."""
    code: str
    ending: Ending
    check: str | None = None
    """True only after a right repair."""
    fixer: str | None = None
    """Which fixer repairs it."""
    says: str = ""
    """What the suggestion must say where it stops."""
    setup: str = ""
    """What ran before it."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    timeout_s: float | None = None
    kind: str = "recoverable"


def mended(name: str, verdict: str, fixer: str, code: str, check: str, **more: Any) -> Row:
    """It is repaired, and the result is right."""
    return Row(name, verdict, code, "mended", check, fixer, **_files(more))


def suggested(name: str, verdict: str, code: str, says: str = "", **more: Any) -> Row:
    """It is left as it is: a repair would be a guess. What it says must help."""
    return Row(name, verdict, code, "suggested", says=says, **_files(more))


def stopped(name: str, verdict: str, code: str, says: str = "", **more: Any) -> Row:
    """Nobody tries to repair it."""
    return Row(name, verdict, code, "stopped", says=says, **_files({"kind": "unrecoverable", **more}))


def _files(more: dict[str, Any]) -> dict[str, Any]:
    files = more.get("files", {})
    held = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    return {**more, "files": held}
