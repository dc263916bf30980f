"""Makes sure that an interrupt reaches the cell it is meant for, however early it comes.

Between taking a request up and running its code IPython calls hooks that swallow ``KeyboardInterrupt``, so one that
comes then waits until the code begins. One that comes after the code has ended does nothing. And a signal that arrives just before Python goes to sleep in a system call
does not wake it, so the signal is repeated until Python has taken note.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

__all__ = ["INTERRUPTED", "Interrupts"]

# Run in place of the cell: so the interrupt shows as any other does.
INTERRUPTED = compile("raise KeyboardInterrupt", "<interrupted before it began>", "exec")


FIRST_REPEAT_S = 0.05
REPEATS = 6


class Interrupts:
    """What SIGINT does while a request is handled."""

    def __init__(self) -> None:
        self._handling = False
        self._code_began = False
        self._pending = False
        self._noted = 0

    def expect_code(self) -> None:
        """A request was taken up; its code is yet to begin."""
        self._handling = True
        self._code_began = self._pending = False

    def over(self) -> None:
        """The request was answered."""
        self._handling = False

    def handle(self, _signal: int, _frame: FrameType | None) -> None:
        """The signal's handler; runs when Python takes note of it."""
        self._noted += 1
        if self._code_began:
            raise KeyboardInterrupt
        self._pending = True

    @property
    def noted(self) -> int:
        """How many there were so far: what runs native code may be told of one in no other way."""
        return self._noted

    def code_begins(self) -> bool:
        """From now on interrupts are raised; whether one waited."""
        # In this order: a signal in between is then raised rather than forgotten.
        self._code_began = True
        waited, self._pending = self._pending, False
        return waited

    def code_ended(self) -> None:
        """From now on interrupts come too late; raised, they would keep the reply or the idle status from being sent."""
        self._code_began = False

    def insist(self, call_later: Callable[..., object]) -> None:
        """Repeat a signal that was just sent until it is noted; ``call_later(seconds, function)`` does the waiting."""
        noted = self._noted

        def repeat(left: int, delay_s: float) -> None:
            # Until it is noted a repeated signal is the same interrupt, not a second one.
            if self._handling and self._noted == noted and left:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                call_later(2 * delay_s, repeat, left - 1, 2 * delay_s)

        if self._handling:
            call_later(FIRST_REPEAT_S, repeat, REPEATS, FIRST_REPEAT_S)
