"""How one text becomes another by small edits, and how two people's edits of one text become one text. Pure."""

from __future__ import annotations

import difflib
import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["TextEdit", "edited", "merged_text", "text_edits"]

_token = re.compile(r"\w+|\s|[^\w\s]")
# Comparing takes time that grows with the square of the texts: longer ones are compared by lines alone.
_MOST_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class TextEdit:
    """``text`` stands in place of the characters from ``start`` up to ``stop``, counted in the text as it was."""

    start: int
    stop: int
    text: str


def text_edits(before: str, after: str) -> list[TextEdit]:
    """Few and small edits, in order and apart from each other, that make ``after`` of ``before``."""
    if before == after:
        return []
    shortest = min(len(before), len(after))
    head = _most(shortest, lambda length: before[:length] == after[:length])
    tail = _most(shortest - head, lambda length: before.endswith(after[len(after) - length :]))
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old or not new:
        return [TextEdit(head, head + len(old), new)]
    return _joined(_between(old, new, head))


def edited(before: str, edits: Sequence[TextEdit]) -> str:
    """The text after these edits."""
    parts, end = [], 0
    for edit in edits:
        parts += [before[end : edit.start], edit.text]
        end = edit.stop
    return "".join([*parts, before[end:]])


def merged_text(base: str, ours: str, theirs: str) -> str:
    """Both sides' edits of ``base`` together: whatever one of them wrote is there, what one took out is not.

    What both wrote alike in one place is there once, so that an edit which came two ways is not made twice.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    written: dict[int, list[str]] = {}
    removed = [False] * len(base)
    for side in (ours, theirs):
        for edit in text_edits(base, side):
            removed[edit.start : edit.stop] = [True] * (edit.stop - edit.start)
            if edit.text:
                _add(written.setdefault(edit.start, []), edit.text)
    parts: list[str] = []
    for place in range(len(base) + 1):
        parts += written.get(place, ())
        if place < len(base) and not removed[place]:
            parts.append(base[place])
    return "".join(parts)


def _most(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to the limit for which it holds, where it holds for all that are smaller."""
    return bisect(range(1, limit + 1), 0, key=lambda length: int(not holds(length)))


def _between(old: str, new: str, offset: int) -> Iterator[TextEdit]:
    olds, news = _token.findall(old), _token.findall(new)
    if len(olds) > _MOST_TOKENS or len(news) > _MOST_TOKENS:
        olds, news = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if len(olds) > _MOST_TOKENS or len(news) > _MOST_TOKENS:
        yield TextEdit(offset, offset + len(old), new)
        return
    starts = [offset]
    for token in olds:
        starts.append(starts[-1] + len(token))
    matcher = difflib.SequenceMatcher(None, olds, news, autojunk=False)
    for tag, low, high, start, stop in matcher.get_opcodes():
        if tag != "equal":
            yield TextEdit(starts[low], starts[high], "".join(news[start:stop]))


def _joined(edits: Iterator[TextEdit]) -> list[TextEdit]:
    """Edits that touch as one."""
    joined: list[TextEdit] = []
    for edit in edits:
        if joined and joined[-1].stop == edit.start:
            last = joined.pop()
            joined.append(TextEdit(last.start, edit.stop, last.text + edit.text))
        else:
            joined.append(edit)
    return joined


def _add(written: list[str], text: str) -> None:
    """Put a second text in the same place, unless one of the two only goes on where the other ends."""
    for index, other in enumerate(written):
        if other.startswith(text):
            return
        if text.startswith(other):
            written[index] = text
            return
    written.append(text)
