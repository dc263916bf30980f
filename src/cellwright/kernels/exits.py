"""Why a kernel ended: a status becomes a cause, a sentence and the next step. Pure (processes finds the facts)."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from cellwright.sandbox.exit_reasons import V8_IS_FULL, LimitHit

__all__ = ["Exit", "explain_exit"]

Cause = Literal["exit", "signal", "out_of_memory", "killed", "limit", "culled", "unreachable", "unknown"]

RESTART = "Run the cells again in a new kernel"
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a kernel's process ended."""

    code: int | None
    signal: int | None
    cause: Cause
    message: str
    next_step: str
    last_words: str = ""
    """The end of what the process wrote to its original stderr; for a crash, where it happened."""


def explain_exit(
    status: int | None,
    *,
    killed_by_us: str | None,
    oom_kills_seen: bool,
    last_words: str = "",
    limit: LimitHit | None = None,
) -> Exit:
    """Explain a status as ``os.waitstatus_to_exitcode`` gives it; None is one that nobody could read."""
    if limit is not None:
        number = -status if status is not None and status < 0 else None
        return Exit(None, number, "limit", limit.message, limit.next_step, last_words)
    if killed_by_us is not None:
        number = -status if status is not None and status < 0 else None
        code = status if status is not None and status >= 0 else None
        return Exit(code, number, "killed", f"The kernel was ended: {killed_by_us}", RESTART, last_words)
    if status is None:
        message = "The kernel ended and its status was lost with the process that started it"
        return Exit(None, None, "unknown", message, RESTART, last_words)
    if status >= 0:
        message = f"The kernel's process exited by itself with code {status}"
        step = f"{RESTART}; look for a call of exit, quit, os._exit or Deno.exit in the last cell"
        return Exit(status, None, "exit", message, step, last_words)
    return _explain_signal(-status, oom_kills_seen=oom_kills_seen, last_words=last_words)


def _explain_signal(number: int, *, oom_kills_seen: bool, last_words: str) -> Exit:
    if V8_IS_FULL.search(last_words):
        message = "The kernel's heap was full: V8 lets it grow no further"
        step = f"{RESTART}; use less memory at once (samples, chunks, fewer copies)"
        return Exit(None, number, "out_of_memory", message, step, last_words)
    if number == signal.SIGKILL and oom_kills_seen:
        message = "The system ran out of memory and ended the kernel's process"
        step = "Use less memory at once (smaller samples, chunks, fewer copies), or close other sessions"
        return Exit(None, number, "out_of_memory", message, step, last_words)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number in CRASHES:
        message = f"The kernel's process crashed in native code ({name})"
        step = f"{RESTART}; the last call into a compiled library is the likely cause"
    else:
        message = f"Somebody ended the kernel's process with {name}"
        step = RESTART
    return Exit(None, number, "signal", message, step, last_words)
