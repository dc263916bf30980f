"""How a question that an agent answered is told: the answer first, then what proves it and what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
from mcp.types import ImageContent

from cellwright.errors import UnknownCell, UnknownExecution, UnknownSession
from cellwright.mcp.calls import Call
from cellwright.mcp.delegates import DelegatedRun, Result, Spent
from cellwright.mcp.images import MAX_PICTURES, picture_content
from cellwright.mcp.outputs import clean, parts_of
from cellwright.mcp.uris import read_address
from cellwright.sandbox.listing import quoted_path

__all__ = ["errand_json", "errand_text", "pictures", "spent_text"]

_MOST_FILES = 20
_MOST_NUMBERS = 20
_THOUSAND = 1_000


def errand_text(run: DelegatedRun) -> str:
    """A run in words; of one that goes on, how to go on waiting."""
    if run.result is None:
        return f"run {run.id} | {run.brief()}\nStill running: ask(run_id='{run.id}') to go on waiting"
    return "\n".join(clean(line) for line in _lines(run.result))


def _lines(result: Result) -> Iterator[str]:
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
        more = f", … {len(result.files) - _MOST_FILES} more" if len(result.files) > _MOST_FILES else ""
        yield f"files: {', '.join(map(quoted_path, result.files[:_MOST_FILES]))}{more}"
    if result.untraced:
        yield f"no output has these numbers of the answer: {', '.join(result.untraced[:_MOST_NUMBERS])}"
    if result.report:
        yield result.report


def _facts(result: Result) -> Iterator[str]:
    yield f"run {result.run_id}"
    yield f"conversation {result.conversation_id}"
    yield "ok" if result.ok else "stopped"
    if result.verified is not None:
        yield "verified" if result.verified else "not verified"
    yield result.pattern + (f" ({result.why})" if result.why else "")
    yield spent_text(result.usage, result.steps, result.seconds)
    if result.models:
        yield ", ".join(result.models)


def spent_text(usage: Spent, steps: int, seconds: float) -> str:
    """What a run took, in a line."""
    cached = f" ({_short(usage.cached)} cached)" if usage.cached else ""
    tokens = f"{_short(usage.tokens_in)}{cached} + {_short(usage.tokens_out)} tokens"
    requests = f"{steps} request{'s' if steps != 1 else ''}"
    return f"{requests}, {tokens}, ${usage.money:.4f}, {seconds:.0f} s"


def _short(tokens: int) -> str:
    return f"{tokens / _THOUSAND:.1f}k" if tokens >= _THOUSAND else str(tokens)


def errand_json(run: DelegatedRun) -> dict[str, Any]:
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
