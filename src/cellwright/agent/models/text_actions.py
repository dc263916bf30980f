"""The dialect of text actions: how a model without tools is told of them, and how what it writes becomes a call.

Pure. What was called and what came of it is told as plain turns, message by message, so that a longer history begins
with the text of a shorter one. One action a reply: the first. What a model writes after it was written before anything
had run, and is left out. How a reply is searched for an action is in ``_action_parser``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models._action_parser import RUN_TOOL, Call, Misread, code_tool, first_action
from cellwright.agent.models.requests import RequestParams, schema_in_words, text_of

__all__ = ["Turn", "estimated_tokens", "instructions", "problem", "read", "spoken", "told", "written"]

_ticks = re.compile(r"`+")

_thought = re.compile(r"^\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)

_LEAST_TICKS = 3

_MOST_SAID = 160

_UNSEEN = "[a picture, which you cannot see]"

_SILENT = "(nothing)"


def told(
    messages: Sequence[ModelMessage], want: RequestParams, *, brief: bool = False, pictures: bool = True
) -> list[ModelMessage]:
    """The messages as a model without tools can read them, one for one.

    ``brief`` is for a very small model, which loses its way among many rules: it is told of the block of code, and of
    nothing else. Without ``pictures`` a line stands where one was.
    """
    rules = instructions(want, brief=brief)
    return [
        _told_response(message)
        if isinstance(message, ModelResponse)
        else _told_request(_bare(message) if brief else message, rules, pictures=pictures)
        for message in messages
    ]


def read(response: ModelResponse, want: RequestParams) -> ModelResponse:
    """The reply with its first action as a call. A reply without one is an answer, and stays as it is."""
    response = _thoughts_apart(response)
    if _calls(response) or not want.tools:
        return response
    found = first_action(text_of(response), want.tools)
    if not isinstance(found, Call):
        return response
    parts: list[ModelResponsePart] = [part for part in response.parts if not isinstance(part, TextPart)]
    if found.before:
        parts.append(TextPart(found.before))
    parts.append(ToolCallPart(found.tool, found.arguments))
    return replace(response, parts=parts, finish_reason="tool_call")


def problem(response: ModelResponse, want: RequestParams) -> str | None:
    """What to tell the model about a reply that ``read`` could not make out; None where there is nothing to say."""
    if _calls(response):
        return None
    text = text_of(response)
    if not text:
        return f"Your reply was empty. {_how(want)}"
    found = first_action(text, want.tools) if want.tools else None
    return f"Your action could not be read: {found.why}. {_how(want)}" if isinstance(found, Misread) else None


def written(call: ToolCallPart) -> str:
    """A call as the model would have written it."""
    arguments = call.args_as_dict()
    code = arguments.get("code")
    if call.tool_name == RUN_TOOL and len(arguments) == 1 and isinstance(code, str) and code.strip():
        return _fenced("python", code)
    return _fenced("action", _json({"tool": call.tool_name, "arguments": arguments}))


def instructions(want: RequestParams, *, brief: bool = False) -> str:
    """What a model is told of its tools, and of the answer's shape."""
    parts: list[str] = []
    coded = code_tool(want.tools)
    if coded is not None and brief:
        parts.append(_BRIEF)
    elif want.tools:
        parts.append(_RULES)
        if coded is not None:
            parts.append(f"This runs code in the notebook:\n{_fenced('python', 'print(6 * 7)')}")
        parts.append(f"This calls a tool:\n{_example(want.tools)}")
        parts.append("\n".join(["Tools (? may be left out):", *map(_line, want.tools)]))
        parts.append(_END)
    if want.shape is not None:
        parts.append(f"{'When you are done: ' if want.tools else ''}{schema_in_words(want.shape)}")
    return "\n\n".join(parts)


_RULES = """\
You cannot call functions. Write an action instead, one in a reply, and stop after it: its result is the next message."""

_END = """\
Once a result has shown the answer, write it in plain words, without a block. Never make up a result."""

_BRIEF = """\
You answer questions about data with Python. Write one block of code that prints the answer, and stop. Examples:

What is the mean of the column height in people.csv?

```python
import pandas as pd
df = pd.read_csv("people.csv")
print(df["height"].mean())
```

How many rows does people.csv have?

```python
import pandas as pd
df = pd.read_csv("people.csv")
print(len(df))
```

Once you are told what it printed, answer in one sentence, without code."""

# The history ----------------------------------------------------------------------------------------------------------


def _bare(request: ModelRequest) -> ModelRequest:
    parts = [part for part in request.parts if not isinstance(part, SystemPromptPart)]
    return replace(request, parts=parts, instructions=None)


def _told_request(request: ModelRequest, rules: str, *, pictures: bool) -> ModelRequest:
    system: list[ModelRequestPart] = [part for part in request.parts if isinstance(part, SystemPromptPart)]
    content: list[UserContent] = []
    for part in request.parts:
        content += _user_content(part)
    if not pictures:
        content = [item if isinstance(item, str) else _UNSEEN for item in content]
    said: str | list[UserContent] = _joined(content)
    whole = "\n\n".join(filter(None, [request.instructions, rules])) or None
    prompt = UserPromptPart(said, timestamp=_when(request))
    return replace(request, parts=[*system, prompt] if said else system, instructions=whole)


