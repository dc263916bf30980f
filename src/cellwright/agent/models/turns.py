"""A conversation as plain turns, for those who only know a system prompt and who said what. Pure.

Takes what ``text_actions`` has told: texts and pictures, no calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

__all__ = ["Turn", "estimated_tokens", "spoken"]

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
