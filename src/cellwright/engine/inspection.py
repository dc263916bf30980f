"""What a live kernel holds, as typed values made from what the kernel tells (see ``cellwright_kernel.inspection``)."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Completion", "Function", "Inspection", "Variable", "completion_of", "inspection_of"]

INSPECT_REQUEST = "cellwright_inspect_request"


class Variable(msgspec.Struct, frozen=True):
    """A name in the namespace; ``digest`` is short, and made without running the object's own code."""

    name: str
    type: str
    shape: str | None = None
    digest: str | None = None


class Function(msgspec.Struct, frozen=True):
    name: str
    signature: str


class Inspection(msgspec.Struct, frozen=True):
    """A kernel's namespace and surroundings; ``omitted`` counts what did not fit."""

    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    modules: tuple[str, ...]
    cwd: str
    interpreter: str
    python: str
    omitted: int = 0
    packages: dict[str, str] | None = None


class Completion(msgspec.Struct, frozen=True):
    """What could replace ``code[start:end]``."""

    matches: tuple[str, ...]
    start: int
    end: int


def inspection_of(reply: dict[str, Any]) -> Inspection:
    return msgspec.convert(reply, Inspection)


def completion_of(reply: dict[str, Any]) -> Completion:
    return Completion(tuple(reply["matches"]), reply["cursor_start"], reply["cursor_end"])
