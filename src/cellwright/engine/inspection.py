"""What a live kernel holds, as typed values made from what the kernel tells (see ``cellwright_kernel.inspection``)."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from cellwright.errors import KernelError

__all__ = [
    "INSPECT_REQUEST",
    "Class",
    "Completion",
    "Function",
    "Inspection",
    "Module",
    "Variable",
    "completion_of",
    "inspection_of",
]

INSPECT_REQUEST = "cellwright_inspect_request"
T = TypeVar("T")


class Variable(msgspec.Struct, frozen=True):
    """A name in the namespace; ``digest`` is short, and made without running the object's own code."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    length: int | None = None
    digest: str | None = None


class Function(msgspec.Struct, frozen=True):
    """A function; ``module`` is where it was imported from, none where a cell defined it."""

    name: str
    signature: str
    doc: str | None = None
    module: str | None = None


class Class(msgspec.Struct, frozen=True, rename={"qualified_name": "class"}):
    name: str
    qualified_name: str


class Module(msgspec.Struct, frozen=True):
    """An imported module under the name the session gave it, for instance ``pd`` for ``pandas``."""

    name: str
    module: str | None = None
    version: str | None = None


class Inspection(msgspec.Struct, frozen=True):
    """A kernel's namespace and surroundings, newest names first; ``omitted`` counts what did not fit."""

    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    classes: tuple[Class, ...]
    modules: tuple[Module, ...]
    interpreter: str
    python: str
    cwd: str | None = None
    omitted: int = 0
    packages: tuple[str, ...] = ()


class Completion(msgspec.Struct, frozen=True):
    """What could replace ``code[start:end]``."""

    matches: tuple[str, ...]
    start: int
    end: int


def inspection_of(reply: dict[str, Any]) -> Inspection:
    """Read the kernel's answer.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    if reply.get("status") != "ok":
        raise KernelError(
            f"The namespace could not be inspected: {reply.get('ename')}: {reply.get('evalue')}"
        )
    return _read(reply, Inspection)


class _Completed(msgspec.Struct):
    matches: tuple[str, ...]
    cursor_start: int
    cursor_end: int


def completion_of(reply: dict[str, Any]) -> Completion:
    """Read the kernel's answer.

    Raises:
        KernelError: it is none.
    """
    found = _read(reply, _Completed)
    return Completion(found.matches, found.cursor_start, found.cursor_end)


def _read(reply: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(reply, kind)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of its names cannot be read: {error}") from error
