"""What was said to the data agent and what it did, read back from the storage directory as plain data.

Needs no agent at work, but its libraries: messages are theirs. Import it when somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from cellwright.agent.conversations import Conversations
from cellwright.agent.trace.export import read_run, summary
from cellwright.errors import UnknownRun

__all__ = ["Records"]

_run_id = re.compile(r"[a-z]+-[0-9a-z]{4,32}")


class Records:
    """The conversations of a storage directory, and the traces that lie with them."""

    def __init__(self, storage: Path) -> None:
        self._directory = storage / "conversations"
        self._conversations = Conversations(self._directory)

    async def conversations(self) -> list[dict[str, Any]]:
        """What there is to go on with, the one that was asked last first."""
        return [asdict(brief) for brief in await self._conversations.list()]

    async def conversation(self, conversation_id: str) -> dict[str, Any]:
        """What was asked and answered in one, and all messages of the branch that goes on.

        Raises:
            UnknownConversation: there is none of that id.
            ConversationUnreadable: a newer version wrote it, or it is damaged.
        """
        history = await self._conversations.get(conversation_id)
        return {
            "id": history.id,
            "title": history.title,
            "created": history.created,
            "updated": history.updated,
            "model": history.model,
            "notebooks": [asdict(notebook) for notebook in history.notebooks],
            "runs": [asdict(run) for run in history.runs],
            "branches": [
                {
                    "id": one.id,
                    "parent": one.parent,
                    "label": one.label,
                    "why": one.why,
                    "messages": len(one.own),
                }
                for one in history.segments.values()
            ],
            "messages": list(_without_pictures(history.messages())),
        }

    async def forget(self, conversation_id: str) -> None:
        """Delete one, with its traces; its notebooks stay.

        Raises:
            UnknownConversation: there is none of that id.
            ConversationBusy: a run works with it.
        """
        await self._conversations.delete(conversation_id)

    async def conversation_of(self, run_id: str) -> str | None:
        """The conversation that a run belongs to."""
        path = await anyio.to_thread.run_sync(self._log, run_id)
        return path.relative_to(self._directory).parts[0] if path is not None else None

    async def trace(self, run_id: str) -> dict[str, Any]:
        """A run as a whole, with its totals.

        Raises:
            UnknownRun: there is none of that id.
            NotebookFormatError: a newer version wrote its log.
        """
        path = await anyio.to_thread.run_sync(self._log, run_id)
        if path is None:
            raise UnknownRun(
                f"There is no run {run_id!r}",
                hint="`cellwright conversations show CONVERSATION` lists those of a conversation",
            )
        run = await anyio.to_thread.run_sync(read_run, path)
        return {**run, "summary": summary(run)}

    def _log(self, run_id: str) -> Path | None:
        # The id comes from outside, and must not lead elsewhere.
        if _run_id.fullmatch(run_id) is None:
            return None
        return next(self._directory.glob(f"c-*/**/{run_id}.jsonl"), None)


def _without_pictures(messages: list[ModelMessage]) -> Iterator[Any]:
    for message in ModelMessagesTypeAdapter.dump_python(messages, mode="json"):
        yield _shown(message)


def _shown(value: Any) -> Any:
    """The same, with how large a picture is in place of the picture."""
    if isinstance(value, dict):
        if value.get("kind") == "binary" and isinstance(value.get("data"), str):
            return {**value, "data": f"({len(value['data']) * 3 // 4:,} bytes)"}
        return {name: _shown(inner) for name, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, list) else value
