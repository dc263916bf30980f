"""Anthropic's Messages."""

from __future__ import annotations

import json
from typing import Any

from tests.support.agent.wires.replies import Call, Fault, Part, Reply, Text, Think

CUT_AFTER = 3
_FINISHES = {"length": "max_tokens", "filter": "refusal", "refusal": "refusal"}
_FAULTS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def fault(answer: Fault) -> dict[str, Any]:
    kind = _FAULTS.get(answer.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": answer.message}, "request_id": "req_1"}


def whole(answer: Reply, body: dict[str, Any]) -> dict[str, Any]:
    return {
        **_frame(body),
        "content": [_block(at, part) for at, part in enumerate(answer.parts)],
        **_stop(answer),
        "usage": _usage(answer),
    }


def events(answer: Reply, body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    told: list[tuple[str | None, Any]] = []

    def tell(kind: str, **rest: Any) -> None:
        told.append((kind, {"type": kind, **rest}))

    begin = {**_frame(body), "content": [], "stop_reason": None, "stop_sequence": None}
    tell("message_start", message={**begin, "usage": {**_usage(answer), "output_tokens": 1}})
    for at, part in enumerate(answer.parts):
        block = _block(at, part)
        start, deltas = _streamed(part, block)
        tell("content_block_start", index=at, content_block=start)
        for delta in deltas:
            tell("content_block_delta", index=at, delta=delta)
        tell("content_block_stop", index=at)
    tell("message_delta", delta=_stop(answer), usage=_usage(answer))
    tell("message_stop")
    return told


def _frame(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}


def _stop(answer: Reply) -> dict[str, Any]:
    calls = any(isinstance(part, Call) for part in answer.parts)
    reason = _FINISHES.get(answer.finish) or ("tool_use" if calls else "end_turn")
    stop: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
    if answer.finish == "refusal":
        stop["stop_details"] = {"type": "refusal", "category": "other", "explanation": answer.refusal}
    return stop


def _usage(answer: Reply) -> dict[str, Any]:
    """Its ``input_tokens`` are those that no cache had."""
    return {
        "input_tokens": answer.tokens_in - answer.cached,
        "cache_read_input_tokens": answer.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": answer.tokens_out,
    }


def _block(at: int, part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text, "citations": None}
        case Think():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case Call():
            given = part.arguments if isinstance(part.arguments, dict) else {}
            return {"type": "tool_use", "id": part.id or f"toolu_{at}", "name": part.tool, "input": given}


def _streamed(part: Part, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match part:
        case Text():
            words = part.text.split(" ")
            pieces = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case Think():
            deltas = [
                {"type": "thinking_delta", "thinking": part.text},
                {"type": "signature_delta", "signature": part.signature},
            ]
            return {**block, "thinking": "", "signature": ""}, deltas
        case Call():
            given = part.arguments if isinstance(part.arguments, str) else json.dumps(part.arguments)
            pieces = [given[at : at + 8] for at in range(0, len(given), 8)]
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces
            ]
