"""Conversations that move between providers: in the middle of one, and after a restart."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from cellwright.agent.models.provider_call import moved
from cellwright.agent.models.requests import Unanswered
from tests.support.agent.wires.servers import Fault, reply
from tests.support.agent.wires.talking import (
    PROVIDERS,
    SIGNATURE,
    Clock,
    chain_to,
    finished,
    question,
    results,
    serving,
    thinking_turn,
)

pytestmark = pytest.mark.anyio


async def history_with(provider: str) -> list[ModelMessage]:
    """A turn with a provider, stored and read again. Its calls go by a name that others refuse."""
    with serving(provider, [thinking_turn("functions.run:0")]) as server:
        async with chain_to((provider, server)) as chain:
            said = await finished(chain, question("How high is it?"))
    history = [
        *question("How high is it?"),
        said.response,
        results(said.response, "printed 42", "printed 48"),
    ]
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))


@pytest.mark.parametrize("first", PROVIDERS)
async def test_history_of_one_provider_goes_on_with_every_other(first: str) -> None:
    history = await history_with(first)
    for second in PROVIDERS:
        with serving(second, [reply("42.")]) as server:
            async with chain_to((second, server)) as chain:
                said = await finished(chain, history)
        sent = server.requests[0].text
        assert said.response.text == "42."
        for text in ("How high is it?", "6 * 7", "6 * 8", "printed 42", "printed 48", "Be brief."):
            assert text in sent, (second, text)
        if first == second:
            assert (SIGNATURE in sent) == (first != "compatible")
        else:
            assert SIGNATURE not in sent
            assert "functions.run:0" not in sent
            assert "I had better compute it." not in sent


@pytest.mark.parametrize(
    ("first", "second"), list(zip(PROVIDERS, (*PROVIDERS[1:], PROVIDERS[0]), strict=True))
)
async def test_next_provider_steps_in_with_the_whole_conversation_and_stays(first: str, second: str) -> None:
    clock = Clock()
    with ExitStack() as stack:
        one = stack.enter_context(serving(first, [thinking_turn(), Fault(503), Fault(503)]))
        other = stack.enter_context(serving(second, [reply("It is 42."), reply("As I said.")]))
        async with chain_to((first, one), (second, other), retries=1, clock=clock) as chain:
            said = await finished(chain, question())
            history = [*question(), said.response, results(said.response, "printed 42", "printed 48")]
            stepped_in = await finished(chain, history)
            assert stepped_in.row == chain.row == chain.rows[1]
            history += [stepped_in.response, *question("Are you sure?")]
            stayed = await finished(chain, history)
    assert (one.left, other.left) == (0, 0)
    assert clock.waits == [0.5]
    assert "given up after 2 tries" in stepped_in.troubles[-1]
    assert "printed 48" in other.requests[0].text
    assert stayed.troubles == ()
    assert stayed.response.text == "As I said."


async def test_bad_key_leads_to_the_next_provider_at_once() -> None:
    clock = Clock()
    with serving("openai", [Fault(401)]) as one, serving("anthropic", [reply("Yes.")]) as other:
        async with chain_to(("openai", one), ("anthropic", other), retries=3, clock=clock) as chain:
            said = await finished(chain, question())
    assert said.row.provider == "anthropic"
    assert clock.waits == []
    assert said.troubles == ("openai:gpt-6.1-terra refused the key; asking again would not help",)


async def test_when_all_fail_each_is_listed_with_its_reason_and_what_it_took() -> None:
    refusal = reply("", finish="refusal", tokens_in=1_000)
    with serving("openai", [refusal]) as one, serving("google", [Fault(401)]) as other:
        async with chain_to(("openai", one), ("google", other)) as chain:
            with pytest.raises(Unanswered) as caught:
                await finished(chain, question())
            assert chain.row == chain.rows[0], "the next question gives all of them a chance"
    message = str(caught.value)
    assert "openai:gpt-6.1-terra refused: I will not do that." in message
    assert "google:gemini-3.8-flash refused the key" in message
    assert caught.value.usage.tokens_in == 1_000


# The repair itself ----------------------------------------------------------------------------------------------------

ids = st.one_of(
    st.sampled_from(["call_1", "functions.run:0", "a|b", "x" * 80]), st.text(min_size=1, max_size=8)
)


@st.composite
def conversations(draw: st.DrawFn) -> list[ModelMessage]:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("go")])]
    for _ in range(draw(st.integers(0, 4))):
        names = draw(st.lists(ids, max_size=3, unique=True))
        calls = [ToolCallPart("run", {"code": name}, tool_call_id=name) for name in names]
        parts = [ThinkingPart("hm", signature="signed"), TextPart("so"), *calls]
        provider = draw(st.sampled_from(["here", "there", None]))
        messages.append(ModelResponse(parts=parts, provider_name=provider))
        returns = [ToolReturnPart("run", name, tool_call_id=name) for name in names]
        messages.append(ModelRequest(parts=[*returns, UserPromptPart("and?")]))
    return messages


@settings(max_examples=40)
@given(conversations())
def test_moving_keeps_every_word_and_every_result_with_its_call(messages: list[ModelMessage]) -> None:
    fitted = moved(messages, "here")
    assert len(fitted) == len(messages)
    calls: dict[str, object] = {}
    for before, after in zip(messages, fitted, strict=True):
        if isinstance(after, ModelResponse):
            assert isinstance(before, ModelResponse)
            if before.provider_name in ("here", None):
                assert after is before
            else:
                assert not any(isinstance(part, ThinkingPart) for part in after.parts)
            calls = {part.tool_call_id: part for part in after.parts if isinstance(part, ToolCallPart)}
            continue
        for part in after.parts:
            if isinstance(part, ToolReturnPart):
                call = calls[part.tool_call_id]
                assert isinstance(call, ToolCallPart)
                assert call.args == {"code": part.content}
    assert moved(fitted, "here") == fitted


@settings(max_examples=40)
@given(conversations())
def test_moving_is_the_same_for_a_longer_conversation(messages: list[ModelMessage]) -> None:
    assert moved(messages, "here")[:2] == moved(messages[:2], "here")


@settings(max_examples=40)
@given(conversations())
def test_names_of_others_calls_are_ones_that_all_providers_take(messages: list[ModelMessage]) -> None:
    seen: set[str] = set()
    for message in moved(messages, "here"):
        if isinstance(message, ModelResponse):
            names = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            if message.provider_name == "there":
                assert all(name.isascii() and len(name) <= 64 for name in names)
                assert not any(set(name) - set(_PLAIN) for name in names)
                assert not seen & set(names)
            seen |= set(names)


_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
