"""What an execution cost and what a namespace's values can be compared by, as typed values.

Made from what the kernel tells (see ``cellwright_kernel.profiling`` and ``cellwright_kernel.fingerprints``).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from cellwright.errors import KernelError

__all__ = [
    "FINGERPRINTS_REQUEST",
    "PROFILE_REQUEST",
    "Fingerprint",
    "Frame",
    "Hashes",
    "Line",
    "Measured",
    "Profile",
    "Statement",
    "fingerprints_of",
    "profile_of",
]

PROFILE_REQUEST = "cellwright_profile_request"
FINGERPRINTS_REQUEST = "cellwright_fingerprints_request"

_Told = TypeVar("_Told")


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """A top-level statement that ran."""

    line: int
    seconds: float


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A line of a cell's code that ran; its seconds hold those of what it called."""

    cell_id: str
    scope: str
    """The function that it is in; empty at the top level."""
    line: int
    hits: int
    seconds: float


class Measured(msgspec.Struct, frozen=True):
    """One execution's cost."""

    statements: tuple[Statement, ...]
    cpu_s: float
    memory_bytes: int
    """How far memory rose above what there was at its beginning."""
    followed: bool = False
    cut: bool = False
    """Whether it went on longer than its lines were followed."""
    lines: tuple[Line, ...] = ()

    @property
    def seconds(self) -> float:
        """By the clock, in the cell's own statements."""
        return sum(statement.seconds for statement in self.statements)


class Frame(msgspec.Struct, frozen=True):
    """A frame that a name stands for."""

    rows: int
    width: int
    columns: dict[str, str]
    """Types by name, as far as names are text."""
    attributes: tuple[str, ...]
    """Columns that can be had as an attribute too."""
    unique: bool
    """Whether no two rows have the same label."""


class Profile(msgspec.Struct, frozen=True):
    """What the last execution cost, and what it left."""

    measured: Measured | None = None
    types: dict[str, str] = {}
    frames: dict[str, Frame] = {}


class Hashes(msgspec.Struct, frozen=True):
    """Of all that a value holds, and of that with numbers rounded to nine digits."""

    exact: str
    close: str

    def same(self, other: Hashes) -> bool:
        return self.exact == other.exact or self.close == other.close


class Fingerprint(msgspec.Struct, frozen=True):
    """A value's type, and its hashes where it could be looked into."""

    type: str
    exact: str | None = None
    close: str | None = None
    number: float | None = None
    columns: dict[str, Hashes] | None = None
    index: Hashes | None = None

    @property
    def known(self) -> bool:
        return self.exact is not None or self.columns is not None


def profile_of(reply: dict[str, Any]) -> Profile:
    """Read the kernel's answer.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    return _read(reply, Profile)


def fingerprints_of(reply: dict[str, Any]) -> dict[str, Fingerprint]:
    """Read the kernel's answer, by name.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    return _read(reply, _Fingerprints).values


class _Fingerprints(msgspec.Struct, frozen=True):
    values: dict[str, Fingerprint]


def _read(reply: dict[str, Any], kind: type[_Told]) -> _Told:
    if reply.get("status") != "ok":
        raise KernelError(f"The cost could not be told: {reply.get('ename')}: {reply.get('evalue')}")
    try:
        return msgspec.convert(reply, kind)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of the cost cannot be read: {error}") from error
