"""What is owed to executions over a connection that may be cut: whose end is awaited, and what may have been missed.

Pure: messages go in, what has to be said comes out. ``channels`` holds the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from cellwright.kernels.jupyter.wire import Heard
from cellwright.kernels.messages import Message

__all__ = ["Ledger"]

# A kernel that counts its messages: its session, its process, and how many it has sent before this one.
_COUNTED = re.compile(r"(.+)_(\d+)\Z")

LOST_NAME = "ConnectionCut"
LOST = (
    "The connection to the Jupyter server was cut while this ran, and its end was missed: it is over, "
    "and what it did stands, but how it ended is not known"
)


# What a server says in the output when it drops what comes too fast for it.
_RATE_LIMITED = (b"IOPub data rate exceeded", b"IOPub message rate exceeded")
_FROM_THE_KERNEL = frozenset({"execute_input", "execute_reply", "kernel_info_reply"})


@dataclass(slots=True)
class _Execution:
    replied: bool = False
    idle: bool = False
    limited_at: int | None = None
    """The kernel's number when its server began to drop output."""
    seen: int = 0
    """Messages of the kernel's since then."""


@dataclass(slots=True)
class _Count:
    """What a kernel's own numbers tell since a cut."""

    source: str
    last: int
    """The highest that was seen before."""
    highest: int = -1
    """Of those published, which come in order."""
    published: int = 0
    replies: list[int] = field(default_factory=list)
    """On other channels, which may be ahead: a probe's is often heard before the end of what ran."""

    def saw(self, number: int, channel: str) -> None:
        if channel == "iopub":
            self.highest = max(self.highest, number)
            self.published += 1
        else:
            self.replies.append(number)

    @property
    def missing(self) -> int:
        """How many have not been seen up to the last published one."""
        replies = sum(number <= self.highest for number in self.replies)
        return self.highest - self.last - self.published - replies


@dataclass(slots=True)
class Ledger:
    """The executions that one kernel was sent and that have not ended, as far as was heard."""

    _open: dict[str, _Execution] = field(default_factory=dict)
    _source: str = ""
    _last: int = -1
    _cut: _Count | None = None
    _cut_s: float | None = None
    _affected: set[str] = field(default_factory=set)
    """Executions that ran when the connection was cut, and have not been told."""
    _probe: str | None = None
    _probed: set[str] = field(default_factory=set)
    _probe_replied: bool = False
    _probe_idle: bool = False
    _sources: dict[str, str] = field(default_factory=dict)
    """Who has sent each kind of message that only kernels send."""
    restarted: bool = False
    """Whether another process speaks for the kernel by now: its end was not heard."""

    def sent(self, execution_id: str) -> None:
        """An execution is on its way."""
        self._open[execution_id] = _Execution()

    def cut(self) -> None:
        """The connection is gone; what runs goes on, unheard."""
        self._affected |= set(self._open)
        if self._cut is None and self._affected:
            self._cut = _Count(self._source, self._last)

    def reconnected(self, probe_id: str, *, after_s: float) -> bool:
        """Whether a probe, of this id, has to be sent first.

        The kernel answers it when all that was sent is over, and the answer tells whether it is still the same one.
        """
        if not self._affected and not self._sources:
            return False
        self._cut_s = after_s
        self._probe, self._probed = probe_id, set(self._affected)
        self._probe_replied = self._probe_idle = False
        return True

    def heard(self, heard: Heard) -> list[Message]:
        """What is to be handed on for a message, in order: mostly it alone."""
        message = heard.message
        self._count(heard)
        if message.parent_id == self._probe:
            return self._answered(message)
        execution = self._open.get(message.parent_id)
        if execution is None:
            return [message]
        ahead: list[Message] = []
        if message.kind == "execute_reply":
            execution.replied = True
        elif message.kind == "stream" and any(words in message.content for words in _RATE_LIMITED):
            execution.limited_at = self._last if execution.limited_at is None else execution.limited_at
        elif _is_idle(message):
            execution.idle = True
            ahead = self._told_of_cut(message.parent_id, execution)
            message = self._accounted(message, execution)
        if execution.replied and execution.idle:
            del self._open[message.parent_id]
        return [*ahead, message]

    def _accounted(self, end: Message, execution: _Execution) -> Message:
        """The last message of an execution, telling how much of its output the server has dropped, if it has."""
        if execution.limited_at is None:
            return end
        missing = max(1, self._last - execution.limited_at - execution.seen)
        told = msgspec.json.encode({"cellwright": {"dropped_messages": missing}})
        return msgspec.structs.replace(end, metadata=told)

    def _count(self, heard: Heard) -> None:
        match = _COUNTED.fullmatch(heard.id)
        if match is None:
            return
        source, number = match.group(1), int(match.group(2))
        if heard.message.kind in _FROM_THE_KERNEL:
            # Compared by kind: a server may answer one of them in the kernel's place.
            self.restarted |= self._sources.setdefault(heard.message.kind, source) != source
        if source != self._source:
            # Its server says things, too, and counts them by itself.
            if heard.message.kind not in _FROM_THE_KERNEL:
                return
            self._source, self._last = source, number
        self._last = max(self._last, number)
        for execution in self._open.values():
            if execution.limited_at is not None and number > execution.limited_at:
                execution.seen += 1
        if self._cut is not None and source == self._cut.source and number > self._cut.last:
            self._cut.saw(number, heard.message.channel)

    def _told_of_cut(self, execution_id: str, execution: _Execution) -> list[Message]:
        """A line about what an execution may miss, if it may."""
        if execution_id not in self._affected:
            return []
        self._affected.discard(execution_id)
        # A kernel replies before it says that it is idle, on another channel: a reply that is still to come is no output.
        words = self._missing(to_come=not execution.replied)
        if not self._affected:
            self._cut = None
        if not words:
            return []
        text = f"[cellwright: the connection was cut for {self._cut_s or 0:.1f} s; {words}]\n"
        return [_made("stream", execution_id, {"name": "stderr", "text": text})]

    def _missing(self, *, to_come: int) -> str:
        cut = self._cut
        if cut is None:
            return ""
        if cut.last < 0 or cut.highest < 0:
            return "what the server kept of that time is here, and whether that is all cannot be told"
        missing = cut.missing - to_come
        return f"up to {missing} messages of that time may be missing" if missing > 0 else ""

    def _answered(self, message: Message) -> list[Message]:
        if message.kind == "kernel_info_reply":
            self._probe_replied = True
        elif _is_idle(message):
            self._probe_idle = True
        if not (self._probe_replied and self._probe_idle):
            return []
        probed, self._probe, self._probed = self._probed, None, set()
        return [made for one in sorted(probed & set(self._open)) for made in self._settled(one)]

    def _settled(self, execution_id: str) -> list[Message]:
        """What stands in for the end of an execution that is over and whose end nobody heard."""
        execution = self._open.pop(execution_id)
        made = self._told_of_cut(execution_id, execution)
        if not execution.replied:
            error = {"ename": LOST_NAME, "evalue": LOST, "traceback": []}
            made.append(_made("error", execution_id, error))
            reply = msgspec.json.encode({"status": "error", **error})
            made.append(Message("shell", "execute_reply", execution_id, reply, b"{}"))
        if not execution.idle:
            made.append(_made("status", execution_id, {"execution_state": "idle"}))
        return made


def _made(kind: str, parent_id: str, content: Mapping[str, object]) -> Message:
    return Message("iopub", kind, parent_id, msgspec.json.encode(content), b"{}")


def _is_idle(message: Message) -> bool:
    return message.channel == "iopub" and message.kind == "status" and b'"idle"' in message.content
