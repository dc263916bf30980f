"""Which characters of a print no font here can draw. Asks typst itself, in a picture of nothing but those characters."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

__all__ = ["missing_glyphs", "unusual_characters"]

# Latin, Greek, Cyrillic, usual punctuation, arrows, operators, box drawing: in the fonts that typst brings along.
_USUAL = re.compile(
    "[\\s\x20-\x7e\xa0-\u024f\u0370-\u03ff\u0400-\u045f\u2010-\u2027\u2030-\u203a\u2190-\u2199\u2500-\u257f]+"
)
_MAX_PROBED = 3_000
_UNDRAWN = frozenset({"Cc", "Cf", "Cs", "Mn", "Me", "Zs", "Zl", "Zp"})
# A place in the private use area that no font fills.
_NEVER_DRAWN = "\U0010fffd"
_GLYPH = re.compile(rb'href="#(g[0-9A-F]+)"')
_PROGRAM = b"""#set page(width: 50pt, height: 20pt, margin: 0pt)
#set text(font: ("Libertinus Serif",), size: 8pt)
#for character in json(bytes(sys.inputs.characters)) { page(text(character)) }
"""


def unusual_characters(texts: Iterable[str]) -> list[str]:
    """Characters that fonts may lack, each once."""
    found: dict[str, None] = {}
    for text in texts:
        if not text.isascii():
            found |= dict.fromkeys(_USUAL.sub("", text))
    return [one for one in found if unicodedata.category(one) not in _UNDRAWN]


def missing_glyphs(characters: list[str]) -> list[str]:
    """Those of the characters that come out as an empty box."""
    import typst  # noqa: PLC0415  # an extra, and whoever asks has it

    probed = [_NEVER_DRAWN, *characters[:_MAX_PROBED]]
    # One picture a page, although its type says one in all.
    pictures: Any = typst.compile(_PROGRAM, format="svg", sys_inputs={"characters": json.dumps(probed)})
    box = _GLYPH.search(pictures[0])
    if box is None or len(pictures) != len(probed):
        return []
    return [
        one
        for one, picture in zip(probed[1:], pictures[1:], strict=True)
        if box[1] in _GLYPH.findall(picture)
    ]
