"""What a kernel holds, asked once for all who look at the same time: many pages cost it no more than one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import anyio

from cellwright.engine import Inspection, Session

__all__ = ["inspected", "last_inspected"]


@dataclass(slots=True)
class _Look:
    held: Inspection | None = None
    began: float = 0.0
    turn: anyio.Lock = field(default_factory=anyio.Lock)


_looks: WeakKeyDictionary[Session, _Look] = WeakKeyDictionary()


async def inspected(session: Session) -> Inspection:
    """What it holds now, or what another look found that began no earlier than this was asked.

    Raises:
        KernelBusy: a cell is running.
    """
    asked, look = time.monotonic(), _looks.setdefault(session, _Look())
    async with look.turn:
        if look.held is None or look.began < asked:
            began = time.monotonic()
            look.held, look.began = await session.inspect(), began
        return look.held


def last_inspected(session: Session) -> Inspection | None:
    """What it held when it could last be asked."""
    look = _looks.get(session)
    return look.held if look is not None else None