def _when(request: ModelRequest) -> datetime:
    """The time is the message's, not today's: the same history is told the same."""
    times = [request.timestamp, *(getattr(part, "timestamp", None) for part in request.parts)]
    return next((time for time in times if time is not None), datetime.fromtimestamp(0, UTC))


def _user_content(part: ModelRequestPart) -> list[UserContent]:
    if isinstance(part, UserPromptPart):
        return [part.content] if isinstance(part.content, str) else list(part.content)
    if isinstance(part, ToolReturnPart):
        how = "Result" if part.outcome == "success" else "Error"
        result = part.model_response_str(wrap_if_error=False) or _SILENT
        files = [file for file in part.files if isinstance(file, BinaryContent)]
        return [f"{how} of {part.tool_name}:\n{result}", *files]
    if isinstance(part, RetryFeedbackPart):
        return [part.content if isinstance(part.content, str) else _json(part.content)]
    return []


def _joined(content: Sequence[UserContent]) -> str | list[UserContent]:
    if all(isinstance(item, str) for item in content):
        return "\n\n".join(item for item in content if isinstance(item, str) and item)
    return list(content)


def _told_response(response: ModelResponse) -> ModelResponse:
    said = [part.content.strip() for part in response.parts if isinstance(part, TextPart)]
    said += [written(part) for part in _calls(response)]
    return replace(response, parts=[TextPart("\n\n".join(filter(None, said)) or _SILENT)])


def _calls(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _thoughts_apart(response: ModelResponse) -> ModelResponse:
    """What small models think aloud is no part of what they say."""
    text = text_of(response)
    thought = _thought.match(text)
    if thought is None:
        return response
    others = [part for part in response.parts if not isinstance(part, TextPart)]
    return replace(
        response, parts=[ThinkingPart(thought[1].strip()), TextPart(text[thought.end() :].strip()), *others]
    )


# The words ------------------------------------------------------------------------------------------------------------


def _how(want: RequestParams) -> str:
    if not want.tools:
        return schema_in_words(want.shape) if want.shape is not None else "Answer in words."
    code = f"{_fenced('python', '…')}\nor " if code_tool(want.tools) is not None else ""
    return f"Write one action and nothing after it:\n{code}{_example(want.tools)}"


def _example(tools: Sequence[ToolDefinition]) -> str:
    coded = code_tool(tools)
    shown = next((tool for tool in tools if coded is None or tool.name != coded.name), tools[0])
    return _fenced("action", _json({"tool": shown.name, "arguments": dict.fromkeys(_required(shown), "…")}))


def _line(tool: ToolDefinition) -> str:
    schema = tool.parameters_json_schema
    needed = _required(tool)
    named = [
        f"{name}{'' if name in needed else '?'}: {_kind(about)}"
        for name, about in sorted(
            schema.get("properties", {}).items(), key=lambda item: item[0] not in needed
        )
    ]
    about = " ".join((tool.description or "").split())
    if len(about) > _MOST_SAID:
        about = f"{about[: _MOST_SAID - 1]}…"
    return f"- {tool.name}({', '.join(named)}) {about}".rstrip()


def _required(tool: ToolDefinition) -> list[str]:
    return list(tool.parameters_json_schema.get("required", []))


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return _kind(option)
    return str(schema.get("type", "object" if "$ref" in schema else "any"))


def _fenced(label: str, body: str) -> str:
    longest = max((len(run) for run in _ticks.findall(body)), default=0)
    ticks = "`" * max(_LEAST_TICKS, longest + 1)
    return f"{ticks}{label}\n{body}\n{ticks}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# A conversation as plain turns, for those who only know a system prompt and who said what. Pure.

_CHARACTERS_PER_TOKEN = 4

_TOKENS_PER_PICTURE = 1_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said before the other did."""

    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[BinaryContent, ...] = ()


def spoken(messages: Sequence[ModelMessage]) -> tuple[str, list[Turn]]:
    """The system prompt, and turns that alternate."""
    system: list[str] = []
    turns: list[Turn] = []
    rules = ""
    for message in messages:
        if isinstance(message, ModelRequest):
            rules = message.instructions or rules
            system += [part.content for part in message.parts if isinstance(part, SystemPromptPart)]
        turn = _turn(message)
        if turns and turns[-1].role == turn.role:
            last = turns.pop()
            text = "\n\n".join(filter(None, [last.text, turn.text]))
            turn = Turn(turn.role, text, (*last.pictures, *turn.pictures))
        if turn.text or turn.pictures:
            turns.append(turn)
    return "\n\n".join(filter(None, [*system, rules])), turns


def estimated_tokens(system: str, turns: Sequence[Turn]) -> int:
    """About how many tokens this is, for whoever is not told."""
    characters = len(system) + sum(len(turn.text) for turn in turns)
    pictures = sum(len(turn.pictures) for turn in turns)
    return -(-characters // _CHARACTERS_PER_TOKEN) + pictures * _TOKENS_PER_PICTURE


def _turn(message: ModelMessage) -> Turn:
    if isinstance(message, ModelResponse):
        return Turn(
            "assistant", "".join(part.content for part in message.parts if isinstance(part, TextPart))
        )
    texts: list[str] = []
    pictures: list[BinaryContent] = []
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            texts += [item for item in content if isinstance(item, str)]
            pictures += [item for item in content if isinstance(item, BinaryContent)]
    return Turn("user", "\n\n".join(filter(None, texts)), tuple(pictures))
