"""Models whose replies are written down, by branch and role. Everything else about them is as with a real one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import anyio
import anyio.abc
from pydantic import BaseModel
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from cellwright import Engine
from cellwright.agent.models.requests import Delta, Heard, RequestParams
from cellwright.agent.models.table import ModelRow, Price
from cellwright.agent.trace.steps import Step
from cellwright.engine import Event
from cellwright.errors import ModelFailed

__all__ = ["ROW", "Call", "Onlooker", "Script", "Wrong", "change", "cut_off", "run", "told"]

ROW = ModelRow("scripted", "test", 100_000, price=Price(1.0, 2.0, 0.1))


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wrong:
    """The request fails."""

    why: str = "scripted failure"
    again: bool = False


Plain: TypeAlias = "str | Call | Sequence[Call] | BaseModel | Wrong"
Reply: TypeAlias = "Plain | Callable[[str], Plain]"
"""A function is given all that the model was told, and gives the reply."""


def run(code: str) -> Call:
    """The model adds a cell."""
    return Call("cell_add_and_run", {"content": code})


def change(code: str) -> Callable[[str], Sequence[Call]]:
    """The model changes the cell that it was last told of."""

    def calls(told: str) -> list[Call]:
        cell = re.findall(r"\| cell (\w+)", told)[-1]
        return [
            Call("cell_update", {"cell_id": cell, "content": code}),
            Call("cell_execute", {"cell_id": cell}),
        ]

    return calls


class Script:
    """A model that says what is written down for ``branch/role``, in order."""

    def __init__(self, replies: Mapping[str, Sequence[Reply]], row: ModelRow = ROW) -> None:
        self.row = row
        self.left: dict[str, list[Reply]] = {key: list(value) for key, value in replies.items()}
        self.asked: list[str] = []
        """The keys of all requests, in order."""
        self.prompts: list[list[ModelMessage]] = []
        self.wants: list[RequestParams] = []

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        key = f"{want.branch}/{want.role}"
        self.asked.append(key)
        self.prompts.append(list(messages))
        self.wants.append(want)
        assert self.left.get(key), (
            f"nothing is left to say for {key}, which was asked:\n{told(messages)[-1500:]}"
        )
        reply = self.left[key].pop(0)
        if callable(reply):
            reply = reply(told(messages))
        if isinstance(reply, Wrong):
            raise ModelFailed(reply.why, again=reply.again)
        response = self._response(reply)
        for part in response.parts:
            if isinstance(part, TextPart):
                heard(Delta("text", part.content))
        return response

    def _response(self, reply: str | Call | Sequence[Call] | BaseModel) -> ModelResponse:
        usage = RequestUsage(input_tokens=100, output_tokens=10)
        if isinstance(reply, str):
            parts: list[Any] = [TextPart(reply)]
        elif isinstance(reply, BaseModel):
            parts = [TextPart(reply.model_dump_json())]
        else:
            calls = [reply] if isinstance(reply, Call) else reply
            parts = [ToolCallPart(call.tool, dict(call.arguments)) for call in calls]
        return ModelResponse(parts=parts, usage=usage, model_name=self.row.name)

    @property
    def used_up(self) -> bool:
        return not any(self.left.values())

    def with_row(self, **changes: Any) -> Script:
        self.row = replace(self.row, **changes)
        return self


class Onlooker:
    """Watches a run, and is told of its first call of a tool."""

    def __init__(self) -> None:
        self.called = anyio.Event()

    def began(self, step: Step) -> None:
        if step.kind == "call":
            self.called.set()

    def heard(self, step: Step, delta: Delta) -> None: ...

    async def ended(self, step: Step) -> None: ...


@asynccontextmanager
async def cut_off(engine: Engine, *, cells: int = 1) -> AsyncIterator[anyio.CancelScope]:
    """What is inside is cancelled once so many cells have begun to run."""
    async with anyio.create_task_group() as tasks:

        async def watch(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            begun = 0
            with engine.subscribe() as events:
                task_status.started()
                async for event in events:
                    begun += isinstance(event, Event) and event.kind == "notebook.cell.executing"
                    if begun == cells:
                        tasks.cancel_scope.cancel()
                        return

        await tasks.start(watch)
        yield tasks.cancel_scope


def told(messages: Sequence[ModelMessage]) -> str:
    """All that was said to the model, as text."""
    texts = []
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    content = part.content
                    texts += (
                        [content] if isinstance(content, str) else [c for c in content if isinstance(c, str)]
                    )
                elif isinstance(part, ToolReturnPart):
                    texts.append(str(part.content))
    return "\n".join(texts)
