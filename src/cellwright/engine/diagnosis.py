"""What a kernel can tell of the error it raised last, as typed values (see ``cellwright_kernel.diagnosis``).

Only facts: what was raised, where, and what lies around it. What they mean is for others to decide.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cellwright.errors import KernelError

__all__ = ["DIAGNOSE_REQUEST", "Diagnosis", "Head", "Raised", "Span", "Subject", "diagnosis_of"]

DIAGNOSE_REQUEST = "cellwright_diagnose_request"


class Span(msgspec.Struct, frozen=True):
    """A place in a cell's source, as ``ast`` counts: lines from 1, columns in UTF-8 bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


class Raised(msgspec.Struct, frozen=True):
    """One exception."""

    type: str
    """Its class's name, as Python shows it: ``KeyError``, ``ParserError``."""
    message: str
    bases: tuple[str, ...] = ()
    """Its class and those it inherits from, the nearest first: builtins by name, others with their module
    (``pandas.errors.ParserError``)."""
    details: dict[str, Any] = {}
    """Plain attributes of it that say more. ``name``, ``filename``, ``errno`` of an OSError, ``key`` (of a KeyError, where
    it is a str, int, float, bool or None), ``lineno``, ``offset``, ``text``, ``msg`` of a SyntaxError (and its
    ``filename``, where it is not the cell that cannot be parsed), ``encoding`` and ``start`` of a UnicodeError, ``name``
    and ``path`` of an ImportError, ``obj_type`` of an AttributeError, ``code`` of a SystemExit."""
    span: Span | None = None
    """The innermost place in the cell's own source that led to it."""
    library: str | None = None
    """The top-level module that raised it, if not the cell's own code."""


class Subject(msgspec.Struct, frozen=True):
    """The object that the failing expression was applied to: the ``df`` of ``df["x"]``, the ``items`` of ``items[7]``."""

    expression: str
    type: str
    """With its module: ``pandas.core.frame.DataFrame``, ``list``."""
    columns: tuple[str | int, ...] | None = None
    """Of a frame: its columns' names, as far as they are text or numbers; at most 500."""
    keys: tuple[str | int, ...] | None = None
    """Of a mapping: likewise."""
    length: int | None = None
    shape: tuple[int, ...] | None = None
    attributes: tuple[str, ...] = ()
    """Public attributes; at most 1,000."""


class Head(msgspec.Struct, frozen=True):
    """How a file begins that the failing statement names."""

    path: str
    """As the code names it."""
    content: bytes
    """At most 64 KiB."""
    size: int


class Diagnosis(msgspec.Struct, frozen=True):
    """An error and what lies around it."""

    roots: tuple[Raised, ...]
    """What it comes down to: the end of its chain of explicit causes; of a group, one for each leaf."""
    raised: Raised
    """What reached the top."""
    chain: tuple[Raised, ...] = ()
    """Everything else on the way, contexts included."""
    subject: Subject | None = None
    values: dict[str, str] = {}
    """Names in the failing statement, each with a short digest of its value."""
    names: tuple[str, ...] = ()
    """Names that the code could use where it failed: the namespace's, and the failing function's own."""
    modules: tuple[str, ...] = ()
    """Top-level modules that can be imported."""
    members: dict[str, tuple[str, ...]] = {}
    """Public names of the modules that the failing statement imports from or uses by attribute."""
    files: tuple[str, ...] = ()
    """What lies in the working directory and, after that, elsewhere in the project, as one names it from here
    (``../data.csv``), directories with a ``/`` at the end; at most 2,000."""
    heads: tuple[Head, ...] = ()
    directory: str | None = None
    python: str = ""


def diagnosis_of(reply: dict[str, Any]) -> Diagnosis | None:
    """Read the kernel's answer; None where nothing was raised.

    Raises:
        KernelError: the kernel could not look.
    """
    if reply.get("status") != "ok":
        raise KernelError(f"The error could not be looked into: {reply.get('ename')}: {reply.get('evalue')}")
    if not reply.get("raised"):
        return None
    try:
        return msgspec.convert(reply, Diagnosis)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of the error cannot be read: {error}") from error
