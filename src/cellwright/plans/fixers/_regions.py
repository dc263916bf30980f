"""Which parts of a cell's text are code, strings, comments or IPython's own lines, also where it does not parse.

A scanner, no parser: it knows quotes, brackets and line ends, and nothing of Python's grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "CLOSERS",
    "Bracket",
    "Region",
    "blanked",
    "brackets",
    "code_only",
    "line_starts",
    "regions",
    "regions_from",
]

Kind: TypeAlias = Literal["code", "string", "comment", "magic"]

CLOSERS = {"(": ")", "[": "]", "{": "}"}

# A cell magic that runs the rest of its cell as Python; of every other one the rest may be anything.
_PYTHON_BODIES = re.compile(r"%%(?:time|timeit|capture|prun)\b[^\r\n]*")
_MAGIC = re.compile(
    r"(?P<indent>[ \t]*)(?P<target>[^\W\d]\w*[ \t]*=[ \t]*)?"
    r"(?P<magic>%{1,2}[^\W\d][^\r\n]*|!(?!=)[^\r\n]+|\?{1,2}[\w.*][^\r\n]*|[^\W\d][\w.]*\?{1,2}[ \t]*(?=[\r\n]|\Z))"
)
_LINE = re.compile(r"(?:\r\n|\r|\n)[^\r\n]*")
# Each is looked at with all before it.
_MOST_LINES = 40
_INDENT = re.compile(r"[ \t]*")
_DEEPER = re.compile(r"(?:(?:\r\n|\r|\n)[ \t]*(?=[\r\n]))*(?:\r\n|\r|\n)(?P<indent>[ \t]+)[^\s][^\r\n]*")
_MARK = re.compile(
    r"(?P<string>\"\"\"|'''|\"|')|(?P<comment>\#[^\r\n]*)|(?P<joined>\\(?:\r\n|\r|\n))"
    r"|(?P<newline>\r\n|\r|\n)|(?P<open>[(\[{])|(?P<close>[)\]}])"
)
_ENDS = {
    '"': re.compile(r'(?:\\(?:\r\n|[\s\S])|[^\\\r\n"])*(?P<end>"?)'),
    "'": re.compile(r"(?:\\(?:\r\n|[\s\S])|[^\\\r\n'])*(?P<end>'?)"),
    '"""': re.compile(r'(?:\\[\s\S]|(?!""")[^\\])*(?P<end>(?:""")?)'),
    "'''": re.compile(r"(?:\\[\s\S]|(?!''')[^\\])*(?P<end>(?:''')?)"),
}


class Region(NamedTuple):
    kind: Kind
    start: int
    end: int
    closed: bool = True
    """Of a string: whether its closing quote is there."""


class Bracket(NamedTuple):
    text: str
    place: int


# Every repair looks at the same few texts.
@lru_cache(maxsize=8)
def regions(text: str) -> tuple[Region, ...]:
    """The whole text in order, without gaps."""
    return tuple(regions_from(text, 0))


def regions_from(text: str, at: int) -> Iterator[Region]:
    """The text from a place on, which is in code, one after the other as they are asked for."""
    for region in _marked(text, at):
        if region.start > at:
            yield Region("code", at, region.start)
        yield region
        at = region.end
    if at < len(text):
        yield Region("code", at, len(text))


def _marked(text: str, at: int) -> Iterator[Region]:
    """Everything that is no code."""
    depth, fresh = 0, at == 0 or text[at - 1] in "\r\n"
    while at < len(text):
        if fresh and depth <= 0 and (magic := _magic_at(text, at)):
            yield magic
            at, fresh = magic.end, False
            continue
        mark = _MARK.search(text, at)
        if mark is None:
            return
        at, fresh = mark.end(), mark.lastgroup == "newline"
        if mark.lastgroup == "comment":
            yield Region("comment", mark.start(), at)
        elif mark.lastgroup == "string":
            ended = _ENDS[mark.group()].match(text, at)
            at = ended.end() if ended else len(text)
            yield Region("string", mark.start(), at, closed=bool(ended and ended["end"]))
        elif mark.lastgroup in ("open", "close"):
            depth = max(0, depth + (1 if mark.lastgroup == "open" else -1))


def _magic_at(text: str, at: int) -> Region | None:
    if text.startswith("%%", at) and not text[:at].strip():
        body = _PYTHON_BODIES.match(text, at)
        return Region("magic", at, _with_lines_of_its_own(text, at, body.end()) if body else len(text))
    magic = _MAGIC.match(text, at)
    if magic is None:
        return None
    end = magic.end()
    while text[end - 1 : end] == "\\" and (more := re.compile(r"(?:\r\n|\r|\n)[^\r\n]*").match(text, end)):
        end = more.end()
    start = at + len(magic["indent"])
    if magic["magic"].startswith("%"):
        end = _closed(text, magic.start("magic"), end)
    if magic["magic"].startswith(("%", "!")):
        end = _with_lines_of_its_own(text, at, end)
    return Region("magic", start, end)


def _closed(text: str, start: int, end: int) -> int:
    """Where the brackets close that a magic's line leaves open; its own end where they never do."""
    name = re.compile(r"%+\w+").match(text, start)
    begin = name.end() if name else start
    closed = end
    for _ in range(_MOST_LINES):
        if not brackets(text[begin:closed])[0]:
            return closed
        if (more := _LINE.match(text, closed)) is None:
            return end
        closed = more.end()
    return end


def _with_lines_of_its_own(text: str, at: int, end: int) -> int:
    """The end of the lines that follow a magic's line further to the right.

    IPython gives the magic its line alone: what was meant by the others is not for a rule to say.
    """
    indent = _INDENT.match(text, at)
    width = len(indent.group()) if indent else 0
    while (more := _DEEPER.match(text, end)) is not None and len(more["indent"]) > width:
        end = more.end()
    return end


def blanked(text: str) -> str:
    """The text with IPython's own lines made harmless; every other line keeps its number and its columns."""
    parts = []
    for region in regions(text):
        part = text[region.start : region.end]
        if region.kind == "magic":
            target = re.match(r"[^\W\d]\w*[ \t]*=", part)
            indented = text[: region.start].endswith((" ", "\t"))
            lines = re.sub(r"[^\r\n]", "", part)
            part = (f"{target.group()} None" if target else "pass" if indented else "") + lines
        parts.append(part)
    return "".join(parts)


@lru_cache(maxsize=8)
def code_only(text: str) -> str:
    """The same length of text with everything that is no code as spaces; line ends stay."""
    return "".join(
        part if region.kind == "code" else re.sub(r"[^\r\n]", " ", part)
        for region in regions(text)
        for part in [text[region.start : region.end]]
    )


def brackets(text: str) -> tuple[tuple[Bracket, ...], Bracket | None]:
    """The brackets left open, outermost first, and the first closing one that fits none."""
    open_ones: list[Bracket] = []
    for mark in re.finditer(r"[()\[\]{}]", code_only(text)):
        bracket = Bracket(mark.group(), mark.start())
        if bracket.text in CLOSERS:
            open_ones.append(bracket)
        elif open_ones and CLOSERS[open_ones[-1].text] == bracket.text:
            open_ones.pop()
        else:
            return tuple(open_ones), bracket
    return tuple(open_ones), None


def line_starts(text: str) -> tuple[int, ...]:
    """Where each line begins, as Python counts lines."""
    return (0, *(mark.end() for mark in re.finditer(r"\r\n|\r|\n", text)))
