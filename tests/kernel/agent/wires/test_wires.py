"""What goes over the wire to each provider, and what comes back: against servers that speak its format."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.test import TestModel

from cellwright.agent.models.chain import Chain
from cellwright.agent.models.connect import connect, find_row
from cellwright.agent.models.provider_call import ModelSpeaker
from cellwright.agent.models.providers import find_keys
from cellwright.agent.models.requests import Delta, RequestParams, Unanswered, read_shape
from cellwright.errors import ModelFailed
from tests.support.agent.wires.servers import KEY, Call, Entry, Fault, Garbled, Recorded, Reply, Think, reply
from tests.support.agent.wires.talking import (
    PROVIDERS,
    SIGNATURE,
    Clock,
    acting,
    chain_to,
    finished,
    question,
    results,
    serving,
    thinking_turn,
)
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio
each_provider = pytest.mark.parametrize("provider", PROVIDERS)


class Amount(BaseModel):
    """How much it is."""

    amount: int
    unit: str


async def failing(provider: str, entry: Entry) -> ModelFailed:
    """What is raised where a provider answers once, like that."""
    with serving(provider, [entry]) as server:
        async with chain_to((provider, server)) as chain:
            with pytest.raises(ModelFailed) as caught:
                await finished(chain, question())
    assert len(server.requests) == 1, "the library asked again by itself"
    return caught.value


@each_provider
async def test_reply_is_heard_while_it_comes(provider: str) -> None:
    heard: list[Delta] = []
    said_by_server = reply(Think("Let me see."), "It is forty two.", Call("run", {"code": "6 * 7"}))
    with serving(provider, [said_by_server]) as server:
        async with chain_to((provider, server)) as chain:
            said = await finished(chain, question(), heard)
    told = {
        kind: "".join(one.text for one in heard if one.kind == kind) for kind in ("text", "thinking", "call")
    }
    assert told["text"] == "It is forty two."
    assert told["thinking"] == "Let me see."
    assert told["call"].startswith("run")
    assert "6 * 7" in told["call"]
    assert sum(one.kind == "text" for one in heard) == 4
    kinds = [type(part) for part in said.response.parts]
    assert kinds == [ThinkingPart, TextPart, ToolCallPart]


@each_provider
async def test_usage_and_money_are_of_the_row(provider: str) -> None:
    with serving(provider, [reply("Yes.", tokens_in=10_000, tokens_out=2_000, cached=4_000)]) as server:
        async with chain_to((provider, server)) as chain:
            said = await finished(chain, question())
            price = chain.row.price
    assert (said.usage.tokens_in, said.usage.tokens_out, said.usage.cached) == (10_000, 2_000, 4_000)
    expected = (6_000 * price.tokens_in + 4_000 * price.cached + 2_000 * price.tokens_out) / 1_000_000
    assert said.usage.money == pytest.approx(expected)
    assert said.row == chain.row
    assert any(KEY in value for value in server.requests[0].headers.values())


@each_provider
async def test_several_calls_in_a_turn_get_their_results(provider: str) -> None:
    with serving(provider, [thinking_turn(), reply("42 and 48.")]) as server:
        async with chain_to((provider, server)) as chain:
            first = await finished(chain, question())
            calls = [part for part in first.response.parts if isinstance(part, ToolCallPart)]
            assert [call.args_as_dict() for call in calls] == [{"code": "6 * 7"}, {"code": "6 * 8"}]
            history = [*question(), first.response, results(first.response, "printed 42", "printed 48")]
            last = await finished(chain, history)
    assert last.response.text == "42 and 48."
    sent = server.requests[1].text
    assert sent.index("printed 42") < sent.index("printed 48")
    assert "Be brief." in sent
    assert server.left == 0


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "compatible"])
async def test_signature_of_a_thought_goes_back(provider: str) -> None:
    """In Chat Completions thoughts are not signed."""
    with serving(provider, [thinking_turn(), reply("42.")]) as server:
        async with chain_to((provider, server)) as chain:
            first = await finished(chain, question())
            history = [*question(), first.response, results(first.response, "42", "48")]
            await finished(chain, history)
    assert SIGNATURE not in server.requests[0].text
    assert SIGNATURE in server.requests[1].text


@each_provider
async def test_what_was_sent_once_is_sent_the_same_again(provider: str) -> None:
    """Some models bind their thinking to the exact prefix, and caches work by it."""
    with serving(provider, [thinking_turn(), thinking_turn("again_1"), reply("42.")]) as server:
        async with chain_to((provider, server)) as chain:
            history = question()
            for _ in range(2):
                said = await finished(chain, history)
                history += [said.response, results(said.response, "42", "48")]
            await finished(chain, history)
    turns = [list(_turns(request.body)) for request in server.requests]
    assert turns[1][: len(turns[0])] == turns[0]
    assert turns[2][: len(turns[1])] == turns[1]
    assert len(turns[2]) > len(turns[1]) > len(turns[0])


def _turns(body: Any) -> list[object]:
    if not isinstance(body, dict):
        return [str(message) for message in body.messages]
    found = body.get("messages") or body.get("contents") or body["input"]
    return [_unmarked(turn) for turn in found]


def _unmarked(turn: object) -> object:
    """Without the marks of Anthropic's cache, which move on."""
    if isinstance(turn, dict):
        return {name: _unmarked(value) for name, value in turn.items() if name != "cache_control"}
    return [_unmarked(one) for one in turn] if isinstance(turn, list) else turn


