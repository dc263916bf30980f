"""OpenAI's Chat Completions, which servers of one's own speak."""

from __future__ import annotations

import json
from typing import Any

from tests.support.agent.wires.replies import Call, Fault, Reply, Text, Think
from tests.support.agent.wires.responses import fault as _fault

CUT_AFTER = 2
_FINISHES = {"length": "length", "filter": "content_filter", "stop": "stop", "refusal": "stop"}


def fault(answer: Fault) -> dict[str, Any]:
    return _fault(answer)


def whole(answer: Reply, body: dict[str, Any]) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": "".join(part.text for part in answer.parts if isinstance(part, Text)) or None,
        "reasoning_content": "".join(part.text for part in answer.parts if isinstance(part, Think)) or None,
        "refusal": answer.refusal if answer.finish == "refusal" else None,
        "tool_calls": _calls(answer) or None,
    }
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    return {**_frame(body, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def events(answer: Reply, body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    frame = _frame(body, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[None, dict[str, Any]]:
        return None, {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    told: list[tuple[str | None, Any]] = [chunk({"role": "assistant", "content": ""})]
    for part in answer.parts:
        match part:
            case Text():
                told += [chunk({"content": word}) for word in _words(part.text)]
            case Think():
                told += [chunk({"reasoning_content": word}) for word in _words(part.text)]
            case Call():
                pass
    for at, call in enumerate(_calls(answer)):
        given = call["function"]["arguments"]
        start = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        told.append(chunk({"tool_calls": [start]}))
        told += [
            chunk({"tool_calls": [{"index": at, "function": {"arguments": given[place : place + 8]}}]})
            for place in range(0, len(given), 8)
        ]
    if answer.finish == "refusal":
        told.append(chunk({"refusal": answer.refusal}))
    told.append(chunk({}, _finish(answer)))
    told += [(None, {**frame, "choices": [], "usage": _usage(answer)}), (None, "[DONE]")]
    return told


def _frame(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chat_1", "object": kind, "created": 1_790_000_000, "model": body["model"]}


def _finish(answer: Reply) -> str:
    calls = answer.finish == "stop" and any(isinstance(part, Call) for part in answer.parts)
    return "tool_calls" if calls else _FINISHES[answer.finish]


def _usage(answer: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.tokens_in,
        "completion_tokens": answer.tokens_out,
        "total_tokens": answer.tokens_in + answer.tokens_out,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
    }


def _calls(answer: Reply) -> list[dict[str, Any]]:
    calls = [part for part in answer.parts if isinstance(part, Call)]
    return [
        {
            "id": call.id or f"call_{at}",
            "type": "function",
            "function": {
                "name": call.tool,
                "arguments": call.arguments
                if isinstance(call.arguments, str)
                else json.dumps(call.arguments),
            },
        }
        for at, call in enumerate(calls)
    ]


def _words(text: str) -> list[str]:
    return [word if at == 0 else f" {word}" for at, word in enumerate(text.split(" "))]
