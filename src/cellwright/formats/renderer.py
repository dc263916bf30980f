"""HTML and PDF made in processes of their own, since a notebook may hold anything.

Neither a page that takes a minute nor one that takes all memory, or the process down with it, may be felt by whoever
asked. The child is ``python -m cellwright.formats``; it makes one page and ends. Most of its time would go into imports
and fonts: after a page, the next child gets that far and stands by for a while.
"""

from __future__ import annotations

import sys
from subprocess import PIPE
from types import TracebackType
from typing import Self

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process

from cellwright import children
from cellwright.errors import NotebookError
from cellwright.formats._renderer_wire import Answer, Order
from cellwright.formats.model import Exported
from cellwright.notebook import Document

__all__ = ["LIMIT_S", "MEMORY_BYTES", "PAGES", "PageMaker", "RenderFailed", "render"]

LIMIT_S = 180.0
MEMORY_BYTES = 6 * 1024**3
STANDBY_S = 120
PAGES = frozenset({"html", "pdf"})
"""The formats that are made here."""

_SHOWN_WORDS = 300
_SMALLER = "Export it without outputs, or as ipynb"


class RenderFailed(NotebookError):
    """A page could not be made; the message says why."""

    code = "render_failed"


class PageMaker:
    """Makes pages. Whoever opens one closes it, and with it the process that stands by."""

    def __init__(
        self, *, standby_s: int = STANDBY_S, limit_s: float = LIMIT_S, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._standby_s = standby_s
        self._limit_s = limit_s
        self._memory_bytes = memory_bytes
        self._spare: Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            await children.end(spare)

    async def render(
        self,
        document: Document,
        *,
        name: str,
        format: str,  # the word that everybody uses
        include_outputs: bool = True,
    ) -> Exported:
        """A notebook as a page.

        Raises:
            RenderFailed: it could not be made, or not within the time or the memory that there is for one.
        """
        order = Order(document.to_bytes(), name, format, include_outputs, self._limit_s, self._memory_bytes)
        try:
            with anyio.fail_after(self._limit_s):
                answer = await self._answer(msgspec.msgpack.encode(order), format)
        except TimeoutError as error:
            raise RenderFailed(
                f"The notebook could not be made into {format} within {self._limit_s:g} s", hint=_SMALLER
            ) from error
        if self._standby_s and self._spare is None:
            self._spare = await _start(self._standby_s)
        if answer.error is not None:
            raise RenderFailed(answer.error, hint=answer.hint)
        from cellwright.formats._registry import (
            format_named,  # loads every format: not for whoever makes none
        )

        form = format_named(format)
        return Exported(answer.content, form.mime, form.suffixes[0], answer.notices)

    async def _answer(self, order: bytes, wanted: str) -> Answer:
        """What a child makes of an order; one that stood by may just have gone home."""
        spare, self._spare = self._spare, None
        if spare is not None:
            try:
                return await _asked(spare, order, wanted)
            except anyio.BrokenResourceError:
                pass
        try:
            return await _asked(await _start(0), order, wanted)
        except anyio.BrokenResourceError:
            return Answer(
                error=f"The process that makes {wanted} of notebooks does not start",
                hint="See `cellwright doctor`",
            )


async def render(
    document: Document,
    *,
    name: str,
    format: str,  # as above
    include_outputs: bool = True,
    limit_s: float = LIMIT_S,
    memory_bytes: int = MEMORY_BYTES,
) -> Exported:
    """A notebook as a page, by a process that nobody keeps.

    Raises:
        RenderFailed: it could not be made, or not within the time or the memory that there is for one.
    """
    async with PageMaker(standby_s=0, limit_s=limit_s, memory_bytes=memory_bytes) as maker:
        return await maker.render(document, name=name, format=format, include_outputs=include_outputs)


async def _start(standby_s: int) -> Process:
    command = [sys.executable, "-P", "-m", "cellwright.formats", str(standby_s)]
    return await anyio.open_process(
        command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/", start_new_session=True
    )


async def _asked(child: Process, order: bytes, wanted: str) -> Answer:
    """Give a child its order, and read what it answers until it has ended.

    Raises:
        BrokenResourceError: it had ended before it was asked.
    """
    orders, answers, complaints = child.stdin, child.stdout, child.stderr
    if orders is None or answers is None or complaints is None:
        raise RuntimeError("the child was started without pipes")
    said, words = bytearray(), bytearray()
    try:
        await orders.send(order)
        await orders.aclose()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_drain, complaints, words)
            await _drain(answers, said)
        await child.wait()
    finally:
        await children.end(child)
    try:
        return msgspec.msgpack.decode(said, type=Answer)
    except msgspec.DecodeError:
        lines = words.decode(errors="replace").strip().splitlines()
        last = lines[-1][:_SHOWN_WORDS] if lines else f"it ended with {child.returncode}"
        return Answer(error=f"The process that makes {wanted} of notebooks failed: {last}", hint=_SMALLER)


async def _drain(stream: ByteReceiveStream, held: bytearray) -> None:
    async for part in stream:
        held += part
