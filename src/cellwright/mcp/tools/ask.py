"""The tool that hands a question over to an agent of our own, and waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from mcp.types import ImageContent, ToolAnnotations
from pydantic import Field

from cellwright.delegation import AgentRequest, Delegate, DelegatedRun, Outcome, Usage
from cellwright.errors import (
    AgentError,
    CellwrightError,
    NoAgent,
    UnknownCell,
    UnknownExecution,
    UnknownSession,
)
from cellwright.mcp._arguments import Arguments, ResponseFormat, SessionId, WaitS
from cellwright.mcp._waits import wait_for_agent
from cellwright.mcp.calls import Call, Definition, Reply, data_reply
from cellwright.mcp.outputs import MAX_PICTURES, clean, parts_of, picture_content, read_address
from cellwright.sandbox.files import quoted_path

__all__ = ["ASKING_TOOLS"]
_MAX_ID = 300

_MAX_NAMES = 2_000

_MAX_QUESTION = 200_000

_MOST_FILES = 100

_KEPT_BACK = ("verify", "about", "cancel", "stream", "since", "response_format")


class Ask(Arguments):
    question: str | None = Field(default=None, max_length=_MAX_QUESTION)
    data: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = Field(
        default=[], max_length=_MOST_FILES, description="Files"
    )
    pattern: str | None = Field(default=None, max_length=_MAX_ID)
    model: str | None = Field(default=None, max_length=_MAX_NAMES, description="client: your own")
    budget: str | None = Field(default=None, max_length=_MAX_ID, description="50k tokens, 0.5 usd, 90 s")
    session_id: SessionId = None
    conversation: str | None = Field(default=None, max_length=_MAX_ID, description="Goes on with it")
    run_id: str | None = Field(default=None, max_length=_MAX_ID, description="Wait for this one, start none")
    wait_s: WaitS = None
    verify: bool = Field(default=True, description="Verify the notebook at the end")
    about: Literal["conversations", "conversation", "trace", "forget"] | None = Field(
        default=None,
        description="Asks nothing, and gives conversations, one of them, a trace (by run_id), or deletes",
    )
    cancel: bool = Field(default=False, description="Stop the run that run_id names")
    stream: bool = Field(
        default=False, description="Progress is a JSON list of entries (began, heard, ended) after since"
    )
    since: int = Field(default=0, ge=0, description="The number of the last entry that was read")
    response_format: ResponseFormat = "text"


async def ask(call: Call, args: Ask) -> Reply:
    """Have Cellwright's own agent answer a question from data, with a notebook that proves it."""
    delegate = call.shared.delegate
    if delegate is None:
        raise NoAgent("This server has no agent", hint="Ask through `cellwright mcp` or `cellwright ask`")
    if args.about is not None:
        return data_reply(await _about(delegate, args), call)
    try:
        run = delegate.run(args.run_id) if args.run_id is not None else await _begun(call, delegate, args)
    except AgentError as error:
        if args.response_format == "text":
            raise
        return data_reply(_failed(error), call)
    if args.cancel:
        await run.cancel()
    else:
        await wait_for_agent(call, run, wait_s=args.wait_s, stream=args.stream, since=args.since)
    return await _reply(call, run, args)


async def _begun(call: Call, delegate: Delegate, args: Ask) -> DelegatedRun:
    question = (args.question or "").strip()
    if not question:
        raise AgentError("There is no question", hint="Call ask(question='…'), or with the run_id of one")
    session = call.session(args.session_id).id if args.session_id is not None else None
    grants = call.client.grants
    request = AgentRequest(
        question,
        data=tuple([await _data_file(call, named) for named in args.data]),
        pattern=args.pattern,
        models=_models(call, args.model or ""),
        budget=args.budget,
        session_id=session,
        conversation_id=args.conversation,
        directory=call.root,
        environment=grants.environment,
        servers=grants.servers,
        verify=args.verify,
        client=call.caller.session,
    )
    # Shielded: a call that is cancelled meanwhile must know what to stop.
    with anyio.CancelScope(shield=True):
        run = await delegate.begin(request)
    return run  # noqa: RET504  # a scope may end early, as far as a type checker knows


def _models(call: Call, named: str) -> tuple[str, ...]:
    """The models that the caller names. Where one is, only a person or the settings say: a key goes there, and the data."""
    models = tuple(name.strip() for name in named.split(",") if name.strip())
    settings = call.engine.settings
    served = {row.url for row in settings.model_rows.values() if row.url is not None}
    for name in models:
        elsewhere = name.lower().startswith(("http:", "https:", "local:"))
        known = name in call.client.grants.models or name in settings.models
        if elsewhere and not known and name.partition("#")[0] not in served:
            raise AgentError(
                f"The model {name} is nobody's choice but the user's",
                hint="Have it put into `models` of the settings, or asked with `cellwright ask --model`",
            )
    return models


async def _data_file(call: Call, named: str) -> Path:
    """A file that the caller names: one that its person gave along, or one of the directories that it may read."""
    given = await anyio.Path(call.root / named).resolve()
    path = Path(given) if Path(given) in call.client.grants.files else call.path(named)
    if not await anyio.Path(path).is_file():
        raise AgentError(f"There is no file {named}", hint=f"Paths begin at {call.root}")
    return path


async def _about(delegate: Delegate, args: Ask) -> dict[str, Any]:
    match args.about:
        case "conversations":
            return {"conversations": await delegate.conversations()}
        case "trace":
            return await delegate.trace(args.run_id or "")
        case "forget":
            await delegate.forget(args.conversation or "")
            return {"forgotten": args.conversation}
        case _:
            return await delegate.conversation(args.conversation or "")


