"""What the pages of conversations show, as far as it changes: a conversation with its run at work, and the list of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

import anyio

from cellwright.errors import UnknownConversation
from cellwright.mcp.delegates import Delegate
from cellwright.web.chat.rows import conversation_rows
from cellwright.web.chat.turns import entries_in, live_run, number_of, turn_of
from cellwright.web.live import Change, Parts
from cellwright.web.templates import render

__all__ = ["CONVERSATIONS", "ConversationList", "Talk", "talk_about", "turn_part"]

HEAD = "chat-head"
TURNS = "chat-turns"
"""Which turns there are. Parts come in the order of their names: this one before those of the turns themselves."""
CONVERSATIONS = "conversations"
_LONG_S = 3_600.0
_talks: WeakValueDictionary[tuple[int, str], Talk] = WeakValueDictionary()


def turn_part(run_id: str) -> str:
    return f"turn-{run_id}"


def talk_about(delegate: Delegate, conversation_id: str) -> Talk:
    """What shows this conversation, shared by all pages that are open on it."""
    key = id(delegate), conversation_id
    found = _talks.get(key)
    if found is None:
        found = _talks[key] = Talk(delegate, conversation_id)
    return found


class Talk:
    """One conversation's page."""

    def __init__(self, delegate: Delegate, conversation_id: str) -> None:
        self._delegate = delegate
        self._id = conversation_id
        self._parts = Parts(self._make)
        self._reading = anyio.Lock()
        self._read: tuple[int, Mapping[str, Any] | None] = (0, None)
        """The conversation, None where it is gone, as it was when this was heard."""

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        heard = 0
        while True:
            heard = await self._delegate.stirred(heard)
            conversation = await self._as_of(heard)
            if conversation is None:
                yield Change((since or 0) + 1, frozenset({HEAD}))
                return
            run = live_run(conversation, self._delegate)
            number = number_of(conversation, run)
            if number != since:
                since = number
                turns = (turn_part(one["run_id"]) for one in conversation["runs"])
                yield Change(number, frozenset({HEAD, TURNS, *turns}))
            while run is not None and not run.done:
                number = number_of(conversation, run)
                if number != since:
                    since = number
                    yield Change(number, frozenset({turn_part(run.id)}))
                await run.changed(entries_in(number), _LONG_S)

    async def render(self, part: str, upto: int) -> str | None:
        return await self._parts.get(part, upto)

    async def _as_of(self, heard: int) -> Mapping[str, Any] | None:
        """The conversation, read once for all pages after something was heard."""
        async with self._reading:
            if self._read[0] != heard:
                try:
                    self._read = heard, await self._delegate.conversation(self._id)
                except UnknownConversation:
                    self._read = heard, None
            return self._read[1]

    async def _make(self, part: str) -> str | None:
        _, conversation = self._read
        if conversation is None:
            return render("chat_gone.html") if part == HEAD else None
        if part == HEAD:
            return render("chat_head.html", conversation=conversation)
        if part == TURNS:
            return render("chat_order.html", conversation=conversation)
        for run in conversation["runs"]:
            if turn_part(run["run_id"]) == part:
                turn = turn_of(run, self._delegate)
                return render("chat_turn.html", conversation=conversation, turn=turn)
        return None


class ConversationList:
    """The list of conversations, as one part."""

    def __init__(self, delegate: Delegate) -> None:
        self._delegate = delegate

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        heard = since or 0
        while True:
            heard = await self._delegate.stirred(heard)
            yield Change(heard, frozenset({CONVERSATIONS}))

    async def render(self, part: str, upto: int) -> str | None:
        del upto  # made anew each time: it is asked for when a run begins or ends
        if part != CONVERSATIONS:
            return None
        return render("chat_list.html", rows=await conversation_rows(self._delegate))
