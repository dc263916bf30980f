"""Marks that came along with code from elsewhere: Markdown fences, prompts, typographers' quotes and spaces.

Repairs of text that does not compile (see ``syntax``). Nothing inside a string is touched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from cellwright.plans.fixers.regions import regions_from
from cellwright.plans.fixers.repairs import Repaired

__all__ = ["drop_fence", "drop_prompts", "plain_characters"]

_FENCE = re.compile(r"[ \t]*(?:```+|~~~+)[ \t]*[\w+-]*[ \t]*")
_PROMPT = re.compile(r"(?P<prompt>[ \t]*(?:>>>|In \[\d*\]:)(?: |$)|[ \t]*(?:\.\.\.:?|\.{3,}:)(?: |$))")
_FIRST_PROMPT = re.compile(r"[ \t]*(?:>>>|In \[\d*\]:)")

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_NOTHING = "\ufeff\u200b\u200c\u200d\u2060\u00ad"
_SIGNS = {
    "\u2212": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "*",
    "\u00f7": "/",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2260": "!=",
    "\u3001": ",",
    "\u3002": ".",
    "\u3010": "[",
    "\u3011": "]",
}
_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in map(ord, "!#%&()*+,-./:;<=>?@[]^_{|}~0123456789")}
_PLAIN = {**dict.fromkeys(_SPACES, " "), **dict.fromkeys(_NOTHING, ""), **_SIGNS, **_FULL_WIDTH}
_QUOTES = {'"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", "'": "\u2018\u2019\u201a\u201b\uff07"}
_MAX_QUOTES = 400
_PLAIN_QUOTE = {fancy: plain for plain, fancies in _QUOTES.items() for fancy in fancies}


def drop_fence(text: str, error: SyntaxError) -> Iterator[Repaired]:  # noqa: ARG001  # one signature for all repairs
    """Take the lines of a Markdown fence off both ends, or off the one that has it."""
    lines = text.splitlines(keepends=True)
    marked = [index for index, line in enumerate(lines) if _FENCE.fullmatch(line.rstrip("\r\n"))]
    filled = [index for index, line in enumerate(lines) if line.strip()]
    ends = {index for index in marked if index in (filled[:1] + filled[-1:])}
    if ends:
        kept = "".join(line for index, line in enumerate(lines) if index not in ends)
        yield Repaired(kept, "a Markdown fence stood around the code", certain=True)
    if len(marked) == 2:  # noqa: PLR2004  # one that opens, one that closes
        inner = "".join(lines[marked[0] + 1 : marked[1]])
        yield Repaired(inner, "text and a Markdown fence stood around the code", certain=False)


def drop_prompts(text: str, error: SyntaxError) -> Iterator[Repaired]:  # noqa: ARG001  # one signature for all repairs
    """Take prompts off; and where every statement has one, the lines without are what was printed."""
    lines = text.splitlines(keepends=True)
    if not any(_FIRST_PROMPT.match(line) for line in lines):
        return
    stripped = [_PROMPT.sub("", line, count=1) if _PROMPT.match(line) else line for line in lines]
    first = next(line for line in lines if line.strip())
    if _FIRST_PROMPT.match(first):
        prompted = [bare for line, bare in zip(lines, stripped, strict=True) if _PROMPT.match(line)]
        yield Repaired("".join(prompted), "prompts and outputs stood beside the code", certain=True)
    yield Repaired("".join(stripped), "prompts stood before the code", certain=True)


def plain_characters(text: str, error: SyntaxError) -> Iterator[Repaired]:  # noqa: ARG001  # one signature for all repairs
    """Quotes, spaces and signs that look like Python's, by Python's own."""
    plain = _plain(text)
    if plain is not None and plain != text:
        yield Repaired(plain, "some quotes, spaces or signs were not Python's own", certain=True)


def _plain(text: str) -> str | None:
    """The text with plain signs in its code; None where a quotation does not end on its line."""
    letters = Counter(text)
    if not any(letter in _PLAIN or letter in _PLAIN_QUOTE for letter in letters):
        return None
    if sum(letters[quote] for quote in _PLAIN_QUOTE) > _MAX_QUOTES:
        return None
    parts: list[str] = []
    at = 0
    while at < len(text):
        region = next(each for each in regions_from(text, at) if each.end > each.start)
        end = region.end
        if region.kind != "code":
            parts.append(text[at:end])
            at = end
            continue
        quote = next((place for place in range(at, end) if text[place] in _PLAIN_QUOTE), end)
        parts.append("".join(_PLAIN.get(letter, letter) for letter in text[at:quote]))
        at = quote
        if quote < end:
            closed = _quotation(text, quote)
            if closed is None:
                return None
            parts.append(closed[0])
            at = closed[1]
    return "".join(parts)


def _quotation(text: str, start: int) -> tuple[str, int] | None:
    """A string in typographers' quotes, as one in plain ones."""
    plain = _PLAIN_QUOTE[text[start]]
    closing = re.compile(f"[{_QUOTES[plain]}{plain}]")
    line_end = re.compile(r"[\r\n]|\Z").search(text, start)
    end = closing.search(text, start + 1, line_end.start() if line_end else len(text))
    if end is None or plain in text[start + 1 : end.start()]:
        return None
    return f"{plain}{text[start + 1 : end.start()]}{plain}", end.end()
