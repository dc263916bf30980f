"""Conversations as lines of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellwright.mcp.delegates import Delegate

__all__ = ["ConversationRow", "conversation_rows"]


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """What the list says of a conversation."""

    id: str
    title: str
    updated: float
    turns: int
    model: str
    notebook: str
    running: bool
    trouble: str | None
    """Why it cannot be gone on with."""


async def conversation_rows(delegate: Delegate) -> list[ConversationRow]:
    """Every conversation, the one that was asked last first.

    Raises:
        NoAgent: the agent's libraries are not installed.
    """
    briefs = await delegate.conversations()
    busy = {await delegate.conversation_of(run.id) for run in delegate.live()}
    return [_row(brief, running=brief["id"] in busy) for brief in briefs]


def _row(brief: dict[str, Any], *, running: bool) -> ConversationRow:
    return ConversationRow(
        id=brief["id"],
        title=brief["title"] or brief["id"],
        updated=brief["updated"],
        turns=brief["runs"],
        model=brief["model"] or "",
        notebook=(brief["notebook"] or {}).get("name", ""),
        running=running,
        trouble=brief["trouble"],
    )
