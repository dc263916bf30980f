"""The three ways a model is spoken to: Anthropic Messages, OpenAI Responses, Gemini generateContent.

Pure translation: which tools a request offers, what its tool results show the model, and how a step of the script is
said. Knows no sockets (see scripted) and no client's options (see launching).
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

SERVER_NAME = "cellwright"
"""The name that every client registers the MCP server under: it becomes a part of the tools' names."""

TOOL_SEARCH = "ToolSearch"
"""Claude Code's own tool, by which a model finds those of servers: no step of a script."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a model reads of one tool's result."""

    text: str
    images: list[bytes]


@dataclass(frozen=True, slots=True)
class Say:
    """A final text."""

    text: str


@dataclass(frozen=True, slots=True)
class Invoke:
    """A tool call, whose arguments are known."""

    tool: ToolName
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolName:
    """How a client names a tool to the model."""

    name: str
    namespace: str | None = None

    def means(self, tool: str) -> bool:
        """Whether this is that tool of our server, under the prefix that the client gave it."""
        full = self.name if self.namespace is None else f"{self.namespace}__{self.name}"
        # Claude Code names a plugin's server after the plugin, too.
        in_plugin = f"mcp__plugin_{SERVER_NAME}_{SERVER_NAME}__{tool}"
        return full in {f"mcp__{SERVER_NAME}__{tool}", f"mcp_{SERVER_NAME}_{tool}", in_plugin}


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an HTTP response, and its type."""

    content_type: str
    body: bytes

    @classmethod
    def as_json(cls, value: Json) -> Answer:
        return cls("application/json", json.dumps(value).encode())


class Wire(Protocol):
    """One provider's protocol."""

    def asks_model(self, path: str) -> bool:
        """Whether a request to this path is a turn of a conversation."""
        ...

    def tools(self, body: Json) -> list[ToolName]:
        """Every tool that the request offers to the model."""
        ...

    def results(self, body: Json) -> list[Seen]:
        """Every tool result in the conversation, oldest first."""
        ...

    def answer(self, path: str, body: Json, step: Say | Invoke) -> Answer:
        """Say one thing, streamed where the request wants it so."""
        ...


class Anthropic:
    """Messages, streamed as server-sent events."""

    def asks_model(self, path: str) -> bool:
        return path.endswith("/messages")

    def tools(self, body: Json) -> list[ToolName]:
        return [ToolName(tool["name"]) for tool in body.get("tools", ())]

    def results(self, body: Json) -> list[Seen]:
        blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
        searches = {block["id"] for block in blocks if block.get("name") == TOOL_SEARCH}
        results = (block for block in blocks if block["type"] == "tool_result")
        return [self._seen(block) for block in results if block["tool_use_id"] not in searches]

    def answer(self, path: str, body: Json, step: Say | Invoke) -> Answer:
        del path
        match step:
            case Say(text):
                block: Json = {"type": "text", "text": text}
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": text}
            case Invoke(tool, arguments):
                block = {"type": "tool_use", "id": _fresh("toolu"), "name": tool.name, "input": arguments}
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        ending = {"stop_reason": "end_turn" if isinstance(step, Say) else "tool_use", "stop_sequence": None}
        message = {"id": _fresh("msg"), "type": "message", "role": "assistant", "model": body["model"]}
        usage = {"usage": {"input_tokens": 1, "output_tokens": 1}}
        if not body.get("stream"):
            return Answer.as_json({**message, "content": [block], **ending, **usage})
        unfinished = {**message, "content": [], "stop_reason": None, "stop_sequence": None, **usage}
        return _events(
            {"type": "message_start", "message": unfinished},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )

    def _seen(self, result: Json) -> Seen:
        parts = _blocks(result.get("content", ()))
        return Seen(
            text="\n".join(part["text"] for part in parts if part["type"] == "text"),
            images=[base64.b64decode(part["source"]["data"]) for part in parts if part["type"] == "image"],
        )


class OpenAI:
    """Responses, streamed as server-sent events."""

    def asks_model(self, path: str) -> bool:
        return path.endswith("/responses")

    def tools(self, body: Json) -> list[ToolName]:
        return list(self._tools(body))

    def _tools(self, body: Json) -> Iterator[ToolName]:
        for tool in body.get("tools", ()):
            if tool["type"] == "namespace":
                yield from (ToolName(inner["name"], namespace=tool["name"]) for inner in tool["tools"])
            elif "name" in tool:
                yield ToolName(tool["name"])

    def results(self, body: Json) -> list[Seen]:
        return [
            self._seen(item["output"]) for item in body["input"] if item["type"] == "function_call_output"
        ]

    def answer(self, path: str, body: Json, step: Say | Invoke) -> Answer:
        del path, body
        match step:
            case Say(text):
                content = [{"type": "output_text", "text": text}]
                item: Json = {"type": "message", "role": "assistant", "id": _fresh("msg"), "content": content}
            case Invoke(tool, arguments):
                item = {
                    "type": "function_call",
                    "id": _fresh("fc"),
                    "call_id": _fresh("call"),
                    "name": tool.name,
                    "arguments": json.dumps(arguments),
                    **({"namespace": tool.namespace} if tool.namespace else {}),
                }
        response = _fresh("resp")
        usage = {
            "input_tokens": 1,
            "input_tokens_details": None,
            "output_tokens": 1,
            "output_tokens_details": None,
            "total_tokens": 2,
        }
        return _events(
            {"type": "response.created", "response": {"id": response}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": response, "usage": usage}},
        )

    def _seen(self, output: str | list[Json]) -> Seen:
        parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
        return Seen(
            text="\n".join(part["text"] for part in parts if part["type"] == "input_text"),
            images=[_data_url(part["image_url"]) for part in parts if part["type"] == "input_image"],
        )


class Gemini:
    """generateContent, and streamGenerateContent as server-sent events."""

    def asks_model(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def tools(self, body: Json) -> list[ToolName]:
        declared = (
            declared for tool in body.get("tools", ()) for declared in tool.get("functionDeclarations", ())
        )
        return [ToolName(function["name"]) for function in declared]

    def results(self, body: Json) -> list[Seen]:
        seen = []
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionResponse" in part:
                    seen.append(self._seen(part["functionResponse"]))
                elif "inlineData" in part and seen:
                    # The picture stands beside the result that it belongs to.
                    seen[-1].images.append(base64.b64decode(part["inlineData"]["data"]))
        return seen

    def answer(self, path: str, body: Json, step: Say | Invoke) -> Answer:
        del body
        match step:
            case Say(text):
                part: Json = {"text": text}
            case Invoke(tool, arguments):
                part = {"functionCall": {"name": tool.name, "args": arguments}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        response = {"candidates": [candidate], "usageMetadata": usage}
        return _events(response) if path.endswith(":streamGenerateContent") else Answer.as_json(response)

    def _seen(self, function_response: Json) -> Seen:
        response = function_response["response"]
        return Seen(text=str(response.get("output", response)), images=[])


WIRES: tuple[Wire, ...] = (Anthropic(), OpenAI(), Gemini())


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _data_url(url: str) -> bytes:
    return base64.b64decode(url.partition(";base64,")[2])


def _events(*events: Json) -> Answer:
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    lines = (f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True))
    return Answer("text/event-stream", "".join(lines).encode())


def _fresh(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
