"""HTML and PDF made in a process of their own, since a notebook may hold anything.

Neither a page that takes a minute nor one that takes all memory, or the process down with it, may be felt by whoever
asked. The child is ``python -m cellwright.formats``; what it does is ``to_html`` and ``to_pdf``.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias

import anyio
import msgspec

from cellwright.errors import CellwrightError, NotebookError
from cellwright.notebook import Document

__all__ = ["LIMIT_S", "MEMORY_BYTES", "Answer", "Order", "RenderFailed", "Rendered", "refusal", "render"]

LIMIT_S = 180.0
MEMORY_BYTES = 6 * 1024**3
_SHOWN_WORDS = 300

PageFormat: TypeAlias = Literal["html", "pdf"]


class RenderFailed(NotebookError):
    """A page could not be made; the message says why."""

    code = "render_failed"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page, and what is not in it as it is in the notebook."""

    content: bytes
    notices: tuple[str, ...]


class Order(msgspec.Struct, frozen=True):
    """What the child is asked for, on its standard input."""

    notebook: bytes
    name: str
    format: PageFormat
    include_outputs: bool
    limit_s: float
    memory_bytes: int


class Answer(msgspec.Struct, frozen=True):
    """What it answers on its standard output: a page, or an error in words."""

    content: bytes = b""
    notices: tuple[str, ...] = ()
    error: str | None = None
    hint: str | None = None


async def render(
    document: Document,
    *,
    name: str,
    format: PageFormat,  # noqa: A002  # the word that everybody uses
    include_outputs: bool = True,
    limit_s: float = LIMIT_S,
    memory_bytes: int = MEMORY_BYTES,
) -> Rendered:
    """A notebook as a page.

    Raises:
        RenderFailed: it could not be made, or not within the time or the memory that there is for one.
    """
    order = Order(document.to_bytes(), name, format, include_outputs, limit_s, memory_bytes)
    command = [sys.executable, "-P", "-m", "cellwright.formats"]
    try:
        with anyio.fail_after(limit_s):
            done = await anyio.run_process(
                command,
                input=msgspec.msgpack.encode(order),
                stderr=subprocess.PIPE,
                check=False,
                cwd="/",
                start_new_session=True,
            )
    except TimeoutError as error:
        raise RenderFailed(
            f"The notebook could not be made into {format} within {limit_s:g} s",
            hint="Export it without outputs, or as ipynb",
        ) from error
    return _read(done, format)


def _read(done: subprocess.CompletedProcess[bytes], wanted: str) -> Rendered:
    try:
        answer = msgspec.msgpack.decode(done.stdout, type=Answer)
    except msgspec.DecodeError as error:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        last = words[-1][:_SHOWN_WORDS] if words else f"it ended with {done.returncode}"
        raise RenderFailed(
            f"The process that makes {wanted} of notebooks failed: {last}",
            hint="Export it without outputs, or as ipynb",
        ) from error
    if answer.error is not None:
        raise RenderFailed(answer.error, hint=answer.hint)
    return Rendered(answer.content, answer.notices)


def refusal(error: CellwrightError) -> Answer:
    """An error as the child's answer."""
    return Answer(error=error.message, hint=error.hint)
