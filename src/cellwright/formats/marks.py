"""The comments by which a Markdown page of ours says where its cells begin. Pure.

A page begins with ``<!-- cellwright:notebook {…} -->``. Each cell begins with ``<!-- cell:code {…} -->``, or
``markdown`` or ``raw`` in place of ``code``; its outputs stand between ``<!-- cell:output -->`` and
``<!-- cell:end -->``. Where a notebook itself holds ``<!-- cell:``, its page says ``cell2:`` instead, and so on, so
that no text ever has to be altered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from cellwright.formats.encoding import at_line

__all__ = ["Region", "choose_word", "head_line", "mark_line", "read_head", "regions_of"]

_head = re.compile(r"<!-- cellwright:notebook (?P<about>\{.*\}) -->")
_HEAD_WORD = "cellwright"
_KINDS = "code|markdown|raw|output|end"


@dataclass(frozen=True, slots=True)
class Region:
    """What stands between one mark and the next."""

    kind: str
    about: Mapping[str, Any]
    line: int
    """The mark's, from 1; the lines that follow it are the region's."""
    lines: Sequence[str]


def choose_word(texts: Collection[str]) -> str:
    """A word whose marks none of the texts holds."""
    for number in count(1):
        word = f"cell{number}" if number > 1 else "cell"
        if not any(f"<!-- {word}:" in text for text in texts):
            return word
    raise AssertionError  # count() never ends


def head_line(about: Mapping[str, Any]) -> str:
    return f"<!-- {_HEAD_WORD}:notebook {_inert(about)} -->"


def mark_line(word: str, kind: str, about: Mapping[str, Any] | None = None) -> str:
    return f"<!-- {word}:{kind} {_inert(about)} -->" if about else f"<!-- {word}:{kind} -->"


def read_head(line: str, name: str) -> dict[str, Any] | None:
    """What a page's first line says about the notebook; none where the page is not one of ours.

    Raises:
        NotebookFormatError: the line is ours, and cannot be understood.
    """
    found = _head.fullmatch(line.rstrip())
    return _about(found["about"], 1, name) if found else None


def regions_of(lines: Sequence[str], word: str, name: str, *, first: int) -> list[Region]:
    """The page's regions; lines before the first mark are a region of the kind ``end``.

    Raises:
        NotebookFormatError: a mark cannot be understood.
    """
    mark = re.compile(rf"<!-- {re.escape(word)}:(?P<kind>{_KINDS})(?: (?P<about>\{{.*\}}))? -->")
    regions: list[Region] = []
    about: dict[str, Any] = {}
    kind, begun = "end", -1
    for place, line in enumerate(lines):
        found = mark.fullmatch(line.rstrip()) if line.startswith(f"<!-- {word}:") else None
        if found is None:
            continue
        regions.append(Region(kind, about, first + begun, lines[begun + 1 : place]))
        kind, begun = found["kind"], place
        about = _about(found["about"], first + place, name) if found["about"] else {}
    regions.append(Region(kind, about, first + begun, lines[begun + 1 :]))
    return regions


def _inert(about: Mapping[str, Any] | None) -> str:
    """JSON that cannot end the comment it stands in."""
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    return re.sub(
        r"[>\r\n\x85\u2028\u2029]|(?<=-)-|[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text
    )


def _about(text: str, line: int, name: str) -> dict[str, Any]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise at_line(line, f"the comment's JSON cannot be read: {error}", name=name) from error
    return about if isinstance(about, dict) else {}
