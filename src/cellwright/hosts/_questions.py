"""The question of ``input()`` that a kernel's code waits with: reported to the engine, answered once, within ``input_timeout_s``.

The engine decides who may answer. An answer goes to the kernel and nowhere else.
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
class _Waiting:
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
        report: Callable[[EventBody], None],
        hold: Callable[[str], None],
        go_on: Callable[[str], None],
    ) -> None:
        """``hold`` stops the clock of an execution, whose time is not a person's, and ``go_on`` starts it again."""
        self._timeout_s = timeout_s
        self._report = report
        self._hold = hold
        self._go_on = go_on
        self.waiting: _Waiting | None = None
        """The question that waits, if one does."""
        self._count = 0
        self._asking, self._before = "", 0
        """The execution that asked last, and how many questions there were before its first."""
        self._unanswered = ""
        """The execution whose last question nobody answered: its next questions are refused at once."""

    @property
    def current(self) -> Question | None:
        """The question that waits for an answer."""
        return self.waiting.question if self.waiting is not None else None

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
        self.waiting = _Waiting(question, kernel, expiry)
        self._hold(execution_id)
        self._report(InputRequested(question))

    def answer(self, given: AnswerInput) -> None:
        """Give the code an answer, or none; one to a question that is over changes nothing."""
        waiting = self.waiting
        if waiting is None or (waiting.question.execution_id, waiting.question.number) != (
            given.execution_id,
            given.number,
        ):
            return
        self._settle(waiting, answered=given.value is not None, reason=given.reason)
        if given.value is None:
            self._refuse(waiting.kernel, given.execution_id, given.reason or _NOBODY)
            return
        # What was asked is shown, and what was answered is not: that is for the code to keep or to forget.
        if waiting.question.prompt:
            self._put_out(given.execution_id, "stdout", waiting.question.prompt.rstrip("\n") + "\n")
        with contextlib.suppress(KernelGone):  # the runner reports its end
            waiting.kernel.client.answer_input(given.value)

    def ended(self, execution_id: str) -> None:
        """An execution waits no longer: it was interrupted, or is over."""
        if self.waiting is not None and self.waiting.question.execution_id == execution_id:
            self._settle(self.waiting, answered=False, reason="the cell no longer waits for it")

    def _expire(self, question: Question, seconds: float) -> None:
        if self.current is not question:
            return
        reason = f"nobody answered within {seconds:g} s (input_timeout_s)"
        self.answer(AnswerInput("", question.execution_id, question.number, None, reason))

    def _settle(self, waiting: _Waiting, *, answered: bool, reason: str) -> None:
        self.waiting = None
        waiting.expiry.cancel()
        self._go_on(waiting.question.execution_id)
        self._report(InputSettled(waiting.question.execution_id, waiting.question.number, answered, reason))

    def _refuse(self, kernel: Kernel, execution_id: str, reason: str) -> None:
        if not kernel.client.is_ours and self._unanswered != execution_id:
            self._put_out(execution_id, "stderr", NO_INPUT)
        self._unanswered = execution_id
        with contextlib.suppress(KernelGone):
            kernel.client.answer_input(None, reason=reason)

    def _put_out(self, execution_id: str, name: str, text: str) -> None:
        content = msgspec.json.encode({"name": name, "text": text})
        self._report(Output(execution_id, "stream", content))


def _read(content: bytes) -> tuple[str, bool]:
    """The prompt, and whether the answer is a password; code can send anything in its kernel's name."""
    try:
        found: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "", True
    return str(found.get("prompt") or "")[:_MOST_OF_PROMPT], bool(found.get("password"))
