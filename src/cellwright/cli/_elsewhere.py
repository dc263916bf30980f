"""What the command line answers on a system that it does not run on: what to run there instead. Standard library only."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import cellwright
from cellwright.errors import NotLinux

__all__ = ["answer"]

_OK = 0
_FAILED = 3


def answer(arguments: Sequence[str]) -> int:
    """Say what runs Cellwright here, and return the exit code; the version and help are the same everywhere."""
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"{cellwright.__version__}\n")
        return _OK
    helps = bool(arguments) and arguments[0] in ("help", "--help", "-h")
    error = NotLinux("COMMAND" if helps else shlex.join(arguments))
    sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
    if helps:
        from cellwright.cli._help import answer as answer_help  # not for what is refused

        return answer_help(arguments) or _OK
    return _FAILED
