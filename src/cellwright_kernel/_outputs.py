# mypy: allow-untyped-calls
# (ipykernel is typed only in part.)
"""Caps output where it is made: the streams and the session through which everything a cell says leaves.

One account per cell (``budget``) covers both streams, raw writes to descriptors 1 and 2, displays, results and errors,
so that a cell which floods one of them costs neither memory here nor time elsewhere. What was dropped is marked in the
output and counted in the reply. Messages of widgets are merged where they come too fast (``_widgets``). Beyond the cap
nothing here slows a cell down.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import select
import termios
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ipykernel.iostream import IOPubThread, OutStream
from jupyter_client.session import Session

from cellwright_kernel._widgets import COMMS, Comms, with_buffers

__all__ = [
    "Budget",
    "CappedOutStream",
    "CappedSession",
    "HeldText",
    "Limits",
    "OutputGate",
    "PromptIOPubThread",
    "utf8_length",
]

GATED = frozenset({"display_data", "update_display_data", "execute_result", "clear_output"})

REMEMBERED_CELLS = 16

RAW_READ_BYTES = 1 << 16

RAW_READS = 4

NO_BYTES = b"\0" * 4

GATHERED_CHARACTERS = 1 << 13

ERROR_PART = 10

MIN_ERROR_BYTES = 2_000


class OutputGate:
    """The accounts of the cells of one kernel, and the lock around them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.lock = threading.RLock()
        self.comms = Comms()
        self._budgets: OrderedDict[str, Budget] = OrderedDict()
        self._owner = os.getpid()
        # A child forked by user code must not inherit a lock that another thread held at that moment.
        os.register_at_fork(after_in_child=self._renew_lock)

    def budget(self, parent: dict[str, Any]) -> Budget:
        """The account of the cell that a message belongs to. Call with the lock held."""
        key = str(parent.get("msg_id", ""))
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = Budget(self.limits)
            # Threads of earlier cells may still speak, but not those of cells long past.
            while len(self._budgets) > REMEMBERED_CELLS:
                self._budgets.popitem(last=False)
        return budget

    @property
    def in_owner(self) -> bool:
        """Whether this is the kernel, and not a child that user code forked."""
        return os.getpid() == self._owner

    def _renew_lock(self) -> None:
        self.lock = threading.RLock()


class PromptIOPubThread(IOPubThread):
    """The thread that sends; what is handed over by itself is sent at once, not after everything that waits.

    So a flush has reached the socket when it returns, even if the next statement ends the process. Messages that others
    handed over wait apart: text is sent behind those that were there when it was taken from its stream.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._handed_over: deque[tuple[Any, ...]] = deque()
        super().__init__(*args, **kwargs)

    def send_multipart(self, *args: Any, **kwargs: Any) -> None:
        """Send a message, by this thread."""
        if threading.current_thread() is self.thread or not self.thread.is_alive():
            self._really_send(*args, **kwargs)
            return
        with self.session.gate.lock:
            self._handed_over.append((args, kwargs))
        self.schedule(self._send_handed_over)

    def take_handed_over(self) -> list[tuple[Any, ...]]:
        """What waits to be sent, for ``send_taken``. Call with the gate's lock held."""
        taken, self._handed_over = list(self._handed_over), deque()
        return taken

    def send_taken(self, taken: list[tuple[Any, ...]]) -> None:
        """Send messages in the order in which they were handed over."""
        for args, kwargs in taken:
            self._really_send(*args, **kwargs)

    def _send_handed_over(self) -> None:
        with self.session.gate.lock:
            taken = self.take_handed_over()
        self.send_taken(taken)

    def schedule(self, f: Callable[[], Any]) -> None:
        if threading.current_thread() is self.thread:
            f()
        else:
            super().schedule(f)


