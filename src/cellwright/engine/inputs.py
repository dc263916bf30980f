"""The files that a kernel's code has read, as typed values made from what it tells (see ``cellwright_kernel.inputs``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cellwright.errors import KernelError
from cellwright.notebook.python_names import cell_names, text_constants

__all__ = [
    "INPUTS_REQUEST",
    "UNKNOWN",
    "InputFile",
    "Inputs",
    "inputs_of",
    "named_in",
    "recorded_inputs",
    "with_inputs",
]

INPUTS_REQUEST = "cellwright_inputs_request"
UNKNOWN = "unknown: written after it was read"
_MOST_TEXTS = 500
_LONGEST_TEXT = 5_000


class InputFile(msgspec.Struct, frozen=True):
    """A file that was read; its path is from the working directory where it lies below that, else in full."""

    path: str
    size: int
    mtime_ns: int
    sha256: str | None = None
    """None where so much was read already that hashing this too would take too long."""
    changed: bool = False
    """Whether the code that read it wrote it afterwards, so that nobody knows what it held."""

    @property
    def digest(self) -> str:
        """What tells whether it is still the same."""
        if self.changed:
            return UNKNOWN
        return self.sha256 or f"not hashed: {self.size} bytes, modified {self.mtime_ns}"


class Inputs(msgspec.Struct, frozen=True):
    """What code read, and with what it ran."""

    files: tuple[InputFile, ...] = ()
    omitted: int = 0
    """How many more were read than are told."""
    watching: bool = False
    packages: dict[str, str] = {}
    """Distributions that the code imported, each with its version."""
    interpreter: str = ""
    python: str = ""
    platform: str = ""


def inputs_of(reply: dict[str, Any]) -> Inputs:
    """Read the kernel's answer.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    if reply.get("status") != "ok":
        raise KernelError(f"The files read could not be told: {reply.get('ename')}: {reply.get('evalue')}")
    try:
        return msgspec.convert(reply, Inputs)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of the files read cannot be understood: {error}") from error


def with_inputs(metadata: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """A cell's metadata with the files that its run read, each with what tells whether it is still the same."""
    ours = metadata.get("cellwright")
    kept = {key: value for key, value in ours.items() if key != "inputs"} if isinstance(ours, Mapping) else {}
    found = {"inputs": {file.path: file.digest for file in inputs.files}} if inputs.files else {}
    return {**metadata, "cellwright": {**kept, **found}}


def recorded_inputs(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What ``with_inputs`` wrote; nothing where it did not, or where it cannot be read."""
    ours = metadata.get("cellwright")
    inputs = ours.get("inputs") if isinstance(ours, Mapping) else None
    return {str(path): str(digest) for path, digest in inputs.items()} if isinstance(inputs, Mapping) else {}


def named_in(source: str) -> dict[str, list[str]]:
    """What a cell's source names that the kernel can look for: texts that may be files, and modules."""
    texts = [text for text in text_constants(source) if len(text) <= _LONGEST_TEXT]
    return {"texts": texts[:_MOST_TEXTS], "modules": sorted(cell_names(source).modules)}
