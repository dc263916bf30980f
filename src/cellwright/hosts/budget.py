"""Bounds what one execution may add to the journal, for kernels that do not cap their output themselves.

Our own Python kernels cut at the source (see ``cellwright_kernel.outputs``); this is the second wall, and the only
one for a foreign kernelspec. Pure: it holds messages back or lets them through, and counts.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

__all__ = ["Budgets", "OutputBudget"]

# Threads of a cell may print after it ended; beyond this many cells back, nobody is listening any more.
_REMEMBERED_EXECUTIONS = 64

# Room above the kernel's own cap for JSON escapes and for the stand-ins that it puts in place of what it dropped.
_SLACK = 2.0
_TAIL_SHARE = 4


@dataclass(slots=True)
class OutputBudget:
    """One execution's allowance: the head goes through, the last part is kept as a tail, the rest is counted."""

    max_bytes: int
    max_messages: int
    dropped_bytes: int = 0
    dropped_messages: int = 0
    dropped_elsewhere: int = 0
    """Messages that did not even come here: a Jupyter server drops what comes too fast for it."""
    _bytes: int = 0
    _messages: int = 0
    _tail: deque[tuple[str, bytes]] = field(default_factory=deque)
    _tail_bytes: int = 0

    @property
    def all_dropped(self) -> int:
        """Messages that are missing, wherever they were dropped."""
        return self.dropped_messages + self.dropped_elsewhere

    def admit(self, kind: str, content: bytes) -> bool:
        """Say whether a message may pass now; one that may not is kept for the tail or counted as dropped."""
        if not self._tail and not self.dropped_messages and self._fits(len(content)):
            self._bytes += len(content)
            self._messages += 1
            return True
        self._keep_in_tail(kind, content)
        return False

    def tail(self) -> Iterator[tuple[str, bytes]]:
        """Yield, once, what follows the head at the end: a line that tells what is missing, then the tail."""
        if self.dropped_messages:
            yield "stream", _marker(self.dropped_bytes, self.dropped_messages, self.max_bytes)
        while self._tail:
            yield self._tail.popleft()
        self._tail_bytes = 0

    def _fits(self, size: int) -> bool:
        return self._bytes + size <= self.max_bytes * _SLACK and self._messages < self.max_messages * _SLACK

    def _keep_in_tail(self, kind: str, content: bytes) -> None:
        self._tail.append((kind, content))
        self._tail_bytes += len(content)
        while (
            self._tail_bytes > self.max_bytes // _TAIL_SHARE
            or len(self._tail) > self.max_messages // _TAIL_SHARE
        ):
            _, dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self.dropped_bytes += len(dropped)
            self.dropped_messages += 1


def _marker(dropped_bytes: int, dropped_messages: int, limit: int) -> bytes:
    text = (
        f"\n[cellwright: {dropped_bytes:,} bytes in {dropped_messages:,} messages dropped here; "
        f"limit max_output_bytes={limit:,}]\n"
    )
    return msgspec.json.encode({"name": "stderr", "text": text})


class Budgets:
    """The budgets of the last executions, by execution."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, OutputBudget] = OrderedDict()

    def __contains__(self, execution_id: str) -> bool:
        return execution_id in self._held

    def add(self, execution_id: str, max_bytes: int, max_messages: int) -> None:
        self._held[execution_id] = OutputBudget(max_bytes, max_messages)
        if len(self._held) > _REMEMBERED_EXECUTIONS:
            self._held.popitem(last=False)

    def get(self, execution_id: str) -> OutputBudget | None:
        return self._held.get(execution_id)
