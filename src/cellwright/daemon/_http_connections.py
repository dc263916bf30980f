"""One HTTP connection of a listener. Strangers have few between them, and none takes long over a header.

A stranger is whoever made no request yet that was let in: the guard and the page's sign-in say in the request's state whom
they know. Who is known is never sent away for strangers. What a request may ask for is not known here (see ``guard``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEADER_S", "HttpConnection"]

HEADER_S = 10.0
# Leaves most of the 1,024 files that a process may have open at least to everything else.
_MOST_STRANGERS = 256


class HttpConnection(H11Protocol):
    """A connection that gives way: the oldest of a stranger when there are too many of them."""

    def __init__(self, *arguments: Any, header_s: float = HEADER_S, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_s = header_s
        self._header_timer: asyncio.TimerHandle | None = None
        self.made_at = 0.0
        self.dropped = False

    @property
    def known(self) -> bool:
        """Whether the request that it made last was let in."""
        scope: Mapping[str, Any] | None = self.scope  # None before the first request, whatever its type says
        state = scope["state"] if scope is not None else {}
        return "person" in state or "machine" in state

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self._expect_header()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Until a whole header is there the other side is at its beginning, for h11.
        if self.conn.their_state is not h11.IDLE:
            self._forget_header()
        elif self._header_timer is None:
            self._expect_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_header()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        others = (one for one in self.connections if isinstance(one, HttpConnection))
        strangers = [one for one in others if not one.known and not one.dropped]
        if len(strangers) > _MOST_STRANGERS:
            min(strangers, key=lambda one: one.made_at).drop()

    def drop(self) -> None:
        """End it at once."""
        self.dropped = True
        # A friendly end would wait for whoever reads nothing.
        self.transport.abort()

    def _expect_header(self) -> None:
        self._header_timer = self.loop.call_later(self._header_s, self.drop)

    def _forget_header(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
