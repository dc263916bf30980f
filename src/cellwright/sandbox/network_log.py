"""The network requests of a session: one line per request, the newest kept, the rest counted. Decides nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["NetworkEntry", "NetworkLog", "Verdict"]

Verdict: TypeAlias = Literal["allowed", "refused", "cut", "failed", "malformed"]
"""``cut`` was allowed and stopped at a limit; ``failed`` was allowed and nobody answered."""


@dataclass(frozen=True, slots=True)
class NetworkEntry:
    """One request, told when it is over."""

    number: int
    """Counts from 1 in each log, so that a reader asks for what is new and sees what it missed."""
    time: float
    """When it began, in seconds since 1970."""
    seconds: float
    method: str
    host: str
    port: int
    address: str | None
    """The address that was connected to."""
    bytes_up: int
    bytes_down: int
    verdict: Verdict
    reason: str
    setting: str | None
    """The setting behind a refusal or a cut."""
    execution: str | None
    """The execution that ran when the request came."""


class NetworkLog:
    """The newest requests of one session. When it is full the oldest goes, and is counted."""

    def __init__(self, max_entries: int = 1_000) -> None:
        self._entries: deque[NetworkEntry] = deque(maxlen=max_entries)
        self._last = 0

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def add(self, entry: NetworkEntry) -> None:
        self._entries.append(entry)

    def since(self, number: int = 0, *, execution: str | None = None) -> list[NetworkEntry]:
        """The kept entries after a number, oldest first, of one execution where one is named."""
        return [
            entry
            for entry in self._entries
            if entry.number > number and (execution is None or entry.execution == execution)
        ]

    @property
    def dropped(self) -> int:
        """How many entries were let go to stay within bounds."""
        return self._last - len(self._entries)