@each_provider
@pytest.mark.parametrize("output", ["native", "tool", "prompted"])
@pytest.mark.parametrize("tools", [(), acting.tools], ids=["alone", "with_tools"])
async def test_typed_answer_is_had_in_each_mode(provider: str, output: str, tools: tuple) -> None:
    answer = {"amount": 42, "unit": "m"}
    part = Call("final_result", answer) if output == "tool" else '{"amount": 42, "unit": "m"}'
    with serving(provider, [reply(part)]) as server:
        async with chain_to((provider, server)) as chain:
            speaker = chain._speakers[0]
            speaker.row = replace(speaker.row, output=output)
            said = await chain.ask(question(), RequestParams("think", tools=tools, shape=Amount))
    assert read_shape(said.response, Amount) == Amount(amount=42, unit="m")
    sent = server.requests[0].text
    assert "amount" in sent, "the model was not told what to answer"
    assert ("Answer with one JSON object" in sent) == (output == "prompted")
    assert ("final_result" in sent) == (output == "tool")


@each_provider
async def test_rate_limit_is_waited_out_as_long_as_it_says(provider: str) -> None:
    clock, heard = Clock(), []
    with serving(provider, [Fault(429, retry_after_s=17), reply("Yes.")]) as server:
        async with chain_to((provider, server), retries=1, clock=clock) as chain:
            said = await finished(chain, question(), heard)
    assert said.response.text == "Yes."
    # xAI's own protocol does not say how long.
    assert clock.waits == [0.5 if provider == "grok-grpc" else 17]
    assert "asked too often" in said.troubles[0]
    assert heard[0].kind == "again"


@each_provider
async def test_server_that_fails_is_asked_again(provider: str) -> None:
    clock = Clock()
    with serving(provider, [Fault(500), Fault(503), reply("Yes.")]) as server:
        async with chain_to((provider, server), retries=2, clock=clock) as chain:
            said = await finished(chain, question())
    assert clock.waits == [0.5, 1.0]
    assert len(said.troubles) == 2
    assert server.requests[0].text == server.requests[2].text


@each_provider
@pytest.mark.parametrize("how", ["broken", "quiet"])
async def test_cut_stream_is_no_answer_and_is_asked_for_again(provider: str, how: str) -> None:
    heard: list[Delta] = []
    with serving(provider, [reply("It is 42 metres.", cut=how), reply("It is 42.")]) as server:
        async with chain_to((provider, server), retries=1) as chain:
            said = await finished(chain, question(), heard)
    assert said.response.text == "It is 42."
    assert "broke off" in said.troubles[0]
    assert [one.kind for one in heard if one.kind != "text"] == ["again"]


@each_provider
@pytest.mark.parametrize("how", ["json", "page"])
async def test_reply_that_cannot_be_read_is_asked_for_again(provider: str, how: str) -> None:
    failure = await failing(provider, Garbled(how))
    assert failure.again
    expected = "cannot answer now" if provider == "grok-grpc" else "cannot be read"
    assert expected in failure.message


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "grok-grpc"])
async def test_refusal_is_told_and_not_tried_again(provider: str) -> None:
    """xAI's own protocol knows none."""
    failure = await failing(provider, reply("", finish="refusal"))
    assert not failure.again
    assert "refused" in failure.message
    if provider != "google":  # it says no more than that
        assert "I will not do that." in failure.message


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "grok-grpc"])
async def test_content_filter_is_told_and_not_tried_again(provider: str) -> None:
    failure = await failing(provider, reply("", finish="filter"))
    assert not failure.again
    assert "content filter" in failure.message


@each_provider
async def test_reply_cut_at_its_limit_says_so_and_what_it_took(provider: str) -> None:
    failure = await failing(provider, reply("It is", finish="length", tokens_in=50, tokens_out=9))
    assert "cut off at its limit, after 9 tokens" in failure.message
    assert isinstance(failure, Unanswered)
    assert (failure.usage.tokens_in, failure.usage.tokens_out) == (50, 9)


