"""A conversation's lines as they lie on the disk: how they are written, and read back whole.

What each means stands in ``histories``; who may add to them in ``conversations``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cellwright.agent.histories import VERSION, History, Line, LineUnreadable, folded, unpack
from cellwright.errors import ConversationUnreadable

__all__ = ["LOG", "PICTURES", "histories", "read_history", "whole_lines", "written"]

LOG = "log.jsonl"
PICTURES = "pictures"


def written(line: Line) -> bytes:
    """A line as it is stored."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def whole_lines(content: bytes) -> tuple[bytes, int]:
    """The content without a last line that was cut short, and how long that is."""
    whole = content.rfind(b"\n") + 1
    # A crash of the machine may leave a line's place without its bytes.
    while whole and b"\0" in content[content.rfind(b"\n", 0, whole - 1) + 1 : whole]:
        whole = content.rfind(b"\n", 0, whole - 1) + 1
    return content[:whole], whole


def read_history(directory: Path, lines: Sequence[bytes]) -> History:
    """What all lines of a conversation tell.

    Raises:
        ConversationUnreadable: a newer version wrote it, or it is damaged.
    """
    history: History | None = None
    for history in histories(directory, lines, None):  # noqa: B007  # the last one is wanted
        pass
    if history is None:
        raise ConversationUnreadable(f"Conversation {directory.name} is empty", hint="Delete it")
    return history


def histories(directory: Path, lines: Sequence[bytes], history: History | None) -> Iterator[History]:
    """What is known after each of these lines; before them that was ``history``."""

    def picture(digest: str) -> bytes:
        return (directory / PICTURES / Path(digest).name).read_bytes()

    for number, content in enumerate(lines, 1):
        try:
            line = json.loads(content)
            if not isinstance(line, dict):
                raise LineUnreadable("it is no object")
            if history is None:
                _refuse_newer(directory.name, line)
            history = folded(history, unpack(line, picture))
        except (ValueError, OSError, LookupError, TypeError) as error:
            told = str(error) if isinstance(error, LineUnreadable) else f"{type(error).__name__}: {error}"
            raise ConversationUnreadable(
                f"Conversation {directory.name} is damaged at line {number}: {told}",
                hint=f"Its log is {directory / LOG}; begin another conversation",
            ) from error
        yield history


def _refuse_newer(conversation_id: str, line: Line) -> None:
    version = line.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ConversationUnreadable(
            f"Conversation {conversation_id} was written by a newer version of Cellwright"
            f" (format {version}, this one reads {VERSION})",
            hint="Use that version, or begin another conversation",
        )
