"""Which letters of a chart this machine has no font for: found by drawing them, since no other answer is the renderer's.

Only ``worker`` calls it. A letter without a font is drawn as a box; so is what stands for no letter at all, and the
two pictures are the same.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from typing import Any

from cellwright.charts.themes import FONT

__all__ = ["letters_without_font", "told_letters"]

# Up to here every font has them all.
_LATIN = 0x250
_BLOCK = 128
_MOST_BLOCKS = 24
_NO_LETTER = "\U0010fffd"
_NEVER_DRAWN = ("Mn", "Me", "Cf", "Cc", "Co", "Cs", "Cn", "Zs")


def letters_without_font(spec: Mapping[str, Any]) -> list[str]:
    """One letter of each part of Unicode that the spec's texts use and that would be a box."""
    held = {key: value for key, value in spec.items() if key not in ("config", "$schema", "usermeta")}
    samples = _samples(json.dumps(held, ensure_ascii=False))
    return [letter for letter in samples if not _has_font(letter)]


def told_letters(letters: Iterable[str]) -> str:
    names = ", ".join(f"{letter} ({unicodedata.name(letter, 'unnamed').title()})" for letter in letters)
    return f"this machine has no font for {names} and what is like it: boxes stand in the picture"


def _samples(text: str) -> list[str]:
    blocks: dict[int, str] = {}
    for letter in sorted(set(text)):
        if ord(letter) >= _LATIN and unicodedata.category(letter) not in _NEVER_DRAWN:
            blocks.setdefault(ord(letter) // _BLOCK, letter)
    return list(blocks.values())[:_MOST_BLOCKS]


@cache
def _has_font(letter: str) -> bool:
    return _drawn(letter) != _drawn(_NO_LETTER)


@cache
def _drawn(letter: str) -> bytes:
    import vl_convert  # noqa: PLC0415  # an extra

    style = f'x="2" y="18" font-size="16" font-family="{escape(FONT)}"'
    text = f"<text {style}>{escape(letter)}</text>"
    return bytes(
        vl_convert.svg_to_png(f'<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24">{text}</svg>')
    )
