"""What a server that stands in for a provider is to reply, as plain values, whatever its format is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Call", "Entry", "Fault", "Garbled", "Part", "Recorded", "Reply", "Text", "Think", "reply"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words; streamed one by one."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """A thought, with the signature that must come back."""

    text: str
    signature: str = "c2lnbmVk"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. Arguments that are a text go out as they are, JSON or not."""

    tool: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""


Part: TypeAlias = Text | Think | Call


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. ``cut`` ends the stream after its first events: ``broken`` as if the line were down, ``quiet`` as if that were all."""

    parts: tuple[Part, ...] = ()
    finish: Literal["stop", "length", "filter", "refusal"] = "stop"
    tokens_in: int = 100
    tokens_out: int = 20
    cached: int = 0
    cut: Literal["no", "broken", "quiet"] = "no"
    refusal: str = "I will not do that."


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer with a status that is none."""

    status: int
    retry_after_s: float | None = None
    message: str = "as the script says"


@dataclass(frozen=True, slots=True)
class Garbled:
    """``json``: a body, or an event, that is no JSON. ``page``: some proxy's page, with a status of success."""

    how: Literal["json", "page"] = "json"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any
    """JSON; for gRPC the message of the protocol."""

    @property
    def text(self) -> str:
        """All of it, to look for something in."""
        return str(self.body)


Answer: TypeAlias = Reply | Fault | Garbled
Entry: TypeAlias = Answer | Callable[[Recorded], Answer]
"""A reply, or what makes one of the request."""


def reply(*parts: Part | str, **rest: Any) -> Reply:
    """A reply of these parts; a string is a text."""
    return Reply(tuple(Text(part) if isinstance(part, str) else part for part in parts), **rest)
