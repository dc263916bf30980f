"""One-shot tools that run code: a script, once, in a directory of its own or one that lasts."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Annotated, Any, Literal

import anyio
from mcp import MCPDeprecationWarning
from mcp.types import LOG_LEVEL_META_KEY, ImageContent, ToolAnnotations
from pydantic import Field

from cellwright.mcp.arguments import Arguments, Content, MaxTokens, ResponseFormat
from cellwright.mcp.budget import CHARACTERS_PER_TOKEN, cut_middle, share
from cellwright.mcp.calls import Call, Definition, Reply, data_reply
from cellwright.mcp.images import MAX_PICTURES, picture_content
from cellwright.mcp.outputs import size
from cellwright.mcp.waiting import done_with_progress
from cellwright.sandbox.listing import quoted_path
from cellwright.settings import Settings
from cellwright.tools.data_directory import RUNS, Shelf
from cellwright.tools.scripts import RunResult, run_script
from cellwright.tools.web.file_names import numbered

__all__ = ["RUN_TOOLS"]

_DEFAULT_TOKENS = 2_000
_FILES_IN_TEXT = 20
_LAST_LINE = 200
RUNS_CODE = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
_KEPT_BACK = ("argv", "stream", "response_format", "max_tokens")


class Execute(Arguments):
    code: Content
    packages: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(default=[], max_length=50)
    working_dir: str | None = Field(
        default=None,
        alias="workingDir",
        max_length=1_000,
        description="In the data directory, lasts; default: fresh",
    )
    timeout: float | None = Field(default=None, gt=0, description="s")
    argv: list[str] = Field(default=[], max_length=1_000)
    stream: bool = False
    """Whether progress is told as what the script puts out, each piece as JSON."""
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None

    @classmethod
    def operators_defaults(cls, settings: Settings) -> Mapping[str, Any]:
        return {"timeout": settings.run_timeout_s}


class ExecuteNode(Execute):
    language: Literal["typescript", "javascript"] = "typescript"


async def python_execute(call: Call, args: Execute) -> Reply:
    """Run a Python script once, apart from notebooks. Gives stdout, stderr, returnCode, files; draws visualization_manifest.json."""
    return await _execute(call, args, "python")


async def node_execute(call: Call, args: ExecuteNode) -> Reply:
    """The same for TypeScript and JavaScript, on Deno."""
    return await _execute(call, args, args.language)


async def _execute(call: Call, args: Execute, language: str) -> Reply:
    follower = _Follower(call, stream=args.stream)
    run = partial(
        run_script,
        call.engine,
        args.code,
        language=language,
        packages=args.packages,
        working_dir=args.working_dir,
        timeout_s=args.timeout,
        argv=args.argv,
        directory=call.root,
        on_output=follower.hear,
    )
    result = await done_with_progress(call, run, say=follower.say)
    if result.files:
        call.data_changed(*(file.path for file in result.files))
    if args.response_format == "json":
        return data_reply(result_json(result), call)
    texts = await _bounded(call, result, args.max_tokens or _DEFAULT_TOKENS)
    return Reply(_result_text(result, texts), await _pictures(call, result))


class _Follower:
    """Tells a client what a script puts out, in the way that it can hear it."""

    def __init__(self, call: Call, *, stream: bool) -> None:
        self._call = call
        self._stream = stream
        self._logs = LOG_LEVEL_META_KEY in (call.context.request_context.meta or {})
        self._last = ""
        self._count = 0

    def say(self) -> str:
        """What it said last, for a line of progress."""
        return "" if self._stream else self._last

    async def hear(self, name: str, text: str) -> None:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        self._last = lines[-1][:_LAST_LINE] if lines else self._last
        if self._stream:
            self._count += 1
            piece = json.dumps({"name": name, "text": text}, ensure_ascii=False)
            await self._call.context.report_progress(self._count * 1e-6, message=piece)
        if self._logs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                session = self._call.context.session
                sending = session.send_log_message(
                    "debug", {"stream": name, "text": text}, logger="cellwright"
                )
            await sending


def result_json(result: RunResult) -> dict[str, Any]:
    """A result by the names that callers of such tools expect."""
    about: dict[str, Any] = {
        "success": result.success,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "returnCode": result.return_code,
        "files": [
            {"filename": file.filename, "path": file.path, "type": file.type, "size": file.size}
            for file in result.files
        ],
        "visualizations": _visualizations(result),
        "executionTime": round(result.seconds * 1_000),
        "workingDir": result.directory,
    }
    more = {
        "moreFiles": result.more_files,
        "notKept": list(result.not_kept),
        "packages": list(result.packages),
    }
    return about | {key: value for key, value in more.items() if value}


def _visualizations(result: RunResult) -> dict[str, Any] | None:
    """The manifest, each of its outputs with what it shows."""
    if result.manifest is None:
        return None
    digests = {chart.id: chart.digest for chart in result.visualizations}
    outputs = result.manifest.get("outputs")
    told = [
        {**output, "digest": digests[output["id"]]}
        if isinstance(output, dict) and output.get("id") in digests
        else output
        for output in (outputs if isinstance(outputs, list) else [])
    ]
    return {**result.manifest, "outputs": told}


async def _bounded(call: Call, result: RunResult, max_tokens: int) -> dict[str, str]:
    """Both streams within a budget; what does not fit lies beside the run's files as a whole."""
    texts = {"stdout": result.stdout, "stderr": result.stderr}
    rooms = share([len(text) for text in texts.values()], max_tokens * CHARACTERS_PER_TOKEN)
    told: dict[str, str] = {}
    for (name, text), room in zip(texts.items(), rooms, strict=True):
        rest = ""
        if len(text) > room:
            shelf, directory = Shelf(call.engine.settings), f"{RUNS}/{result.id}"
            written = await anyio.to_thread.run_sync(_write, shelf, directory, f"{name}.txt", text)
            rest = f"{directory}/{written}"
        told[name] = cut_middle(text, room, rest=rest)
    return told


