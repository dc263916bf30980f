"""Files as digests, each made by a process of its own, since a file may hold anything.

That process (``fetch``) has the file's descriptor and nothing else. What takes too long or too much memory costs that
process, and whoever asked is told which.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

import msgspec

from cellwright.errors import FileUnreadable
from cellwright.tools._confined_process import ask_apart
from cellwright.tools.files._reader_wire import Answer, Order

__all__ = ["ReadLimits", "read_digest"]

_MOST_ANSWERED = 4 << 20
_BY_PARTS = "Read it in code, by parts"
# How native code ends when it can have no more memory, or meets what it never expected.
_BROKEN = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP, signal.SIGFPE)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What looking at one file may cost."""

    cpu_s: int = 40
    """Processor time, of all its threads."""
    timeout_s: float = 120
    """A busy machine gives processor time late; a process that gets none at all is not waited for."""
    memory_bytes: int = 1 << 30


async def read_digest(
    descriptor: int,
    name: str,
    *,
    offset: int,
    limit: int,
    max_characters: int,
    sheet: str | None = None,
    limits: ReadLimits | None = None,
) -> Answer:
    """What a file holds, in so many characters.

    Raises:
        FileUnreadable: it is not what it should be, or took more than the limits.
    """
    limits = limits or ReadLimits()
    if sheet is not None and not _is_text(sheet):
        raise FileUnreadable(f"{name}: {sheet!a} is no name of a sheet", hint="Read it without `sheet` first")
    order = Order(name, offset, limit, max_characters, sheet, limits.memory_bytes, limits.cpu_s)
    try:
        output, code = await ask_apart(
            "cellwright.tools.files.reader",
            msgspec.json.encode(order).decode(),
            given=descriptor,
            limit_s=limits.timeout_s,
            most_answered=_MOST_ANSWERED,
        )
    except TimeoutError:
        raise FileUnreadable(
            f"{name} could not be looked through within {limits.timeout_s:g} s", hint=_BY_PARTS
        ) from None
    return _understood(output, code, name, limits)


def _is_text(name: str) -> bool:
    """Whether it can be handed to another process: half a character, or none, cannot."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def _understood(output: bytes, code: int | None, name: str, limits: ReadLimits) -> Answer:
    try:
        answer = msgspec.json.decode(output, type=Answer)
    except msgspec.DecodeError:
        raise FileUnreadable(
            f"{name} could not be looked through: {_end_text(code, limits)}", hint=_BY_PARTS
        ) from None
    if answer.error is not None:
        raise FileUnreadable(answer.error, hint=answer.hint or _BY_PARTS)
    return answer


def _end_text(code: int | None, limits: ReadLimits) -> str:
    if code is None:
        return "the process that reads is gone"
    if -code == signal.SIGXCPU:
        return f"it takes more than {limits.cpu_s} s of processor time"
    if -code in _BROKEN:
        return "it needs more memory than there is for it, or is broken in a way that nobody expected"
    if code < 0:
        return f"the process that reads was ended by {signal.Signals(-code).name}"
    return f"the process that reads ended with code {code}"
