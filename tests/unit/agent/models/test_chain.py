"""How long a chain waits, when it stops, and what it tells, with speakers that are written down."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from cellwright.agent.models.chain import LONGEST_WAIT_S, Chain, wait_before
from cellwright.agent.models.requests import Heard, RequestParams, Unanswered
from cellwright.agent.models.table import ModelRow, Price
from cellwright.delegation import Usage
from cellwright.errors import ModelFailed, NoModel
from tests.support.agent.wires.talking import Clock, question
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


class Written:
    """Says, or raises, what is written, in its order."""

    def __init__(
        self, name: str, *replies: str | ModelFailed, clock: Clock | None = None, takes: float = 0
    ) -> None:
        self.row = ModelRow(name, "written", 1_000, price=Price(1, 2))
        self._replies = list(replies)
        self._clock, self._takes = clock, takes
        self.asked = 0

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        self.asked += 1
        if self._clock is not None:
            self._clock.now += self._takes
        reply = self._replies.pop(0)
        if isinstance(reply, ModelFailed):
            raise reply
        return ModelResponse(parts=[TextPart(reply)], usage=RequestUsage(input_tokens=10, output_tokens=1))


def chain_of(*speakers: Written, clock: Clock, retries: int = 3) -> Chain:
    return Chain(speakers, retries=retries, sleep=clock.sleep, clock=clock, jitter=lambda: 0.0)


def busy(after_s: float | None = None) -> ModelFailed:
    return ModelFailed("It is busy", again=True, after_s=after_s)


@given(st.integers(1, 12), st.one_of(st.none(), st.floats(0, 3_600)), st.floats(0, 1))
def test_wait_is_bounded_and_never_shorter_than_asked_for(
    tries: int, after_s: float | None, jitter: float
) -> None:
    wait = wait_before(tries, after_s, jitter)
    if after_s is None:
        assert 0 < wait <= LONGEST_WAIT_S
    else:
        assert after_s <= wait <= after_s + 1


def test_wait_doubles() -> None:
    assert [wait_before(tries, None, 1.0) for tries in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_tries_are_counted_and_then_it_is_over() -> None:
    clock = Clock()
    speaker = Written("one", *[busy()] * 4)
    with pytest.raises(ModelFailed, match="given up after 4 tries"):
        await chain_of(speaker, clock=clock).ask(question(), RequestParams("act"))
    assert speaker.asked == 4
    assert clock.waits == [0.5, 1, 2]


async def test_reply_that_could_not_be_used_is_paid_for() -> None:
    cut = Unanswered("It broke off", usage=Usage(100, 50, 0, 0.5), again=True)
    said = await chain_of(Written("one", cut, "Yes."), clock=Clock()).ask(question(), RequestParams("act"))
    assert said.usage == Usage(110, 51, 0, pytest.approx(0.5 + 12 / 1_000_000))


async def test_provider_that_wants_to_be_left_alone_for_long_is() -> None:
    clock = Clock()
    chain = chain_of(Written("one", busy(after_s=600)), Written("two", "Yes."), clock=clock)
    said = await chain.ask(question(), RequestParams("act"))
    assert said.row.name == "two"
    assert clock.waits == []
    assert "600 s" in said.troubles[0]


async def test_nobody_waits_beyond_the_deadline() -> None:
    clock = Clock()
    speaker = Written("one", busy(after_s=20), "Yes.")
    with pytest.raises(ModelFailed, match="no time is left"):
        await chain_of(speaker, clock=clock).ask(question(), RequestParams("act"), deadline_s=10)
    assert clock.waits == []


async def test_nobody_is_asked_after_the_deadline() -> None:
    clock = Clock()
    slow = Written("one", busy(), clock=clock, takes=9.8)
    second = Written("two", "Yes.", clock=clock)
    with pytest.raises(ModelFailed, match="no time is left"):
        await chain_of(slow, clock=clock).ask(question(), RequestParams("act"), deadline_s=10)
    late = Written("one", ModelFailed("It cannot"), clock=clock, takes=11)
    with pytest.raises(ModelFailed, match="when the time was over"):
        await chain_of(late, second, clock=clock).ask(question(), RequestParams("act"), deadline_s=10)
    assert second.asked == 0


async def test_model_that_says_nothing_is_left_at_the_deadline() -> None:
    class Silent(Written):
        async def say(
            self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard
        ) -> ModelResponse:
            await anyio.sleep_forever()
            raise AssertionError

    with fail_after(), pytest.raises(ModelFailed, match="when the time was over"):
        await chain_of(Silent("one"), clock=Clock()).ask(question(), RequestParams("act"), deadline_s=0.01)


async def test_waiting_can_be_cancelled() -> None:
    speaker = Written("one", busy(after_s=30), "Yes.")
    with fail_after(), anyio.CancelScope() as scope:

        async def wait(_: float) -> None:
            scope.cancel()
            await anyio.sleep_forever()

        await Chain([speaker], sleep=wait).ask(question(), RequestParams("act"))
    assert scope.cancelled_caught
    assert speaker.asked == 1


def test_chain_of_nobody_is_refused() -> None:
    with pytest.raises(NoModel):
        Chain([])
