"""Terminal text as HTML: colours become classes that a page's style sheet gives meaning to, in any light. Pure.

There are eight colours and their intense kinds, as pages can show them legibly on light and dark paper; of the many others that terminals
know, each becomes the nearest of these. Texts come without other control sequences (see ``display_data``).
"""

from __future__ import annotations

import colorsys
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from cellwright.notebook.languages import canonical_language

__all__ = ["ansi_html", "code_html"]
_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

_HUES = ("red", "yellow", "green", "cyan", "blue", "magenta")

_SWITCHES = {
    1: ("bold", True),
    2: ("faint", True),
    3: ("italic", True),
    4: ("underline", True),
    7: ("inverse", True),
    22: ("bold", False),
    23: ("italic", False),
    24: ("underline", False),
    27: ("inverse", False),
}

_FOREGROUND, _BACKGROUND = 38, 48

_INDEXED, _TRUE = 5, 2

_CUBE, _GREYS = 16, 232

_GREY_SPREAD = 40

_DARK, _LIGHT = 85, 190


@dataclass(slots=True)
class _Pen:
    """How the next letters look."""

    on: frozenset[str] = frozenset()
    fg: str = ""
    bg: str = ""

    @property
    def classes(self) -> str:
        fg, bg = self.fg, self.bg
        if "inverse" in self.on:
            fg, bg = bg or "default-inverse", fg or "default-inverse"
        named = [f"ansi-{fg}-fg" if fg else "", f"ansi-{bg}-bg" if bg else ""]
        return " ".join(filter(None, [*named, *(f"ansi-{one}" for one in sorted(self.on - {"inverse"}))]))


def ansi_html(text: str) -> str:
    """The text, escaped, with spans for what is coloured."""
    if "\x1b" not in text:
        return escape(text, quote=False)
    return "".join(_spans(text))


def _spans(text: str) -> Iterator[str]:
    pen, pieces = _Pen(), _COLOUR.split(text)
    for place, piece in enumerate(pieces):
        if place % 2:
            _take(pen, [int(code[:4]) if code else 0 for code in piece.split(";")])
        elif piece:
            classes = pen.classes
            shown = escape(piece, quote=False)
            yield f'<span class="{classes}">{shown}</span>' if classes else shown


def _take(pen: _Pen, codes: list[int]) -> None:
    while codes:
        code = codes.pop(0)
        if code == 0:
            pen.on, pen.fg, pen.bg = frozenset(), "", ""
        elif code in _SWITCHES:
            name, on = _SWITCHES[code]
            pen.on = pen.on | {name} if on else pen.on - {name, "faint" if name == "bold" else name}
        elif code in {_FOREGROUND, _BACKGROUND}:
            _paint(pen, _extended(codes), background=code == _BACKGROUND)
        else:
            _take_named(pen, code)


def _take_named(pen: _Pen, code: int) -> None:
    tens, number = divmod(code, 10)
    if tens in {3, 4, 9, 10} and number < len(_NAMES):
        name = _NAMES[number] + ("-intense" if tens in {9, 10} else "")
        _paint(pen, name, background=tens in {4, 10})
    elif code in {39, 49}:
        _paint(pen, "", background=code == 49)  # as terminals number it


def _paint(pen: _Pen, name: str, *, background: bool) -> None:
    if background:
        pen.bg = name
    else:
        pen.fg = name


def _extended(codes: list[int]) -> str:
    """The name nearest to a colour of the palette of 256, or of all; takes what it read."""
    kind = codes.pop(0) if codes else 0
    if kind == _INDEXED and codes:
        return _indexed(codes.pop(0))
    if kind == _TRUE and len(codes) >= 3:  # red, green, blue
        red, green, blue, codes[:] = codes[0], codes[1], codes[2], codes[3:]
        return _nearest(red, green, blue)
    return ""


def _indexed(number: int) -> str:
    if number < _CUBE:
        return _NAMES[number % 8] + ("-intense" if number >= 8 else "")  # the second eight
    if number >= _GREYS:
        level = 8 + 10 * (number - _GREYS)
        return _nearest(level, level, level)
    levels = (0, 95, 135, 175, 215, 255)
    red, rest = divmod(number - _CUBE, 36)
    return _nearest(levels[min(red, 5)], levels[rest // 6], levels[rest % 6])


def _nearest(red: int, green: int, blue: int) -> str:
    if max(red, green, blue) - min(red, green, blue) < _GREY_SPREAD:
        return "black" if red < _DARK else "white" if red > _LIGHT else "black-intense"
    hue, _, _ = colorsys.rgb_to_hsv(min(red, 255) / 255, min(green, 255) / 255, min(blue, 255) / 255)
    return _HUES[round(hue * 6) % 6]


# Code as HTML, coloured by pygments in the language it is written in. Pure; an unknown language stays plain.

# Colouring a long text takes seconds and helps nobody: it is data.
_MAX_CHARACTERS = 200_000

# Magics and shell lines are no Python, and often in cells.
_LEXERS = {"python": "ipython3"}


def code_html(code: str, language: str) -> str:
    """Code as HTML, to stand in a ``pre`` of the page's style."""
    lexer = _lexer(canonical_language(language)) if len(code) <= _MAX_CHARACTERS else None
    if lexer is None:
        return escape(code, quote=False)
    from pygments import highlight  # type: ignore[import-untyped]  # an extra, untyped

    return str(highlight(code, lexer, _formatter())).removesuffix("\n")


@functools.cache
def _formatter() -> Any:
    """One for all: making it, with a style sheet that nobody asks for, takes as long as colouring a cell."""
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]  # an extra, untyped

    return HtmlFormatter(nowrap=True)


@functools.lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # an extra, untyped
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # with it

    for name in (_LEXERS.get(language, language), language):
        try:
            return get_lexer_by_name(name, stripnl=False, ensurenl=False)
        except ClassNotFound:
            continue
    return None
