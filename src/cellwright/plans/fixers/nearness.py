"""What somebody may have meant by a word that is not there: the nearest of those that are, and how sure that is.

Pure text. Near is: the same but for case, separators and white space; or one slip of the fingers away. It is certain only
where one alone is near, and the word itself is none that somebody may have meant as it stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from cellwright.plans.fixers.words import WORDS

__all__ = ["Near", "distance", "folded", "is_slip", "nearest"]

MIN_LENGTH = 4
"""Below it, one slip makes another word too easily."""

_SHORTEST = 3
"""Below it, one slip is no likeness."""

_LONG = 5
"""From this length on, two slips are still near: another such word makes it unsure."""

_LONG_WORD = 7
_MAX_LENGTH = 200
_SEPARATORS = re.compile(r"[\s_\-\ufeff\u200b]+")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Near:
    """What is near, the nearest first."""

    found: tuple[str, ...]
    certain: bool

    @property
    def best(self) -> str:
        return self.found[0]

    @property
    def listed(self) -> str:
        return " or ".join(repr(one) for one in self.found[:5])


def nearest(wanted: str, known: Iterable[str]) -> Near | None:
    """Those near to what was wanted, and whether it can only have been the first."""
    others = tuple(dict.fromkeys(one for one in known if one != wanted and len(one) <= _MAX_LENGTH))
    if not wanted.strip() or len(wanted) > _MAX_LENGTH:
        return None
    same = tuple(one for one in others if folded(one) == folded(wanted))
    if same:
        return Near(same, certain=len(same) == 1 and _numbers(same[0]) == _numbers(wanted))
    apart = sorted(
        (away, one) for one in others if (away := distance(folded(wanted), folded(one))) <= _reach(wanted)
    )
    close = tuple(one for away, one in apart if away == 1 and len(folded(wanted)) >= _SHORTEST)
    if not close:
        return None
    alone = len(apart) == 1 or (len(close) == 1 and _is_telling(folded(wanted), folded(close[0])))
    return Near(close, certain=alone and is_slip(wanted, close[0]))


def is_slip(wanted: str, known: str, *, at_ends: bool = False) -> bool:
    """Whether one can only be the other misspelt: no other number, no other short part, no other word of its own.

    A word that differs at one of its ends is another one (``scaled`` and ``scaler``, ``xdata`` and ``ydata``), but
    where ``at_ends`` says that nothing else can be meant.
    """
    if _numbers(wanted) != _numbers(known):
        return False
    ours, theirs = _words(wanted), _words(known)
    if len(ours) != len(theirs):
        ours, theirs = [folded(wanted)], [folded(known)]
    differing = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
    inner = at_ends or all(_is_telling(one, other) or _is_inner(one, other) for one, other in differing)
    return inner and all(_is_misspelt(one, other) for one, other in differing)


def folded(text: str) -> str:
    """The text without what people leave out or mix up: case, separators, white space."""
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", text).casefold())


def distance(one: str, other: str, limit: int = 2) -> int:
    """How many letters were left out, put in, changed, or swapped with the next; ``limit + 1`` if more than the limit."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, against in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                best = min(best, last[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _is_telling(wanted: str, known: str) -> bool:
    """Whether the slip itself tells what was meant: two letters swapped, or one doubled or not."""
    return sorted(wanted) == sorted(known) or _undoubled(wanted) == _undoubled(known)


def _is_inner(wanted: str, known: str) -> bool:
    return wanted[:1] == known[:1] and wanted[-1:] == known[-1:]


def _undoubled(text: str) -> str:
    return re.sub(r"(.)\1", r"\1", text)


def _reach(wanted: str) -> int:
    return 2 if len(folded(wanted)) >= _LONG else 1


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(unicodedata.normalize("NFKC", text))]


def _is_misspelt(wanted: str, known: str) -> bool:
    plural = wanted in (known + "s", known + "es") or known in (wanted + "s", wanted + "es")
    spelt_right = _is_word(wanted) and (_is_word(known) or not _lacks_a_letter(wanted, known))
    least = MIN_LENGTH - 1 if sorted(wanted) == sorted(known) else MIN_LENGTH
    return min(len(wanted), len(known)) >= least and not plural and not spelt_right


def _is_word(text: str) -> bool:
    return text in WORDS or text.removesuffix("s") in WORDS


def _lacks_a_letter(wanted: str, known: str) -> bool:
    """Whether what is there is a long word that lost a letter, or has two of them swapped: no word of its own."""
    lost = any(wanted[:place] + wanted[place + 1 :] == known for place in range(1, len(wanted) - 1))
    return len(wanted) >= _LONG_WORD and (lost or sorted(wanted) == sorted(known))
