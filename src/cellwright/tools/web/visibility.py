"""What a person would see of a page, as far as its own words tell. Pure.

Attributes, inline styles and plain rules of style sheets in the page are understood; style sheets from elsewhere and
scripts are not, so what they hide is still shown.
"""

from __future__ import annotations

import re
import unicodedata

from cellwright.formats.markup import Element, text_in

__all__ = ["Visibility", "visible_text"]

_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:[;!]|$)"
    r"|font-size\s*:\s*0(?:px|em|rem|pt|%)?\s*(?:[;!]|$)|(?:left|top|text-indent)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect\(\s*0|transform\s*:\s*scale\(\s*0\s*\)",
    re.IGNORECASE,
)
_RULE = re.compile(r"([^{}]{1,500})\{([^{}]{0,2000})\}")
_SIMPLE = re.compile(r"([.#])([A-Za-z_][\w-]{0,100})")
_COMMENT = re.compile(r"/\*.{0,5000}?\*/", re.DOTALL)
_COLOUR = re.compile(r"(?<![-\w])(background-color|background|color)\s*:\s*([^;!]{1,60})", re.IGNORECASE)
# Tags, and selectors of variants beyond the usual sixteen, spell out texts that nobody sees.
_UNSEEN = range(0xE0000, 0xE1000)
_MAX_SHEET = 200_000


class Visibility:
    """Decides which elements of one page a person sees, and counts those with text that are not."""

    def __init__(self, root: Element) -> None:
        self.hidden = 0
        self._classes: set[str] = set()
        self._ids: set[str] = set()
        for sheet in _sheets(root):
            self._learn(_COMMENT.sub("", sheet))

    def shows(self, element: Element) -> bool:
        """Whether a person sees it."""
        if not self._is_hidden(element):
            return True
        if text_in(element):
            self.hidden += 1
        return False

    def _is_hidden(self, element: Element) -> bool:
        attributes = element.attributes
        if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
            return True
        style = attributes.get("style", "")
        if style and (_HIDING.search(style) or _is_unreadable(style)):
            return True
        classes = attributes.get("class", "").split()
        return not self._classes.isdisjoint(classes) or attributes.get("id", "") in self._ids

    def _learn(self, sheet: str) -> None:
        for selectors, body in _RULE.findall(sheet[:_MAX_SHEET]):
            if not _HIDING.search(body):
                continue
            for selector in selectors.split(","):
                # Only a class or an id alone: what a longer selector means depends on the rest of the page.
                if match := _SIMPLE.fullmatch(selector.strip()):
                    (self._classes if match[1] == "." else self._ids).add(match[2])


def visible_text(text: str) -> str:
    """A text without characters that show nothing, turn lines round or carry a second text."""
    if text.isascii():
        return text
    return "".join(character for character in text if not _is_invisible(character))


def _is_invisible(character: str) -> bool:
    if character.isascii():
        return False
    if ord(character) in _UNSEEN:
        return True
    return unicodedata.category(character) == "Cf" and character not in "\u200c\u200d\u00ad"


def _is_unreadable(style: str) -> bool:
    """Whether text has the colour of what lies behind it."""
    colours = {name.lower(): " ".join(value.lower().split()) for name, value in _COLOUR.findall(style)}
    behind = colours.get("background-color", colours.get("background"))
    return colours.get("color") == "transparent" or (behind is not None and colours.get("color") == behind)


def _sheets(root: Element) -> list[str]:
    found: list[str] = []
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element.tag == "style":
            found.append("".join(child for child in element.children if isinstance(child, str)))
        waiting += [child for child in element.children if isinstance(child, Element)]
    return found
