"""A trace's steps as the page shows them: a line each, chosen by what is asked for, and one in full. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.web.debug.waterfall import Span
from cellwright.web.diffs import DiffLine, diff_lines

__all__ = ["Attempt", "Choice", "Message", "attempts_in", "chosen", "messages_of", "span_of"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which steps are wanted; what is empty does not narrow."""

    kind: str = ""
    role: str = ""
    branch: str = ""
    failed: bool = False
    search: str = ""

    @property
    def narrows(self) -> bool:
        return self != Choice()


def chosen(steps: Iterable[Mapping[str, Any]], choice: Choice) -> list[Mapping[str, Any]]:
    """The steps that are wanted, in order."""
    return [step for step in steps if _fits(step, choice)]


def _fits(step: Mapping[str, Any], choice: Choice) -> bool:
    for name in ("kind", "role", "branch"):
        wanted = getattr(choice, name)
        if wanted and (step.get(name) or "") != wanted:
            return False
    if choice.failed and step.get("state") == "ok":
        return False
    return not choice.search or _holds(step, choice.search.casefold())


def _holds(value: Any, wanted: str) -> bool:
    """Whether a text is anywhere in it."""
    if isinstance(value, str):
        return wanted in value.casefold()
    if isinstance(value, Mapping):
        return any(_holds(inner, wanted) for inner in value.values())
    if isinstance(value, Sequence):
        return any(_holds(inner, wanted) for inner in value)
    return wanted == str(value)


def span_of(step: Mapping[str, Any], now: float) -> Span:
    """A step on the line of time; one that goes on lasts until now."""
    seconds = step.get("seconds") or {}
    took = step.get("took")
    about = step.get("tool") or step.get("model") or ""
    return Span(
        key=str(step["number"]),
        label=f"{step['number']} {step['kind']} {about}".strip(),
        began=step["began"],
        took=took if took is not None else max(now - step["began"], 0.0),
        spent=tuple((name, seconds.get(name) or 0.0) for name in ("engine", "kernel", "model")),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A piece of a prompt or of a reply."""

    role: str
    """``system``, ``user``, ``tool``, ``assistant``, ``thinking``, ``call``."""
    text: str
    name: str = ""
    """Of a tool."""


_ROLES = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "tool",
    "text": "assistant",
    "thinking": "thinking",
    "tool-call": "call",
}


def messages_of(messages: Iterable[Any]) -> Iterator[Message]:
    """The pieces of messages as pydantic-ai writes them, in order; what is unknown is shown as it is."""
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if instructions := message.get("instructions"):
            yield Message("system", str(instructions))
        for part in message.get("parts") or ():
            kind = str(part.get("part_kind", ""))
            content = part.get("args") if kind == "tool-call" else part.get("content")
            yield Message(_ROLES.get(kind, kind or "part"), _text(content), str(part.get("tool_name") or ""))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(one, str) for one in content):
        return "\n".join(content)
    return json.dumps(content, ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time that a cell ran, with what was changed since the time before."""

    step: int
    number: int
    code: str
    state: str
    stdout: str
    stderr: str
    seconds: float | None
    changed: tuple[DiffLine, ...] = field(default=())


def attempts_in(steps: Iterable[Mapping[str, Any]]) -> dict[str, list[Attempt]]:
    """Every run of every cell, by the cell; code in no cell is by its session."""
    found: dict[str, list[Attempt]] = {}
    for step in steps:
        for run in step.get("runs") or ():
            key = run.get("cell_id") or f"code in {step.get('session_id') or 'no session'}"
            earlier = found.setdefault(key, [])
            code = str(run.get("code") or "")
            changed = diff_lines(earlier[-1].code, code) if earlier and earlier[-1].code != code else []
            earlier.append(
                Attempt(
                    step["number"],
                    len(earlier) + 1,
                    code,
                    str(run.get("state") or ""),
                    str(run.get("stdout") or ""),
                    str(run.get("stderr") or ""),
                    run.get("seconds"),
                    tuple(changed),
                )
            )
    return found
