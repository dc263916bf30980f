"""What happens in sessions, as one numbered stream, and how many listeners follow it without holding anyone up.

An event is published only after the journal has it, so a number once told is never given to something else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio

__all__ = ["Event", "EventKind", "EventStream", "Missed", "Subscription"]

EventKind: TypeAlias = Literal[
    "notebook.cell.executing",
    "notebook.cell.output",
    "notebook.cell.completed",
    "notebook.cell.late_output",
    "notebook.cell.files",
    "notebook.types.checked",
    "notebook.state.changed",
    "notebook.host.changed",
    "notebook.plan.changed",
    "notebook.replay.progress",
    "notebook.replay.completed",
    "notebook.verification.progress",
    "notebook.verification.completed",
    "notebook.agent.step",
    "notebook.network.request",
    "notebook.checkpoint.created",
    "notebook.checkpoint.dropped",
    "notebook.cell.undone",
    "notebook.session.rolled_back",
    "notebook.session.branched",
    "notebook.session.adopted",
    "notebook.session.taken",
    "notebook.session.given_back",
    "notebook.error",
]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``data`` depends on the kind; see ``docs/reference/events.md``."""

    seq: int
    time: float
    kind: EventKind
    session_id: str
    generation: int
    cell_id: str | None = None
    execution_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    unseen: bool = False
    """Whether it is told only to whoever follows this very session, and not kept."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Told to a subscriber that was too slow: this many events passed it by, the last with this number."""

    count: int
    first_seq: int
    last_seq: int


class Subscription:
    """One listener's bounded place in the stream; iterate it."""

    def __init__(self, session_id: str | None, size: int) -> None:
        self._session_id = session_id
        self._size = size
        self._events: deque[Event | Missed] = deque()
        self._arrived = anyio.Event()
        self._closed = False

    def offer(self, event: Event) -> None:
        if event.session_id != self._session_id and (self._session_id is not None or event.unseen):
            return
        last = self._events[-1] if self._events else None
        if isinstance(last, Missed):
            self._events[-1] = Missed(last.count + 1, last.first_seq, event.seq)
        elif len(self._events) >= self._size:
            self._events.append(Missed(1, event.seq, event.seq))
        else:
            self._events.append(event)
        self._arrived.set()

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[Event | Missed]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._arrived = anyio.Event()
            await self._arrived.wait()


class EventStream:
    """Hands every event to every subscription; never waits for one."""

    def __init__(self, *, buffer: int) -> None:
        self._buffer = buffer
        self._subscriptions: set[Subscription] = set()

    @contextmanager
    def subscribe(self, session_id: str | None = None) -> Iterator[Subscription]:
        subscription = Subscription(session_id, self._buffer)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.offer(event)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
