"""Answers that stand in text as ``@name[value]``: found, compared, and scored. Pure.

The names of the three scores are DABench's: by question (all parts right), by part, and proportional (the share of
right parts, averaged over questions). Two values are the same where the set's own comparison says so, which is
character by character or as numbers to 1e-6; beyond that, what is only writing is forgiven: case, quotes, spaces,
thousands separators, a percent sign, zeros at the end, and brackets around a list. A rounding is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose

__all__ = ["Scores", "find_answers", "same_answer", "score", "settle"]

_name = re.compile(r"@([A-Za-z_]\w*)\s*\[")
_thousands = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Scores:
    """What came of many questions, each in parts."""

    questions: int
    by_question: float
    by_part: float
    proportional: float


def find_answers(text: str) -> dict[str, tuple[str, ...]]:
    """Every ``@name[value]`` of a text by its name in small letters; of one name the last counts.

    A value that holds brackets can be read in two ways, up to the first closing one or up to its own. Both are given.
    """
    found = {}
    for match in _name.finditer(text):
        rest = text[match.end() :]
        short = rest.partition("]")[0]
        whole = rest[: _closing(rest)]
        found[match[1].lower()] = tuple(dict.fromkeys((whole.strip(), short.strip())))
    return found


def same_answer(given: str, expected: str) -> bool:
    """Whether two values are the same but for how they are written."""
    ours, theirs = _plain(given), _plain(expected)
    if ours == theirs or _same_number(ours, theirs):
        return True
    parts, wanted = _parts(ours), _parts(theirs)
    if len(parts) != len(wanted) or len(wanted) < 2:
        return False
    return all(one == other or _same_number(one, other) for one, other in zip(parts, wanted, strict=True))


def settle(text: str, expected: Mapping[str, str]) -> dict[str, bool]:
    """Which of the expected answers a text has."""
    found = find_answers(text)
    return {
        name: any(same_answer(value, wanted) for value in found.get(name.lower(), ()))
        for name, wanted in expected.items()
    }


def score(settled: Iterable[Mapping[str, bool]]) -> Scores:
    """The three scores; of nothing, nothing."""
    parts: Sequence[list[bool]] = [list(each.values()) for each in settled if each]
    if not parts:
        return Scores(0, 0.0, 0.0, 0.0)
    return Scores(
        len(parts),
        sum(all(each) for each in parts) / len(parts),
        sum(map(sum, parts)) / sum(map(len, parts)),
        sum(sum(each) / len(each) for each in parts) / len(parts),
    )


def _closing(text: str) -> int:
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if not depth:
            return at
    return len(text)


def _plain(value: str) -> str:
    text = " ".join(value.strip().strip("`'\"").lower().split())
    if text.startswith("[") and text.endswith("]") and len(text) > 1:
        text = text[1:-1].strip()
    return text.strip("'\"")


def _parts(text: str) -> list[str]:
    return [part.strip().strip("'\"{}()") for part in re.split(r"[,;]", text)]


def _same_number(ours: str, theirs: str) -> bool:
    one, other = _number(ours), _number(theirs)
    return one is not None and other is not None and isclose(one, other, rel_tol=0, abs_tol=_TOLERANCE)


def _number(text: str) -> float | None:
    try:
        return float(_thousands.sub("", text).removesuffix("%").replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        return None
