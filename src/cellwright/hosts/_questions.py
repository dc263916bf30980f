"""The question that one kernel's code waits with: told to the engine, answered once, and never for longer than the options say.

Who may answer is the engine's to know. An answer goes to the kernel and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from cellwright.errors import KernelGone
from cellwright.hosts.protocol import AnswerInput, EventBody, InputRequested, InputSettled, Output, Question
from cellwright.kernels import Kernel, Message

__all__ = ["NO_INPUT", "Questions"]

NO_INPUT = "The code asked for input, and nobody answered: it got an empty line.\n"

_NOBODY = "nobody is there to answer"

_MOST_OF_PROMPT = 2_000

_MOST_QUESTIONS = 1_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that waits, the kernel it came from, and what ends the wait."""

    question: Question
    kernel: Kernel
    expiry: asyncio.TimerHandle


class Questions:
    """The questions of one runner's kernels, one at a time: they run one cell at a time."""

    def __init__(
        self,
        *,
        timeout_s: Callable[[], float],
        tell: Callable[[EventBody], None],
        hold: Callable[[str], None],
        go_on: Callable[[str], None],
    ) -> None:
        """``hold`` stops the clock of an execution, whose time is not a person's, and ``go_on`` starts it again."""
        self._timeout_s = timeout_s
        self._tell = tell
        self._hold = hold
        self._go_on = go_on
        self.asked: _Asked | None = None
        """The question that waits, if one does."""
        self._count = 0
        self._asking, self._before = "", 0
        """The execution that asked last, and how many questions there were before its first."""
        self._unanswered = ""
        """The execution whose code was told that nobody answers: it is told so at once if it asks again, without end."""

    @property
    def current(self) -> Question | None:
        """What waits for an answer."""
        return self.asked.question if self.asked is not None else None

    def take(self, kernel: Kernel, message: Message, *, running: str | None) -> None:
        """A kernel's code asks for input."""
        self.ended(message.parent_id)
        seconds, execution_id = self._timeout_s(), message.parent_id
        if seconds <= 0 or execution_id == self._unanswered or execution_id != running:
            self._refuse(kernel, execution_id, _NOBODY)
            return
        # Each is journalled, and code can ask in its kernel's name as often as it likes.
        begun = self._count if execution_id != self._asking else self._before
        if self._count - begun >= _MOST_QUESTIONS:
            self._refuse(kernel, execution_id, f"it asked {_MOST_QUESTIONS:,} questions before")
            return
        self._asking, self._before = execution_id, begun
        prompt, is_password = _read(message.content)
        self._count += 1
        question = Question(execution_id, self._count, prompt, is_password, time.time() + seconds)
        expiry = asyncio.get_running_loop().call_later(seconds, self._expire, question, seconds)
        self.asked = _Asked(question, kernel, expiry)
        self._hold(execution_id)
        self._tell(InputRequested(question))

    def answer(self, given: AnswerInput) -> None:
        """Give the code an answer, or none; one to a question that is over changes nothing."""
        asked = self.asked
        if asked is None or (asked.question.execution_id, asked.question.number) != (
            given.execution_id,
            given.number,
        ):
            return
        self._settle(asked, answered=given.value is not None, reason=given.reason)
        if given.value is None:
            self._refuse(asked.kernel, given.execution_id, given.reason or _NOBODY)
            return
        # What was asked is shown, and what was answered is not: that is for the code to keep or to forget.
        if asked.question.prompt:
            self._put_out(given.execution_id, "stdout", asked.question.prompt.rstrip("\n") + "\n")
        with contextlib.suppress(KernelGone):  # its end is told by whoever watches it
            asked.kernel.client.answer_input(given.value)

    def ended(self, execution_id: str) -> None:
        """An execution waits no longer: it was interrupted, or is over."""
        if self.asked is not None and self.asked.question.execution_id == execution_id:
            self._settle(self.asked, answered=False, reason="the cell no longer waits for it")

    def _expire(self, question: Question, seconds: float) -> None:
        if self.current is not question:
            return
        reason = f"nobody answered within {seconds:g} s (input_timeout_s)"
        self.answer(AnswerInput("", question.execution_id, question.number, None, reason))

    def _settle(self, asked: _Asked, *, answered: bool, reason: str) -> None:
        self.asked = None
        asked.expiry.cancel()
        self._go_on(asked.question.execution_id)
        self._tell(InputSettled(asked.question.execution_id, asked.question.number, answered, reason))

    def _refuse(self, kernel: Kernel, execution_id: str, reason: str) -> None:
        if not kernel.client.is_ours and self._unanswered != execution_id:
            self._put_out(execution_id, "stderr", NO_INPUT)
        self._unanswered = execution_id
        with contextlib.suppress(KernelGone):
            kernel.client.answer_input(None, reason=reason)

    def _put_out(self, execution_id: str, name: str, text: str) -> None:
        content = msgspec.json.encode({"name": name, "text": text})
        self._tell(Output(execution_id, "stream", content))


def _read(content: bytes) -> tuple[str, bool]:
    """The prompt, and whether the answer is a password; code can send anything in its kernel's name."""
    try:
        found: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "", True
    return str(found.get("prompt") or "")[:_MOST_OF_PROMPT], bool(found.get("password"))