def _write(shelf: Shelf, directory: str, wanted: str, text: str) -> str:
    """Write a text under a name that none of the script's own files has, and tell the name."""
    names = (numbered(wanted, number) for number in count(1))
    with shelf.open(directory) as workdir:
        name = next(name for name in names if not workdir.exists(name))
        workdir.write(name, text.encode("utf-8", "replace"))
    return name


def _result_text(result: RunResult, texts: dict[str, str]) -> str:
    head = (
        f"success: {str(result.success).lower()} · returnCode: {result.return_code} · "
        f"executionTime: {result.seconds * 1_000:.0f} ms"
    )
    lines = [head]
    lines += [f"{name}:\n{text.rstrip()}" for name, text in texts.items() if text.strip()]
    files = [
        f"{quoted_path(file.path)} ({file.type}, {size(file.size)})" for file in result.files[:_FILES_IN_TEXT]
    ]
    more = len(result.files) - len(files) + result.more_files
    if files:
        lines.append(f"files: {', '.join(files)}" + (f", … {more} more" if more else ""))
    if result.not_kept:
        lines.append(f"not kept: {', '.join(result.not_kept[:_FILES_IN_TEXT])}")
    if result.dropped_bytes:
        lines.append(f"{result.dropped_bytes:,} bytes of output beyond max_output_bytes were dropped")
    lines += [f"visualization {chart.id}: {chart.digest}" for chart in result.visualizations]
    if lines == [head] and result.success:
        lines.append("no output: print what is to be seen, and save pictures as files")
    return "\n".join(lines)


async def _pictures(call: Call, result: RunResult) -> tuple[ImageContent, ...]:
    """Charts, and pictures that the script itself left, as far as a reply carries them."""
    drawn = [chart.data["image/png"] for chart in result.visualizations if "image/png" in chart.data]
    pixels = call.engine.settings.image_pixels

    def scaled() -> list[ImageContent | None]:
        left = [] if drawn else _left(Shelf(call.engine.settings), result)
        return [
            picture_content(data, "image/png", max_pixels=pixels) for data in (*drawn, *left)[:MAX_PICTURES]
        ]

    if not drawn and not any(file.type == "image" for file in result.files):
        return ()
    found = await anyio.to_thread.run_sync(scaled)
    return tuple(image for image in found if image is not None)


def _left(shelf: Shelf, result: RunResult) -> list[str]:
    with shelf.open() as data:
        pictures = [file.path for file in result.files if file.path.lower().endswith(".png")]
        return [base64.b64encode(data.read(path)).decode() for path in pictures[:MAX_PICTURES]]


RUN_TOOLS = (
    Definition(python_execute, Execute, RUNS_CODE, keeps_back=_KEPT_BACK),
    Definition(node_execute, ExecuteNode, RUNS_CODE, keeps_back=(*_KEPT_BACK, "language")),
)
