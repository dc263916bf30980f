"""How the tests of the wires speak to a provider: a server, a chain to it, and a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio.lowlevel
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models.chain import Chain
from cellwright.agent.models.connect import connect, find_row
from cellwright.agent.models.providers import find_keys
from cellwright.agent.models.requests import Delta, ModelReply, RequestParams
from tests.support.agent.wires.servers import Call, Entry, Server, Think, reply, serve, serve_grok

__all__ = [
    "PROVIDERS",
    "RUN",
    "SIGNATURE",
    "Clock",
    "acting",
    "chain_to",
    "finished",
    "question",
    "results",
    "serving",
    "thinking_turn",
]

PROVIDERS = ("openai", "anthropic", "google", "xai", "grok-grpc", "compatible")
SIGNATURE = "c2lnbmVkIGJ5IG1l"
RUN = ToolDefinition(
    name="run",
    description="Run code",
    parameters_json_schema={
        "type": "object",
        "properties": {"code": {"type": "string"}},
        "required": ["code"],
    },
)
acting = RequestParams("act", tools=(RUN,))


@dataclass
class Clock:
    """Time that passes when somebody waits."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def serving(provider: str, entries: Sequence[Entry] = ()) -> AbstractContextManager[Server]:
    return serve_grok(entries) if provider == "grok-grpc" else serve(entries)


@asynccontextmanager
async def chain_to(
    *servers: tuple[str, Server], retries: int = 0, clock: Clock | None = None
) -> AsyncIterator[Chain]:
    """A chain of the defaults of providers, each at its own server."""
    time = clock or Clock()
    speakers = []
    for provider, server in servers:
        row = find_row(f"{server.url}/v1#served" if provider == "compatible" else provider)
        speakers.append(connect(row, await find_keys(server.environment, [provider])))
    async with Chain(speakers, retries=retries, sleep=time.sleep, clock=time, jitter=lambda: 0.0) as chain:
        yield chain


def question(text: str = "How much is it?") -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)], instructions="Be brief.")]


def results(response: ModelResponse, *texts: str) -> ModelRequest:
    """What the calls of a reply came to."""
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    assert len(calls) == len(texts)
    return ModelRequest(
        parts=[
            ToolReturnPart(call.tool_name, text, tool_call_id=call.tool_call_id)
            for call, text in zip(calls, texts, strict=True)
        ],
        instructions="Be brief.",
    )


def thinking_turn(id_: str = "") -> Entry:
    """A thought, and two calls."""
    calls = (Call("run", {"code": "6 * 7"}, id=id_), Call("run", {"code": "6 * 8"}))
    return reply(Think("I had better compute it.", SIGNATURE), *calls)


async def finished(
    chain: Chain, messages: list[ModelMessage], heard: list[Delta] | None = None
) -> ModelReply:
    return await chain.ask(messages, acting, heard=(heard if heard is not None else []).append)
