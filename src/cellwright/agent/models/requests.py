"""One request to a model and what came of it, whoever the provider is. Only data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models.table import ModelRow
from cellwright.delegation import Usage
from cellwright.errors import ModelFailed

__all__ = ["Delta", "Heard", "Said", "Speaker", "Unanswered", "Want", "unheard", "usage_of"]


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked for beside the messages."""

    role: str
    """Who asks: ``act``, ``critic``, ``plan``, …"""
    branch: str = "main"
    tools: tuple[ToolDefinition, ...] = ()
    shape: type[BaseModel] | None = None
    """The type of the answer; with tools, of the answer that ends the calls."""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it comes."""

    kind: Literal["text", "thinking", "call", "again"]
    """``again``: what was heard of this reply does not count, it is asked for anew; the text says why."""
    text: str


Heard: TypeAlias = Callable[[Delta], None]


def unheard(_: Delta) -> None:
    """For whoever waits for the whole."""


def usage_of(response: ModelResponse, row: ModelRow) -> Usage:
    """What a reply took, at the price of its row."""
    took = response.usage
    money = row.price.of(
        took.input_tokens, took.output_tokens, cached=took.cache_read_tokens, written=took.cache_write_tokens
    )
    return Usage(took.input_tokens, took.output_tokens, took.cache_read_tokens, money)


class Unanswered(ModelFailed):
    """There is no answer, and yet ``usage`` was taken: by replies that were cut, empty or no replies at all."""

    def __init__(
        self,
        message: str,
        *,
        usage: Usage,
        hint: str | None = None,
        again: bool = False,
        after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint, again=again, after_s=after_s)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Said:
    """A model's reply."""

    response: ModelResponse
    row: ModelRow
    usage: Usage
    """Of this reply and of those before it that could not be used."""
    seconds: float
    troubles: tuple[str, ...] = ()
    """What went wrong before it came: retries, and models that were given up."""


class Speaker(Protocol):
    """A connection to a model: a provider's, the client's own by sampling, or one that runs on this machine."""

    row: ModelRow

    async def say(self, messages: Sequence[ModelMessage], want: Want, heard: Heard) -> ModelResponse:
        """One request. ``heard`` is called with pieces while they come.

        Raises:
            ModelFailed: it did not answer, or not with a reply; says whether trying again makes sense.
        """
        ...