class CappedOutStream(OutStream):
    """A stream that hands on only what its cell's account admits."""

    def __init__(self, gate: OutputGate, *args: Any, **kwargs: Any) -> None:
        self._gate = gate
        self._raw_lock = threading.Lock()
        self._child_text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Small writes are gathered and accounted for together: `print` makes up to four of them a line.
        self._pieces: list[str] = []
        self._pieces_size = 0
        self._pieces_parent: dict[str, Any] = {}
        super().__init__(*args, **kwargs)

    def fileno(self) -> int:
        """The captured descriptor: what a subprocess writes to it belongs to the cell."""
        captured: int | None = getattr(self, "_original_stdstream_fd", None)
        return int(super().fileno()) if captured is None else captured

    def write(self, string: str) -> int:
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if not self._gate.in_owner:
            self._write_from_child(string)
            return len(string)
        if self._fid is not None and self._raw_waits(self._fid):
            self.drain_raw()
        parent = self.parent_header
        with self._gate.lock:
            # A large write goes alone: joined with others it would be copied.
            if parent is not self._pieces_parent or len(string) >= GATHERED_CHARACTERS:
                self._account_for_pieces()
                self._pieces_parent = parent
            self._pieces.append(string)
            self._pieces_size += len(string)
            if self._pieces_size >= GATHERED_CHARACTERS:
                self._account_for_pieces()
        # Not under the lock: handing over may wait for the sending thread, which may wait for the lock.
        self._schedule_flush()
        return len(string)

    def flush(self) -> None:
        if not self._gate.in_owner:
            self._write_from_child("", line_ended=True)
            return
        self.drain_raw()
        with self._gate.lock:
            nothing_waits = not self._buffers and not self._pieces
        # Messages leave in the order in which they were handed over: with nothing to add, nothing to wait for.
        if not nothing_waits:
            super().flush()

    def drain_raw(self) -> None:
        """Take in what was written to the descriptor so far, so that it precedes what is written next."""
        if self._fid is None or not self._should_watch:
            return
        with self._raw_lock:
            for _ in range(RAW_READS):
                try:
                    data = os.read(self._fid, RAW_READ_BYTES)
                except BlockingIOError:
                    return
                if not data:
                    return
                self._admit(self._decoder.decode(data))

    def _raw_waits(self, fd: int) -> bool:
        """Whether something that was written to the descriptor is yet to be taken in.

        In this order: what is no longer in the pipe was read by whoever has the lock, until it is taken in.
        """
        return fcntl.ioctl(fd, termios.FIONREAD, NO_BYTES) != NO_BYTES or self._raw_lock.locked()

    def _setup_stream_redirects(self, name: str) -> None:
        super()._setup_stream_redirects(name)
        read_fd: Any = self._fid
        os.set_blocking(read_fd, False)

    def _watch_pipe_fd(self) -> None:
        # Instead of upstream's: that one reads 1,000 bytes at a time, cuts characters in two, and copies
        # everything to the original descriptor as well.
        if self._fid is None:
            return
        poller = select.poll()
        poller.register(self._fid, select.POLLIN)
        while self._should_watch:
            poller.poll()
            self.drain_raw()

    def _write_from_child(self, text: str, *, line_ended: bool = False) -> None:
        """In a child that user code forked: write whole lines to the captured descriptor.

        That leads to the kernel, whose account then covers its children as well.
        """
        self._child_text += text
        if line_ended or "\n" in text:
            pending, self._child_text = self._child_text, ""
            _write_all(self.fileno(), pending.encode("utf-8", "backslashreplace"))

    def _admit(self, text: str) -> None:
        """Take in text that came another way, behind everything that was written before it."""
        with self._gate.lock:
            self._account_for_pieces()
            self._account_for(self.parent_header, text, writes=1)
        self._schedule_flush()

    def _account_for_pieces(self) -> None:
        """Call with the lock held, as the next."""
        if self._pieces:
            text, writes = "".join(self._pieces), len(self._pieces)
            self._pieces, self._pieces_size = [], 0
            self._account_for(self._pieces_parent, text, writes=writes)

    def _account_for(self, parent: dict[str, Any], text: str, *, writes: int) -> None:
        if not text.isascii():
            # A lone surrogate cannot be put on the wire.
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        passed = self._gate.budget(parent).admit_text(self.name, text, writes=writes)
        if passed:
            self._buffers[frozenset(parent.items())].write(passed)

    def _flush_buffers(self) -> list[tuple[dict[str, Any], str]]:
        with self._gate.lock:
            self._account_for_pieces()
            # At one moment: a display flushes what was printed before it, so that all of this text came after what waits.
            before = self.pub_thread.take_handed_over()
            texts = [
                (parent, text)
                for parent, text in super()._flush_buffers()
                if text and self._gate.budget(parent).admit_stream_message(self.name, text)
            ]
        self.pub_thread.send_taken(before)
        return texts


