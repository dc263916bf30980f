"""What the command's exit code says, and how an error is shown."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

import typer

from cellwright.errors import CellwrightError

__all__ = ["ExitCode", "fail", "show_error"]


class ExitCode(IntEnum):
    """Documented in ``docs/reference/command-line.md``."""

    OK = 0
    RUN_FAILED = 1
    BAD_USAGE = 2
    ENGINE_FAILED = 3
    INTERRUPTED = 130


def show_error(error: CellwrightError) -> None:
    """Say on stderr what failed and what to do."""
    typer.echo(f"error: {error.message}", err=True)
    if error.hint:
        typer.echo(f"hint: {error.hint}", err=True)


def fail(error: CellwrightError, code: ExitCode = ExitCode.ENGINE_FAILED) -> NoReturn:
    """Say what failed, and end the command."""
    show_error(error)
    raise typer.Exit(code)
