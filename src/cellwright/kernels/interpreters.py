"""Which Python runs a notebook, and what it lacks to run kernels."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Interpreter", "find_project_python", "prepare_interpreter"]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can run kernels."""

    python: Path
    origin: Literal["project", "own"]
    layers: tuple[Path, ...] = ()
    """Directories that come after the interpreter's own path."""


def find_project_python(start: Path) -> Path | None:
    """The nearest ``.venv/bin/python`` at or above a directory."""
    for directory in (start, *start.parents):
        python = directory / ".venv" / "bin" / "python"
        if python.exists():
            return python
    return None


async def prepare_interpreter(python: Path | None, *, cache: Path) -> Interpreter:
    if python is None:
        return Interpreter(Path(sys.executable), "own")
    return Interpreter(python, "project")