class CappedSession(Session):
    """The session that signs and sends messages: the one place that displays, results and errors go through."""

    gate: OutputGate
    iopub: Any = None
    streams: tuple[CappedOutStream, ...] = ()

    def send(  # noqa: PLR0913  # upstream's signature
        self,
        stream: Any,
        msg_or_type: dict[str, Any] | str,
        content: dict[str, Any] | None = None,
        parent: dict[str, Any] | None = None,
        ident: Any = None,
        buffers: Any = None,
        track: bool = False,
        header: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        message = (
            msg_or_type
            if isinstance(msg_or_type, dict)
            else self.msg(msg_or_type, content=content, parent=parent, header=header, metadata=metadata)
        )
        buffers = buffers or message.get("buffers") or []
        kind = message["header"]["msg_type"]
        with self.gate.lock:
            taker = self.gate.comms.taker(kind, message["parent_header"])
            sink = self.gate.comms.sink(kind, message["parent_header"])

        def publish() -> dict[str, Any] | None:
            if taker is not None:
                with self.gate.lock:
                    told = self.gate.comms.took(taker, kind, message["content"])
                taken = self.msg("comm_msg", content=told, parent=message["parent_header"])
                return super(CappedSession, self).send(stream, taken, ident=ident, track=track)
            if sink is not None:
                sink.append({"type": kind, "content": message["content"]})
                return message
            return super(CappedSession, self).send(stream, message, ident=ident, buffers=buffers, track=track)

        if not self.gate.in_owner:
            self._send_from_child(kind, message["content"])
            return message
        if kind in COMMS:
            self._send_comm(stream, message, ident, buffers)
            return message
        if kind in GATED:
            self._send_gated(message, publish, sum(len(buffer) for buffer in buffers))
            return message
        if kind in {"error", "execute_reply"}:
            if kind == "error":
                self.release(message["parent_header"])
            message["content"] = self._bounded_error(message["content"])
        return publish()

    def release(self, parent: dict[str, Any], *, last: bool = False) -> dict[str, object]:
        """Send what waited of the cell's output, and return its account; ``last`` when the cell has ended."""
        for stream in self.streams:
            stream.flush()
        with self.gate.lock:
            waiting = self.gate.comms.released()
        for held_message in waiting:
            held_message.send(held_message.message)
        with self.gate.lock:
            budget = self.gate.budget(parent)
            stream_name, marker, held = budget.release()
            report = budget.report()
            budget.closed = budget.closed or last
        if marker:
            self._send_text(stream_name, marker, parent)
        for item in held:
            if isinstance(item, HeldText):
                self._send_text(item.name, item.text, parent)
            else:
                item.send()
        return report

    def _send_text(self, name: str, text: str, parent: dict[str, Any]) -> None:
        content = {"name": name, "text": text}
        super().send(self.iopub, "stream", content, parent, ident=f"stream.{name}".encode())

    def _send_comm(self, stream: Any, message: dict[str, Any], ident: Any, buffers: Any) -> None:
        """Send a comm's message, or let it wait for the next one, if its widget says more than anybody can see."""
        content = message["content"]
        if buffers:
            data = dict(content["data"])
            with_buffers(data.get("state", data), data.pop("buffer_paths", ()), buffers)
            message["content"] = {**content, "data": data}

        def send(told: dict[str, Any]) -> object:
            return super(CappedSession, self).send(stream, told, ident=ident)

        with self.gate.lock:
            due = self.gate.comms.due(message, _content_size(message["content"]), send)
        for held in due:
            held.send(held.message)

    def _send_gated(self, message: dict[str, Any], publish: Any, buffer_bytes: int) -> None:
        with self.gate.lock:
            budget = self.gate.budget(message["parent_header"])
            size = _content_size(message["content"]) + buffer_bytes
            if size > budget.capacity and "data" in message["content"]:
                smaller = _without_large(message["content"], budget)
                budget.drop(size - _content_size(smaller))
                message["content"] = smaller
                size = _content_size(smaller)
            admitted = budget.admit_message(size)
            if not admitted and (budget.closed or size > budget.capacity):
                budget.drop(size)
            elif not admitted:
                budget.hold(publish, size)
        if admitted:
            publish()

    def _send_from_child(self, kind: str, content: dict[str, Any]) -> None:
        """A child that user code forked shares our sockets and must not use them: its displays become text."""
        text = content.get("data", {}).get("text/plain") if kind in GATED else None
        if text and self.streams:
            self.streams[0].write(f"{text}\n")

    def _bounded_error(self, content: dict[str, Any]) -> dict[str, Any]:
        limit = max(MIN_ERROR_BYTES, self.gate.limits.max_bytes // ERROR_PART)
        bounded = dict(content)
        if "evalue" in bounded:
            bounded["evalue"] = _middle_cut(str(bounded["evalue"]), limit)
        if "traceback" in bounded:
            bounded["traceback"] = _bounded_lines([str(line) for line in bounded["traceback"]], limit)
        if "payload" in bounded:
            bounded["payload"] = [item for item in bounded["payload"] if _content_size(item) <= limit]
        return bounded


def _content_size(content: dict[str, Any]) -> int:
    """Roughly what the content takes on the wire: the length of its strings."""
    size = 0
    pending: list[Any] = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            size += utf8_length(value)
        elif isinstance(value, dict):
            pending.extend(value.values())
            size += 4 * len(value)
        elif isinstance(value, (list, tuple)):
            pending.extend(value)
        else:
            size += 8
    return size


def _without_large(content: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """The same display in the forms of it that are small enough, or else a line that says what is missing."""
    data: dict[str, Any] = dict(content["data"])
    sizes = {mime: _content_size({mime: value}) for mime, value in data.items()}
    while data and sum(sizes[mime] for mime in data) > budget.capacity:
        del data[max(data, key=lambda mime: sizes[mime])]
    if not data:
        forms = ", ".join(f"{mime} of {size:,} bytes" for mime, size in sizes.items())
        limit = f"max_output_bytes={budget.limits.max_bytes:,}"
        data = {"text/plain": f"[cellwright: display dropped ({forms}); limit {limit}]"}
    kept = (*data, "cellwright")
    metadata = {key: value for key, value in (content.get("metadata") or {}).items() if key in kept}
    return {**content, "data": data, "metadata": metadata}


def _middle_cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[cellwright: {len(text) - 2 * half:,} characters dropped here]\n{text[-half:]}"


def _bounded_lines(lines: list[str], limit: int) -> list[str]:
    """First and last lines within the limit, each of them cut as well."""
    if sum(map(len, lines)) <= limit:
        return lines
    kept = [_middle_cut(line, limit // 4) for line in lines]
    head: list[str] = []
    while kept and sum(map(len, head)) + len(kept[0]) <= limit // 2:
        head.append(kept.pop(0))
    tail: list[str] = []
    while kept and sum(map(len, tail)) + len(kept[-1]) <= limit // 2:
        tail.insert(0, kept.pop())
    marker = [f"[cellwright: {len(kept):,} lines of the traceback dropped here]"] if kept else []
    return [*head, *marker, *tail]


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# Bounds the output of one cell: decides, per piece, whether it passes, waits or is dropped. Sends nothing.

TAIL_PART = 4

MAX_CHUNK_BYTES = 4096

CHUNKS_PER_LIMIT = 32

COUNTING_STEP = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one cell may put out in all."""

    max_bytes: int
    max_messages: int


@dataclass
class HeldText:
    """Some writes to one stream, joined when they are released."""

    name: str
    parts: list[str]
    size: int
    writes: int

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True)
class HeldMessage:
    """A message that is not text; ``send`` publishes it."""

    send: Callable[[], object]
    size: int
    writes: int = 1


Held = HeldText | HeldMessage


@dataclass
class Loss:
    """What was dropped, and which limit did it."""

    bytes: int = 0
    writes: int = 0
    limit: str = ""
    stream: str = "stdout"

    def add(self, size: int, writes: int, limit: str, stream: str | None = None) -> None:
        if not self.writes and stream:
            self.stream = stream
        self.bytes += size
        self.writes += writes
        self.limit = limit


@dataclass
class Budget:
    """The account of one cell. Not thread-safe by itself: ``outputs`` holds one lock around all of them."""

    limits: Limits
    passed_bytes: int = 0
    passed_messages: int = 0
    lost: Loss = field(default_factory=Loss)
    """Everything dropped so far."""

    closed: bool = False
    """Whether the cell has ended, so that nothing can wait for its end any more."""

    _silenced: bool = False
    _fresh: Loss = field(default_factory=Loss)
    """What was dropped since the last release."""

    _held: deque[Held] = field(default_factory=deque)
    _held_bytes: int = 0
    _holding: bool = False

    def admit_text(self, name: str, text: str, *, writes: int = 1) -> str:
        """The part of some writes' text that may pass now; the rest waits."""
        if self.closed:
            return self._admit_late(name, text, writes)
        if self._holding:
            self._hold_text(name, text, 0, writes)
            return ""
        capacity = self._capacity
        if len(text) <= capacity and (size := utf8_length(text)) <= capacity:
            self.passed_bytes += size
            return text
        head = _first_bytes(text, capacity)
        self.passed_bytes += utf8_length(head)
        self._holding = True
        self._hold_text(name, text, len(head), writes)
        return head

    def admit_stream_message(self, name: str, text: str) -> bool:
        """Whether text that passed may be sent as one more message; where not, it waits after all."""
        # One message more than allowed costs less than a second way to keep text back after the end.
        if self.closed or self.passed_messages < self._head_messages:
            self.passed_messages += 1
            return True
        self._holding = True
        size = utf8_length(text)
        self.passed_bytes -= size
        # It was written before anything that waits by now.
        self._held.appendleft(HeldText(name, [text], size, 1))
        self._held_bytes += size
        self._evict()
        return False

    def admit_message(self, size: int) -> bool:
        """Whether a message of that size may be sent now; where not, ``hold`` or ``drop`` it."""
        if self._holding or size > self._capacity or self.passed_messages >= self._head_messages:
            return False
        self.passed_bytes += size
        self.passed_messages += 1
        return True

    @property
    def capacity(self) -> int:
        """The size of the largest message that can be held."""
        return max(0, self.limits.max_bytes - self.passed_bytes)

    def hold(self, send: Callable[[], object], size: int) -> None:
        """Let a message wait, at the cost of the oldest that do."""
        self._holding = True
        self._held.append(HeldMessage(send, size))
        self._held_bytes += size
        self._evict()

    def drop(self, size: int) -> None:
        """Count a message that is not sent at all."""
        self._lose(size, 1, "max_output_bytes", None)

    def release(self) -> tuple[str, str, list[Held]]:
        """The stream and text of the marker (empty where nothing was lost), and what waited."""
        held, self._held, self._held_bytes = list(_joined(self._held)), deque(), 0
        fresh, self._fresh = self._fresh, Loss()
        self.passed_bytes += sum(item.size for item in held)
        self.passed_messages += len(held)
        self._holding = False
        return fresh.stream, self._marker(fresh), held

    def report(self) -> dict[str, object]:
        """The account, for the reply's metadata."""
        return {
            "output_bytes": self.passed_bytes,
            "output_messages": self.passed_messages,
            "dropped_bytes": self.lost.bytes,
            "dropped_messages": self.lost.writes,
            "limit": self.lost.limit or None,
        }

    @property
    def _capacity(self) -> int:
        """What may pass at once: all that is left after the cell's end, and before it less the tail's part."""
        tail = 0 if self.closed else self.limits.max_bytes // TAIL_PART
        return max(0, self.limits.max_bytes - tail - self.passed_bytes)

    @property
    def _head_messages(self) -> int:
        tail = 0 if self.closed else self.limits.max_messages // TAIL_PART
        return self.limits.max_messages - tail

    def _admit_late(self, name: str, text: str, writes: int) -> str:
        """Text of a thread that outlived its cell."""
        size = utf8_length(text)
        if not self._silenced and size <= self._capacity and self.passed_messages < self.limits.max_messages:
            self.passed_bytes += size
            return text
        self._lose(size, writes, "max_output_bytes", name)
        if self._silenced:
            return ""
        self._silenced = True
        return f"\n[cellwright: output after the cell's end is dropped; limit max_output_bytes={self.limits.max_bytes:,}]\n"

    @property
    def _chunk_bytes(self) -> int:
        """How much text is held, and later evicted, as one: enough to be cheap, little enough to keep a tail."""
        return max(1, min(MAX_CHUNK_BYTES, self.limits.max_bytes // CHUNKS_PER_LIMIT))

    @property
    def _max_held(self) -> int:
        return max(0, self.limits.max_messages - self.passed_messages)

    def _hold_text(self, name: str, text: str, start: int, writes: int) -> None:
        """Hold ``text[start:]``, of which no more is copied than can be kept."""
        if not start and len(text) <= self._chunk_bytes and text.isascii():
            # By far the most common: a print after the limit. It must cost next to nothing.
            self._append(name, text, writes)
            if self._held_bytes > self.capacity or len(self._held) > self._max_held:
                self._evict()
            return
        kept = text[max(start, len(text) - self.capacity) :]
        if start + len(kept) < len(text) or not kept.isascii():
            kept = _last_bytes(kept, self.capacity)
        cut = utf8_length(text, start) - utf8_length(kept)
        if cut:
            self._lose(cut, 0 if kept else writes, "max_output_bytes", name)
        for piece_start in range(0, len(kept), self._chunk_bytes):
            piece = kept[piece_start : piece_start + self._chunk_bytes]
            self._append(name, piece, 0 if piece_start else writes)
        self._evict()

    def _append(self, name: str, piece: str, writes: int) -> None:
        size = utf8_length(piece)
        last = self._held[-1] if self._held else None
        if isinstance(last, HeldText) and last.name == name and last.size + size <= self._chunk_bytes:
            last.parts.append(piece)
            last.size += size
            last.writes += writes
        else:
            self._held.append(HeldText(name, [piece], size, writes))
        self._held_bytes += size

    def _evict(self) -> None:
        while self._held and (self._held_bytes > self.capacity or len(self._held) > self._max_held):
            limit = "max_output_bytes" if self._held_bytes > self.capacity else "max_output_messages"
            oldest = self._held.popleft()
            self._held_bytes -= oldest.size
            self._lose(oldest.size, oldest.writes, limit, getattr(oldest, "name", None))

    def _lose(self, size: int, writes: int, limit: str, stream: str | None) -> None:
        self.lost.add(size, writes, limit, stream)
        self._fresh.add(size, writes, limit, stream)

    def _marker(self, loss: Loss) -> str:
        if not loss.bytes and not loss.writes:
            return ""
        limits = {"max_output_bytes": self.limits.max_bytes, "max_output_messages": self.limits.max_messages}
        return (
            f"\n[cellwright: {loss.bytes:,} bytes in {max(loss.writes, 1):,} writes dropped here; "
            f"limit {loss.limit}={limits[loss.limit]:,}]\n"
        )


def utf8_length(text: str, start: int = 0) -> int:
    """The length in UTF-8 of ``text[start:]``, without a copy of it."""
    if text.isascii():
        return len(text) - start
    steps = range(start, len(text), COUNTING_STEP)
    return sum(len(text[step : step + COUNTING_STEP].encode("utf-8", "surrogatepass")) for step in steps)


def _first_bytes(text: str, size: int) -> str:
    head = text[:size]
    return head if head.isascii() else head.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def _last_bytes(text: str, size: int) -> str:
    tail = text[-size:] if size else ""
    return tail if tail.isascii() else tail.encode("utf-8", "replace")[-size:].decode("utf-8", "ignore")


def _joined(held: deque[Held]) -> Iterator[Held]:
    """Neighbouring texts of one stream as one."""
    run: HeldText | None = None
    for item in held:
        if isinstance(item, HeldText) and run is not None and run.name == item.name:
            run = HeldText(
                run.name, [*run.parts, *item.parts], run.size + item.size, run.writes + item.writes
            )
            continue
        if run is not None:
            yield run
        run = item if isinstance(item, HeldText) else None
        if run is None:
            yield item
    if run is not None:
        yield run
