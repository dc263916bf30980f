"""Masks outputs by patterns that a notebook brought along, which may be hostile: in a process that can be ended.

Refusing patterns that look dangerous would refuse harmless ones and miss others; a limit of time is right for all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from cellwright.errors import NotebookError
from cellwright.verification import masker
from cellwright.verification.rules import MaskPattern

__all__ = ["mask_outputs"]

LIMIT_S = 5
# A busy machine gives processor time late; a process that gets none at all is not waited for.
_TIMEOUT_S = 120
_MOST_CHARACTERS = 20_000_000


async def mask_outputs(
    outputs: Sequence[dict[str, Any]], patterns: Sequence[MaskPattern], *, limit_s: int = LIMIT_S
) -> list[dict[str, Any]]:
    """The same outputs with everything that the patterns match replaced. One stream is one text.

    Raises:
        NotebookError: a pattern is none, or takes too long.
    """
    joined = _joined_streams(outputs)
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text)
        return text

    _walk(joined, collect)
    if sum(map(len, texts)) > _MOST_CHARACTERS:
        raise NotebookError(
            "More was put out than patterns are matched with", hint="Put out less, or use a named mask"
        )
    masked = iter(await _masked(texts, patterns, limit_s))
    return _walk(joined, lambda _: next(masked))


async def _masked(texts: list[str], patterns: Sequence[MaskPattern], limit_s: int) -> list[str]:
    asked = {"texts": texts, "patterns": [[one.pattern, one.shown] for one in patterns]}
    command = [sys.executable, "-I", "-S", str(Path(masker.__file__)), str(limit_s)]
    done: subprocess.CompletedProcess[bytes] | None = None
    with anyio.move_on_after(_TIMEOUT_S):
        done = await anyio.run_process(
            command, input=json.dumps(asked).encode(), check=False, stderr=subprocess.DEVNULL
        )
    shown = ", ".join(one.pattern for one in patterns)
    if done is None or done.returncode:
        raise NotebookError(
            f"Matching {shown} took more than {limit_s} s of processor time or too much memory",
            hint="Write it without one repetition inside of another",
        )
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise NotebookError(f"The pattern {answer['pattern']} cannot be used: {answer['error']}")
    return list(answer["texts"])


def _joined_streams(outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    streams: dict[str, list[str]] = {}
    others: list[dict[str, Any]] = []
    for output in outputs:
        if output.get("output_type") == "stream":
            streams.setdefault(str(output.get("name", "stdout")), []).append(_text(output.get("text", "")))
        else:
            others.append(output)
    told = [
        {"output_type": "stream", "name": name, "text": "".join(parts)} for name, parts in streams.items()
    ]
    return [*told, *others]


def _walk(outputs: list[dict[str, Any]], change: Callable[[str], str]) -> list[dict[str, Any]]:
    """Outputs with every text changed, always in the same order."""
    changed: list[dict[str, Any]] = []
    for output in outputs:
        new = dict(output)
        for key in ("text", "evalue"):
            if isinstance(new.get(key), str):
                new[key] = change(new[key])
        if isinstance(new.get("data"), dict):
            new["data"] = {
                mime: change(_text(value)) if _is_text(mime, value) else value
                for mime, value in new["data"].items()
            }
        changed.append(new)
    return changed


def _is_text(mime: str, value: Any) -> bool:
    lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    pictures = mime.startswith(("image/", "audio/", "video/")) and not mime.endswith("+xml")
    return (isinstance(value, str) or lines) and not pictures


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(map(str, value))
