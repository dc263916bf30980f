"""Models in a row: the first that answers is asked, and asked again where that may help; then the next one is.

Whoever steps in stays for the rest of the conversation, and gets all of it. Nothing is known here of providers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse

from cellwright.agent.models.requests import (
    Delta,
    Heard,
    ModelReply,
    RequestParams,
    Speaker,
    Unanswered,
    unheard,
    usage_of,
)
from cellwright.agent.models.table import ModelRow
from cellwright.delegation import Usage
from cellwright.errors import ModelFailed, NoModel

__all__ = ["Chain", "wait_before"]

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
_CLOSING_S = 2.0


def wait_before(tries: int, after_s: float | None, jitter: float) -> float:
    """Seconds to wait after so many tries that failed; ``jitter`` is between 0 and 1.

    What a provider asks for is kept to, and a little more, so that not everybody is back at the same moment.
    """
    backoff = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (tries - 1))
    if after_s is None:
        return backoff * (0.5 + jitter / 2)
    return max(0.0, after_s) + jitter * min(1.0, after_s / 10)


@dataclass(slots=True)
class _Course:
    """One question on its way through the chain."""

    deadline: float | None
    troubles: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    last: ModelFailed | None = None

    def left(self, now: float) -> float | None:
        return None if self.deadline is None else self.deadline - now


class Chain:
    """Speakers, the first of which is asked. Several questions may be under way at once."""

    def __init__(
        self,
        speakers: Sequence[Speaker],
        *,
        retries: int = 3,
        secrets: Sequence[str] = (),
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not speakers:
            raise NoModel("There is no model to ask")
        self._speakers = tuple(speakers)
        self._retries = retries
        self._sleep, self._clock, self._jitter = sleep, clock, jitter
        self._current = 0
        self.secrets = tuple(secrets)
        """The keys in use, for whoever takes them out of what is written."""

    @property
    def row(self) -> ModelRow:
        """The model that is asked next."""
        return self._speakers[self._current].row

    @property
    def rows(self) -> tuple[ModelRow, ...]:
        """All models, in the order in which they are asked."""
        return tuple(speaker.row for speaker in self._speakers)

    async def ask(
        self,
        messages: Sequence[ModelMessage],
        want: RequestParams,
        *,
        heard: Heard = unheard,
        deadline_s: float | None = None,
    ) -> ModelReply:
        """A reply, from the first that gives one. All is over after ``deadline_s``.

        Raises:
            ModelFailed: none does; lists what each said.
        """
        began = self._clock()
        course = _Course(None if deadline_s is None else began + deadline_s)
        for place in range(self._current, len(self._speakers)):
            said = await self._ask_one(place, messages, want, heard, course)
            if said is not None:
                # Another branch may have moved on meanwhile.
                self._current = max(self._current, place)
                usage = course.usage + usage_of(said, self._speakers[place].row)
                seconds = self._clock() - began
                return ModelReply(said, self._speakers[place].row, usage, seconds, tuple(course.troubles))
        # With the next question all get their chance again.
        self._current = 0
        raise _given_up(course)

    async def aclose(self) -> None:
        """Let go of every connection."""
        with anyio.move_on_after(_CLOSING_S, shield=True):
            for speaker in self._speakers:
                close = getattr(speaker, "aclose", None)
                if close is not None:
                    await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _ask_one(
        self, place: int, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard, course: _Course
    ) -> ModelResponse | None:
        """Ask one speaker until it answers or is given up; None is for the next."""
        speaker = self._speakers[place]
        for tries in range(1, self._retries + 2):
            failure = await self._try(speaker, messages, want, heard, course)
            if not isinstance(failure, ModelFailed):
                return failure
            course.last = failure
            course.usage += failure.usage if isinstance(failure, Unanswered) else Usage()
            wait = wait_before(tries, failure.after_s, self._jitter())
            why = self._end(failure, tries, wait, course)
            if why is not None:
                course.troubles.append(f"{failure.message}; {why}")
                if place + 1 < len(self._speakers):
                    heard(Delta("again", f"{failure.message}; now {self._speakers[place + 1].row.full_name}"))
                return None
            course.troubles.append(f"{failure.message}; asked again after {wait:.1f} s")
            heard(Delta("again", f"{failure.message}; asking again in {wait:.0f} s"))
            await self._sleep(wait)
        return None

    async def _try(
        self,
        speaker: Speaker,
        messages: Sequence[ModelMessage],
        want: RequestParams,
        heard: Heard,
        course: _Course,
    ) -> ModelResponse | ModelFailed:
        left = course.left(self._clock())
        out_of_time = ModelFailed(
            f"{speaker.row.full_name} was not done when the time was over",
            hint="Give it more seconds in the budget",
        )
        if left is not None and left <= 0:
            return out_of_time
        with anyio.move_on_after(left):
            try:
                return await speaker.say(messages, want, heard)
            except ModelFailed as failure:
                return failure
        return out_of_time

    def _end(self, failure: ModelFailed, tries: int, wait: float, course: _Course) -> str | None:
        """Why this speaker is not asked again, if it is not."""
        left = course.left(self._clock())
        if left is not None and wait >= left:
            return "no time is left to ask again"
        if not failure.again:
            return "asking again would not help"
        if tries > self._retries:
            return f"given up after {tries} tries" if tries > 1 else "given up"
        if wait > LONGEST_WAIT_S * 1.1:
            return f"it wants to be left alone for {wait:.0f} s"
        return None


def _given_up(course: _Course) -> ModelFailed:
    last = course.last
    assert last is not None  # there is a speaker, and it failed
    if len(course.troubles) == 1:
        message = course.troubles[0]
    else:
        message = "No model answered:\n" + "\n".join(f"- {trouble}" for trouble in course.troubles)
    return Unanswered(message, usage=course.usage, hint=last.hint, again=last.again, after_s=last.after_s)
