"""xAI's own protocol, with the messages of its SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from xai_sdk.proto import chat_pb2, chat_pb2_grpc, sample_pb2, usage_pb2

from tests.support.agent.wires.replies import Call, Fault, Garbled, Recorded, Reply, Text, Think
from tests.waiting import LIMIT_S

_STATUSES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
_FINISHES = {
    "stop": sample_pb2.FinishReason.REASON_STOP,
    "length": sample_pb2.FinishReason.REASON_MAX_LEN,
}


@contextmanager
def serving(script: Any) -> Iterator[int]:
    """Serve on some port of this machine."""

    class Chat(chat_pb2_grpc.ChatServicer):
        def GetCompletion(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's name
            *_, last = _answers(script, request, context)
            return last

        def GetCompletionChunk(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802  # as above
            yield from _answers(script, request, context)

    server = grpc.server(futures.ThreadPoolExecutor(4))
    chat_pb2_grpc.add_ChatServicer_to_server(Chat(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait(LIMIT_S)


def _answers(script: Any, request: Any, context: Any) -> Iterator[Any]:
    headers = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
    answer = script.next(Recorded("GetCompletionChunk", headers, request))
    match answer:
        case Fault():
            context.abort(_STATUSES.get(answer.status, grpc.StatusCode.INTERNAL), answer.message)
        case Garbled():
            context.abort(grpc.StatusCode.INTERNAL, "Exception deserializing response!")
        case Reply():
            yield from _chunks(answer, request, context)


def _chunks(answer: Reply, request: Any, context: Any) -> Iterator[Any]:
    deltas = list(_deltas(answer))
    if answer.cut != "no":
        yield _chunk(answer, request, deltas[0])
        if answer.cut == "broken":
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        return
    for delta in deltas:
        yield _chunk(answer, request, delta)
    finish = _FINISHES.get(answer.finish, sample_pb2.FinishReason.REASON_STOP)
    if answer.finish == "stop" and any(isinstance(part, Call) for part in answer.parts):
        finish = sample_pb2.FinishReason.REASON_TOOL_CALLS
    yield _chunk(answer, request, {}, finish)


def _chunk(answer: Reply, request: Any, delta: dict[str, Any], finish: Any = None) -> Any:
    said = chat_pb2.Delta(role=chat_pb2.MessageRole.ROLE_ASSISTANT, **delta)
    output = chat_pb2.CompletionOutputChunk(index=0, delta=said, finish_reason=finish)
    usage = usage_pb2.SamplingUsage(
        prompt_tokens=answer.tokens_in,
        cached_prompt_text_tokens=answer.cached,
        completion_tokens=answer.tokens_out,
        total_tokens=answer.tokens_in + answer.tokens_out,
    )
    return chat_pb2.GetChatCompletionChunk(id="grok_1", model=request.model, usage=usage, outputs=[output])


def _deltas(answer: Reply) -> Iterator[dict[str, Any]]:
    for at, part in enumerate(answer.parts):
        match part:
            case Text():
                for place, word in enumerate(part.text.split(" ")):
                    yield {"content": word if place == 0 else f" {word}"}
            case Think():
                yield {"reasoning_content": part.text}
                yield {"encrypted_content": part.signature}
            case Call():
                given = part.arguments if isinstance(part.arguments, str) else json.dumps(part.arguments)
                function = chat_pb2.FunctionCall(name=part.tool, arguments=given)
                kind = chat_pb2.ToolCallType.TOOL_CALL_TYPE_CLIENT_SIDE_TOOL
                yield {
                    "tool_calls": [
                        chat_pb2.ToolCall(id=part.id or f"call_{at}", type=kind, function=function)
                    ]
                }
