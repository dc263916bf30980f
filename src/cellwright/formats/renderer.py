"""HTML and PDF made in a process of their own, since a notebook may hold anything.

Neither a page that takes a minute nor one that takes all memory, or the process down with it, may be felt by whoever
asked. The child is ``python -m cellwright.formats``; what it does is ``export``.
"""

from __future__ import annotations

import subprocess
import sys

import anyio
import msgspec

from cellwright.errors import NotebookError
from cellwright.formats.model import Exported
from cellwright.formats.orders import Answer, Order
from cellwright.formats.registry import format_named
from cellwright.notebook import Document

__all__ = ["LIMIT_S", "MEMORY_BYTES", "PAGES", "RenderFailed", "render"]

LIMIT_S = 180.0
MEMORY_BYTES = 6 * 1024**3
_SHOWN_WORDS = 300

PAGES = frozenset({"html", "pdf"})
"""The formats that are made here."""


class RenderFailed(NotebookError):
    """A page could not be made; the message says why."""

    code = "render_failed"


async def render(
    document: Document,
    *,
    name: str,
    format: str,  # noqa: A002  # the word that everybody uses
    include_outputs: bool = True,
    limit_s: float = LIMIT_S,
    memory_bytes: int = MEMORY_BYTES,
) -> Exported:
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


def _read(done: subprocess.CompletedProcess[bytes], wanted: str) -> Exported:
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
    form = format_named(wanted)
    return Exported(answer.content, form.mime, form.suffixes[0], answer.notices)