@each_provider
async def test_empty_reply_is_no_answer(provider: str) -> None:
    failure = await failing(provider, reply(""))
    assert failure.again
    assert "empty reply" in failure.message


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name not in ("google", "grok-grpc")])
async def test_arguments_that_are_no_json_are_told(provider: str) -> None:
    """Gemini's arguments are an object by its format; xAI's library fails on others by itself."""
    failure = await failing(provider, reply(Call("run", '{"code": ')))
    assert failure.again
    assert "called run with arguments that are no JSON object" in failure.message


@each_provider
@pytest.mark.parametrize("status", [401, 403])
async def test_bad_key_is_told_without_the_key(provider: str, status: int) -> None:
    failure = await failing(provider, Fault(status, message=f"Incorrect API key provided: {KEY}"))
    assert not failure.again
    assert "refused the key" in failure.message
    assert "_KEY" in str(failure)
    assert KEY not in str(failure)
    assert failure.__cause__ is None
    assert failure.__context__ is None, "the library's error has the key"


@each_provider
async def test_refused_request_is_told_without_the_key(provider: str) -> None:
    failure = await failing(provider, Fault(400, message=f"Unknown field, {KEY}"))
    assert not failure.again
    assert "refused the request: Unknown field, …" in failure.message


@each_provider
async def test_provider_that_is_not_there_can_be_asked_again(provider: str) -> None:
    with serving(provider) as server:
        pass
    async with chain_to((provider, server)) as chain:
        with pytest.raises(ModelFailed, match="cannot be reached") as caught:
            await finished(chain, question())
    assert caught.value.again


async def test_provider_that_says_nothing_is_given_up_in_time() -> None:
    told = threading.Event()

    def silent(_: Recorded) -> Reply:
        told.wait(LIMIT_S)
        return reply("Too late.")

    with serving("compatible", [silent]) as server:
        keys = await find_keys(server.environment, ["compatible"], timeout_s=0.05)
        async with Chain([connect(find_row(f"{server.url}/v1#served"), keys)], retries=0) as chain:
            with pytest.raises(ModelFailed, match="did not answer in time") as caught:
                await finished(chain, question())
        told.set()
    assert caught.value.again


async def test_model_that_cannot_stream_is_asked_for_the_whole() -> None:
    class Whole(TestModel):
        @asynccontextmanager
        async def request_stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            raise NotImplementedError
            yield

    heard: list[Delta] = []
    speaker = ModelSpeaker(find_row("openai"), Whole(custom_output_text="Yes."), says_end=False)
    response = await speaker.say(question(), RequestParams("think"), heard.append)
    assert response.text == "Yes."
    assert heard == [Delta("text", "Yes.")]


async def test_openai_stores_nothing_and_is_sent_its_reasoning_encrypted() -> None:
    with serving("openai", [reply("Yes.")]) as server:
        async with chain_to(("openai", server)) as chain:
            await finished(chain, question())
    body = server.requests[0].body
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]


async def test_anthropic_is_forced_to_nothing_and_caches_what_stays() -> None:
    with serving("anthropic", [reply("Yes.")]) as server:
        async with chain_to(("anthropic", server)) as chain:
            await chain.ask(question(), RequestParams("think", tools=acting.tools, shape=Amount))
    body = server.requests[0].body
    assert body["tool_choice"] == {"type": "auto"}
    assert "temperature" not in body
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" in body["system"][-1]


async def test_temperature_is_sent_where_a_row_has_one() -> None:
    with serving("compatible", [reply("Yes.")]) as server:
        keys = await find_keys(server.environment, ["compatible"])
        row = replace(find_row(f"{server.url}/v1#served"), temperature=0.2)
        async with Chain([connect(row, keys)]) as chain:
            await finished(chain, question())
    assert server.requests[0].body["temperature"] == 0.2


async def test_model_without_tools_acts_in_words() -> None:
    action = '```action\n{"tool": "run", "arguments": {"code": "6 * 7"}}\n```'
    with serving("compatible", [reply(action), reply("42")]) as server:
        row = replace(find_row(f"{server.url}/v1#served"), tools="none")
        async with Chain([connect(row, await find_keys(server.environment, ["compatible"]))]) as chain:
            said = await finished(chain, question())
            calls = [part for part in said.response.parts if isinstance(part, ToolCallPart)]
            assert [call.args_as_dict() for call in calls] == [{"code": "6 * 7"}]
            await finished(chain, [*question(), said.response, results(said.response, "printed 42")])
    assert all("tools" not in request.body for request in server.requests)
    assert "printed 42" in server.requests[1].text
