"""A step as JSON, and its messages. Pure: written by ``store``, put together again by ``export``."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pydantic_core
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from cellwright.agent.trace.steps import Step

__all__ = [
    "beginning",
    "decoded",
    "digest",
    "encoded",
    "jsonable",
    "messages_json",
    "record",
    "restored",
    "spilled",
]

_FILE = "$file"


def beginning(step: Step) -> dict[str, Any]:
    """What is known of a step when it begins."""
    return {
        "number": step.number,
        "kind": step.kind,
        "role": step.role,
        "pattern": step.pattern,
        "branch": step.branch,
        "began": step.began,
    }


def record(step: Step) -> dict[str, Any]:
    """All of a step that has ended, except for its prompt."""
    return beginning(step) | {
        "session_id": step.session_id,
        "state": "failed" if step.failed else "ok",
        "model": step.model,
        "reply": messages_json([step.reply])[0] if step.reply is not None else None,
        "tool": step.tool,
        "arguments": jsonable(step.arguments),
        "result": step.result,
        "pictures": step.pictures,
        "runs": [asdict(run) for run in step.runs],
        "usage": asdict(step.usage),
        "seconds": asdict(step.seconds),
        "took": step.took,
        "note": step.note,
        "error": step.error,
    }


def messages_json(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Messages as pydantic-ai writes them, pictures as base64."""
    dumped: list[dict[str, Any]] = json.loads(
        json.dumps(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))
    )
    return dumped


def jsonable(value: Any) -> Any:
    """Any value as JSON; what JSON has no word for as a text."""
    return _finite(pydantic_core.to_jsonable_python(value, fallback=str, bytes_mode="base64"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value


# Lines -----------------------------------------------------------------------------------------------------------


def encoded(value: Any) -> bytes:
    """One line of JSON, in UTF-8 that everybody can read, also where a text holds half a character."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decoded(line: bytes) -> dict[str, Any] | None:
    """A line as it was written; None where it is torn."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def digest(*parts: bytes) -> str:
    """A name for what these hold."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


# Large texts -----------------------------------------------------------------------------------------------------


def spilled(value: Any, keep: Callable[[str], str], *, longest: int) -> Any:
    """The value with each text that is longer replaced by the name that ``keep`` gives it."""
    if isinstance(value, str):
        return {_FILE: keep(value)} if len(value) > longest else value
    if isinstance(value, list):
        return [spilled(one, keep, longest=longest) for one in value]
    if isinstance(value, dict):
        # A key of the same look must not be taken for ours.
        return {
            f"${key}" if key.startswith("$") else key: spilled(one, keep, longest=longest)
            for key, one in value.items()
        }
    return value


def restored(value: Any, kept: Callable[[str], str]) -> Any:
    """The reverse of ``spilled``."""
    if isinstance(value, list):
        return [restored(one, kept) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_FILE}:
        return kept(value[_FILE])
    return {key.removeprefix("$"): restored(one, kept) for key, one in value.items()}
