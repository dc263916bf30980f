"""OpenAI's Responses, which xAI's REST interface speaks too."""

from __future__ import annotations

import json
from typing import Any

from tests.support.agent.wires.replies import Call, Fault, Part, Reply, Text, Think

CUT_AFTER = 4


def fault(answer: Fault) -> dict[str, Any]:
    kinds = {401: "invalid_api_key", 429: "rate_limit_exceeded", 400: "invalid_request"}
    code = kinds.get(answer.status, "server_error")
    return {"error": {"message": answer.message, "type": code, "code": code, "param": None}}


def whole(answer: Reply, body: dict[str, Any]) -> dict[str, Any]:
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(answer.finish)
    return {
        **_frame(body),
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _items(answer),
        "usage": {
            "input_tokens": answer.tokens_in,
            "input_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": 0},
            "output_tokens": answer.tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.tokens_in + answer.tokens_out,
        },
    }


def events(answer: Reply, body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    told: list[tuple[str | None, Any]] = []

    def tell(kind: str, **rest: Any) -> None:
        told.append((kind, {"type": kind, "sequence_number": len(told), **rest}))

    tell("response.created", response={**_frame(body), "status": "in_progress", "output": [], "usage": None})
    for at, item in enumerate(_items(answer)):
        place = {"output_index": at, "item_id": item["id"]}
        match item["type"]:
            case "function_call":
                tell("response.output_item.added", output_index=at, item={**item, "arguments": ""})
                for piece in _pieces(item["arguments"]):
                    tell("response.function_call_arguments.delta", **place, delta=piece)
                tell(
                    "response.function_call_arguments.done",
                    **place,
                    arguments=item["arguments"],
                    name=item["name"],
                )
            case "reasoning":
                tell("response.output_item.added", output_index=at, item={**item, "summary": []})
                part = {"type": "summary_text", "text": ""}
                tell("response.reasoning_summary_part.added", **place, summary_index=0, part=part)
                for piece in _words(item["summary"][0]["text"]):
                    tell("response.reasoning_summary_text.delta", **place, summary_index=0, delta=piece)
            case _:
                tell("response.output_item.added", output_index=at, item={**item, "content": []})
                _message(tell, place, item["content"][0])
        tell("response.output_item.done", output_index=at, item=item)
    final = whole(answer, body)
    tell(f"response.{final['status']}", response=final)
    return told


def _message(tell: Any, place: dict[str, Any], content: dict[str, Any]) -> None:
    if content["type"] == "refusal":
        for piece in _words(content["refusal"]):
            tell("response.refusal.delta", **place, content_index=0, delta=piece)
        tell("response.refusal.done", **place, content_index=0, refusal=content["refusal"])
        return
    tell("response.content_part.added", **place, content_index=0, part={**content, "text": ""})
    for piece in _words(content["text"]):
        tell("response.output_text.delta", **place, content_index=0, delta=piece, logprobs=[])
    tell("response.output_text.done", **place, content_index=0, text=content["text"], logprobs=[])


def _frame(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_790_000_000,
        "model": body["model"],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
    }


def _items(answer: Reply) -> list[dict[str, Any]]:
    if answer.finish == "refusal":
        content = {"type": "refusal", "refusal": answer.refusal}
        return [_said(0, content)]
    return [_item(at, part) for at, part in enumerate(answer.parts)]


def _item(at: int, part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return _said(at, {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []})
        case Think():
            return {
                "type": "reasoning",
                "id": f"rs_{at}",
                "summary": [{"type": "summary_text", "text": part.text}],
                "encrypted_content": part.signature,
            }
        case Call():
            given = part.arguments if isinstance(part.arguments, str) else json.dumps(part.arguments)
            return {
                "type": "function_call",
                "id": f"fc_{at}",
                "call_id": part.id or f"call_{at}",
                "name": part.tool,
                "arguments": given,
                "status": "completed",
            }


def _said(at: int, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{at}",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }


def _words(text: str) -> list[str]:
    return [word if at == 0 else f" {word}" for at, word in enumerate(text.split(" "))]


def _pieces(text: str, size: int = 8) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
