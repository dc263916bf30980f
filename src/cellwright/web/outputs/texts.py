"""Long texts for a page: the end of one that grows, head and tail of one that is whole, and its pages. Pure.

Only what is shown is made into HTML, so that ten megabytes in one line cost little more than a screenful.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from cellwright.formats.display_data import exhibits_of
from cellwright.formats.highlight import ansi_html
from cellwright.web.quantities import amount

__all__ = ["Shown", "TextPage", "ending", "folded", "text_page"]

_LIVE_LINES = 200
_LIVE_CHARACTERS = 20_000
_WHOLE_LINES = 120
_WHOLE_CHARACTERS = 12_000
_HEAD_LINES, _TAIL_LINES = 60, 30
_HEAD_CHARACTERS, _TAIL_CHARACTERS = 6_000, 3_000
_PAGE_CHARACTERS = 60_000
_PAGE_LINES = 1_000
_LONG_LINE = 1_000
"""Where lines are longer than this, their number says nothing."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a text is shown at first."""

    head: Markup
    left_out: str
    """How much is not, in words; empty where all is."""
    tail: Markup
    size: str
    """How much there is in all."""


@dataclass(frozen=True, slots=True)
class TextPage:
    """A piece of a text that was asked for."""

    html: Markup
    number: int
    count: int


def ending(text: str) -> Shown:
    """The end of a text that still grows."""
    tail = _last(text, _LIVE_LINES, _LIVE_CHARACTERS)
    earlier = text[: len(text) - len(tail)]
    if not earlier:
        return Shown(_html(text), "", Markup(), "")
    return Shown(Markup(), _amount(earlier), _html(tail), _amount(text))


def folded(text: str) -> Shown:
    """A text's head and tail; all of it where it is short enough."""
    if len(text) <= _WHOLE_CHARACTERS and text.count("\n") <= _WHOLE_LINES:
        return Shown(_html(text), "", Markup(), "")
    head = _first(text, _HEAD_LINES, _HEAD_CHARACTERS)
    tail = _last(text[len(head) :], _TAIL_LINES, _TAIL_CHARACTERS)
    between = text[len(head) : len(text) - len(tail)]
    return Shown(_html(head), _amount(between), _html(tail), _amount(text))


def text_page(text: str, number: int) -> TextPage:
    """One page of a text, counted from 1; the nearest that there is."""
    cuts = _cuts(text)
    number = min(max(number, 1), len(cuts))
    return TextPage(_html(text[slice(*cuts[number - 1])]), number, len(cuts))


def _cuts(text: str) -> list[tuple[int, int]]:
    """Where pages begin and end: at the ends of lines, unless a line is longer than a page."""
    cuts: list[tuple[int, int]] = []
    start = 0
    while start < len(text) or not cuts:
        piece = _first(text[start : start + _PAGE_CHARACTERS], _PAGE_LINES, _PAGE_CHARACTERS)
        end = start + len(piece)
        if end < len(text) and not piece.endswith("\n"):
            end = text.rfind("\n", start, end) + 1 or end
        cuts.append((start, end))
        start = max(end, start + 1)
    return cuts


def _first(text: str, lines: int, characters: int) -> str:
    piece = text[:characters]
    return "".join(piece.splitlines(keepends=True)[:lines])


def _last(text: str, lines: int, characters: int) -> str:
    piece = text[-characters:] if characters < len(text) else text
    return "".join(piece.splitlines(keepends=True)[-lines:])


def _amount(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    return amount(len(text), "character") if len(text) > lines * _LONG_LINE else amount(lines, "line")


def _html(text: str) -> Markup:
    """A piece as it would stand on a terminal's screen."""
    on_screen = exhibits_of([{"output_type": "stream", "name": "stdout", "text": text}])[0].text
    return Markup(ansi_html(on_screen))  # noqa: S704  # escapes what it writes