async def _reply(call: Call, run: DelegatedRun, args: Ask) -> Reply:
    if run.failure is not None and args.response_format == "text":
        raise run.failure
    if run.result is not None and run.result.session_id is not None:
        call.client.worked_with(run.result.session_id)
    if args.response_format == "json":
        failed = _failed(run.failure) if run.failure is not None else {}
        return data_reply(run_json(run) | failed, call)
    return Reply(run_text(run), await pictures(call, run.result.charts if run.result is not None else ()))


def _failed(error: CellwrightError) -> dict[str, Any]:
    return {"status": "failed", "code": error.code, "message": error.message, "hint": error.hint}


# It runs code, asks models elsewhere, and may be told to ask servers that it knows nothing of.
_ASKS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)

ASKING_TOOLS = (Definition(ask, Ask, _ASKS, asks_for=("question",), keeps_back=_KEPT_BACK),)


# How a question that an agent answered is told: the answer first, then what proves it and what it took.

_MOST_FILES_SHOWN = 20

_MOST_NUMBERS = 20

_THOUSAND = 1_000


def run_text(run: DelegatedRun) -> str:
    """A run in words; of one that goes on, how to go on waiting."""
    if run.result is None:
        return f"run {run.id} | {run.brief()}\nStill running: ask(run_id='{run.id}') to go on waiting"
    return "\n".join(clean(line) for line in _lines(run.result))


def _lines(result: Outcome) -> Iterator[str]:
    yield result.answer if result.answer.strip() else "There is no answer"
    yield ""
    yield " | ".join(_facts(result))
    if result.notebook is not None:
        yield f"notebook: {result.notebook}"
    if result.session_id is not None:
        yield f"session_id: {result.session_id}"
    if result.charts:
        yield f"charts: {', '.join(result.charts)}"
    if result.files:
        more = (
            f", … {len(result.files) - _MOST_FILES_SHOWN} more"
            if len(result.files) > _MOST_FILES_SHOWN
            else ""
        )
        yield f"files: {', '.join(map(quoted_path, result.files[:_MOST_FILES_SHOWN]))}{more}"
    if result.untraced:
        yield f"no output has these numbers of the answer: {', '.join(result.untraced[:_MOST_NUMBERS])}"
    if result.report:
        yield result.report


def _facts(result: Outcome) -> Iterator[str]:
    yield f"run {result.run_id}"
    yield f"conversation {result.conversation_id}"
    yield "ok" if result.ok else "stopped"
    if result.verified is not None:
        yield "verified" if result.verified else "not verified"
    yield result.pattern + (f" ({result.why})" if result.why else "")
    yield spent_text(result.usage, result.steps, result.seconds)
    if result.models:
        yield ", ".join(result.models)


def spent_text(usage: Usage, steps: int, seconds: float) -> str:
    """What a run took, in a line."""
    cached = f" ({_short(usage.cached)} cached)" if usage.cached else ""
    tokens = f"{_short(usage.tokens_in)}{cached} + {_short(usage.tokens_out)} tokens"
    requests = f"{steps} request{'s' if steps != 1 else ''}"
    return f"{requests}, {tokens}, ${usage.money:.4f}, {seconds:.0f} s"


def _short(tokens: int) -> str:
    return f"{tokens / _THOUSAND:.1f}k" if tokens >= _THOUSAND else str(tokens)


def run_json(run: DelegatedRun) -> dict[str, Any]:
    """A run as data."""
    result = run.result
    if result is None:
        about = {"status": "running", "run_id": run.id, "doing": run.brief()}
        return about | ({"conversation": run.conversation_id} if run.conversation_id is not None else {})
    return {
        "status": "ok" if result.ok else "stopped",
        "answer": result.answer,
        "run_id": result.run_id,
        "conversation": result.conversation_id,
        "session_id": result.session_id,
        "notebook": str(result.notebook) if result.notebook is not None else None,
        "charts": list(result.charts),
        "files": list(result.files),
        "verified": result.verified,
        "untraced": list(result.untraced),
        "report": result.report,
        "pattern": result.pattern,
        "why": result.why,
        "models": list(result.models),
        "requests": result.steps,
        "tokens_in": result.usage.tokens_in,
        "tokens_out": result.usage.tokens_out,
        "tokens_cached": result.usage.cached,
        "usd": round(result.usage.money, 6),
        "seconds": round(result.seconds, 3),
    }


async def pictures(call: Call, uris: Sequence[str]) -> tuple[ImageContent, ...]:
    """The first charts as a reply carries them; one that is gone is left out."""
    drawn = [found for uri in uris if (found := _drawn(call, uri)) is not None][:MAX_PICTURES]
    pixels = call.engine.settings.image_pixels

    def scaled() -> list[ImageContent | None]:
        return [picture_content(data, mime, max_pixels=pixels) for data, mime in drawn]

    images = await anyio.to_thread.run_sync(scaled) if drawn else []
    return tuple(image for image in images if image is not None)


def _drawn(call: Call, uri: str) -> tuple[str, str] | None:
    address = read_address(uri)
    if address is None or address.view not in {"cell", "execution"}:
        return None
    outputs: Sequence[Mapping[str, Any]]
    try:
        if address.view == "cell":
            outputs = call.engine.session(address.session_id).cell(address.item).outputs
        else:
            outputs = call.engine.execution(address.item).outputs
    except (UnknownSession, UnknownCell, UnknownExecution):
        return None
    part = next((part for part in parts_of(outputs) if part.index == address.index), None)
    return (part.picture, part.mime) if part is not None and part.picture is not None else None
