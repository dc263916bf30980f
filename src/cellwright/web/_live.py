"""A page that stays true while it is looked at: parts of it are sent again, over server-sent events, when they change.

What is sent is a part as it is now, never a difference: a page that is slow, was asleep or lost its connection gets
fewer and later parts, and is right all the same. Each page costs a set of names; a part is made once for all that
look at it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["Change", "LiveResponse", "Parts", "Source"]

_KEEP_ALIVE_S = 15.0
_GATHER_S = 0.1
"""Ten times a second is as often as anybody sees."""
_AHEAD = 3
"""So often a page is told at once: that a cell was asked for, began, showed something and ended."""
_TOGETHER_S = 0.01
"""What changes within this belongs together: an output and the end of its cell."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Change:
    """Parts that are no longer what a page has, up to the event of this number."""

    upto: int
    parts: frozenset[str]


class Source(Protocol):
    """What a live page shows: a notebook, the list of sessions, a conversation or a run."""

    def changes(self, since: int | None) -> AsyncIterator[Change]:
        """What changed after this number, then what changes."""
        ...

    async def render(self, part: str, upto: int) -> str | None:
        """A part as it is now, at least up to the event of this number; None where it is gone."""
        ...


@dataclass(slots=True)
class Parts:
    """Rendered parts, for all pages that look at the same: each is made once after it changed."""

    make: Callable[[str], Awaitable[str | None]]
    _made: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    _making: dict[str, anyio.Lock] = field(default_factory=dict)

    async def get(self, part: str, upto: int) -> str | None:
        """The part, made no earlier than the event of this number."""
        async with self._making.setdefault(part, anyio.Lock()):
            held = self._made.get(part)
            if held is None or held[0] < upto:
                held = upto, await self.make(part)
                self._made[part] = held
            return held[1]


class LiveResponse(Response):
    """The stream to one page."""

    def __init__(
        self,
        request: Request,
        source: Source,
        *,
        also: Sequence[AsyncIterator[Change]] = (),
        while_open: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``also`` tells of parts whose changes are no events; ``while_open`` is entered for as long as the page is there."""
        super().__init__()
        self._also = also
        self._while_open = while_open
        said = request.headers.get("last-event-id") or request.query_params.get("since") or ""
        self._since = int(said) if said.isdecimal() and len(said) < 19 else None  # what fits the journal
        self._source = source
        self._dirty: set[str] = set()
        self._upto = self._since or 0
        self._woken = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope  # read when this was made
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        with self._while_open():
            await self._stream(receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:
            for changes in (self._source.changes(self._since), *self._also):
                tasks.start_soon(self._listen, changes)
            tasks.start_soon(self._notice_the_end, receive, tasks.cancel_scope)
            await self._tell(send)

    async def _listen(self, changes: AsyncIterator[Change]) -> None:
        async for change in changes:
            self._dirty |= change.parts
            self._upto = max(self._upto, change.upto)
            self._woken.set()

    async def _tell(self, send: Send) -> None:
        await _write(send, ": cellwright\n\n")
        due_at = 0.0
        while True:
            with anyio.move_on_after(_KEEP_ALIVE_S):
                await self._woken.wait()
            if not self._woken.is_set():
                await _write(send, ":\n\n")
                continue
            # After a while in which nothing was told nobody has to wait: the picture comes with the end of its cell.
            await anyio.sleep(max(_TOGETHER_S, due_at - anyio.current_time()))
            # A new event first: whatever changes while parts are rendered is in the next round.
            self._woken = anyio.Event()
            dirty, self._dirty = self._dirty, set()
            upto = self._upto
            found = {part: await self._source.render(part, upto) for part in sorted(dirty)}
            data = json.dumps({"parts": found}, ensure_ascii=False)
            await _write(send, f"id: {upto}\nevent: parts\ndata: {data}\n\n")
            due_at = max(due_at, anyio.current_time() - _AHEAD * _GATHER_S) + _GATHER_S

    async def _notice_the_end(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(errors="replace"), "more_body": True})
