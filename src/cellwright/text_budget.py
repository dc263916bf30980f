"""Fitting text into a number of tokens, a token being four characters. Pure.

Short texts stay whole; long ones share what is left and keep their head and their tail, since a result is often at the
end and a mistake at the start.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CHARACTERS_PER_TOKEN", "cut_middle", "cut_tail", "share"]

CHARACTERS_PER_TOKEN = 4
_LEAST = 120


def share(lengths: Sequence[int], budget: int) -> list[int]:
    """How many characters each text may have so that together they keep to the budget."""
    shares = [0] * len(lengths)
    left = budget
    by_length = sorted(range(len(lengths)), key=lambda place: lengths[place])
    for done, place in enumerate(by_length):
        fair = left // (len(lengths) - done)
        shares[place] = min(lengths[place], max(fair, 0))
        left -= shares[place]
    return shares


def cut_middle(text: str, limit: int, *, rest: str = "") -> str:
    """The text's head and tail, with how much was left out between them and where all of it can be read."""
    room = max(limit, _LEAST)
    if len(text) <= room:
        return text
    where = f"; all of it: {rest}" if rest else ""
    head, tail = text[: room * 2 // 3], text[len(text) - room // 3 :]
    head = head[: head.rfind("\n") + 1] if "\n" in head[len(head) // 2 :] else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail[: len(tail) // 2] else tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head.rstrip()}\n[… {left_out:,} characters left out{where} …]\n{tail.lstrip(chr(10))}"


def cut_tail(text: str, limit: int) -> str:
    """The text's beginning, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: max(limit - 1, 0)] + "…"
