"""Google's Gemini API."""

from __future__ import annotations

from typing import Any

from tests.support.agent.wires.replies import Call, Fault, Part, Reply, Text, Think

CUT_AFTER = 1
_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def fault(answer: Fault) -> dict[str, Any]:
    status = _STATUSES.get(answer.status, "INTERNAL")
    return {"error": {"code": answer.status, "message": answer.message, "status": status}}


def whole(answer: Reply, body: dict[str, Any]) -> dict[str, Any]:  # as the other formats have it
    return _chunk(answer, _signed(answer, streamed=False), last=True)


def events(answer: Reply, body: dict[str, Any]) -> list[tuple[str | None, Any]]:  # as above
    pieces = _signed(answer, streamed=True)
    told = [(None, _chunk(answer, [piece], last=False)) for piece in pieces[:-1]]
    return [*told, (None, _chunk(answer, pieces[-1:], last=True))]


def _chunk(answer: Reply, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if last:
        candidate["finishReason"] = _FINISHES[answer.finish]
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": answer.tokens_in,
            "cachedContentTokenCount": answer.cached,
            "candidatesTokenCount": answer.tokens_out,
            "totalTokenCount": answer.tokens_in + answer.tokens_out,
        },
        "modelVersion": "gemini",
        "responseId": "r1",
    }


def _signed(answer: Reply, *, streamed: bool) -> list[dict[str, Any]]:
    """The signature of a thought stands on the part behind it."""
    pieces: list[dict[str, Any]] = []
    signature = None
    for at, part in enumerate(answer.parts):
        new = _parts(at, part, streamed=streamed)
        if signature is not None:
            new[0]["thoughtSignature"] = signature
        signature = part.signature if isinstance(part, Think) else None
        pieces += new
    return pieces


def _parts(at: int, part: Part, *, streamed: bool) -> list[dict[str, Any]]:
    match part:
        case Text():
            words = part.text.split(" ") if streamed else [part.text]
            return [{"text": word if place == 0 else f" {word}"} for place, word in enumerate(words)]
        case Think():
            return [{"text": part.text, "thought": True}]
        case Call():
            given = part.arguments if isinstance(part.arguments, dict) else {"arguments": part.arguments}
            return [{"functionCall": {"id": part.id or f"fc_{at}", "name": part.tool, "args": given}}]
