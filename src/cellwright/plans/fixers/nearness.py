"""What somebody may have meant by a word that is not there: the nearest of those that are, and how sure that is.

Pure text. Near is: the same but for case, separators and white space; or one slip of the fingers away. It is certain only
where one alone is near, and the word itself is none that somebody may have meant as it stands: a slip of a word that is
known, or of a name that a library or the language has. Of names that somebody made up, only the slips that tell what was
meant are certain; nobody knows whether `Iceland` was meant by `Ireland`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
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
_SOLID = 6
"""From this length on, one letter for another makes no other word that is likely."""
_UNIT_LENGTH = 3
"""Up to it, case may tell two things apart: `mW` and `MW`, `CO` and `Co`, `T` and `t`."""
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


def nearest(wanted: str, known: Iterable[str], public: Container[str] = ()) -> Near | None:
    """Those near to what was wanted, and whether it can only have been the first.

    ``public`` are those that a library or the language defines: nobody made up another that is near.
    """
    others = tuple(dict.fromkeys(one for one in known if one != wanted and len(one) <= _MAX_LENGTH))
    if not wanted.strip() or len(wanted) > _MAX_LENGTH:
        return None
    same = tuple(one for one in others if folded(one) == folded(wanted))
    if same:
        alike = same[0] in public or _is_same_in_any_case(wanted, same[0])
        return Near(same, certain=len(same) == 1 and alike and _numbers(same[0]) == _numbers(wanted))
    apart = sorted(
        (away, one) for one in others if (away := distance(folded(wanted), folded(one))) <= _reach(wanted)
    )
    close = tuple(one for away, one in apart if away == 1 and len(folded(wanted)) >= _SHORTEST)
    if not close:
        return None
    alone = len(apart) == 1 or (len(close) == 1 and _is_telling(folded(wanted), folded(close[0])))
    return Near(close, certain=alone and is_slip(wanted, close[0], public=close[0] in public))


def is_slip(wanted: str, known: str, *, public: bool = False) -> bool:
    """Whether one can only be the other misspelt: no other number, no other short part, no other word of its own.

    A word that differs at one of its ends is another one (``scaled`` and ``scaler``, ``xdata`` and ``ydata``), unless it
    is a ``public`` one, beside which nobody made up another.
    """
    if _numbers(wanted) != _numbers(known):
        return False
    ours, theirs = _words(wanted), _words(known)
    if len(ours) != len(theirs):
        ours, theirs = [_SEPARATORS.sub("", wanted)], [_SEPARATORS.sub("", known)]
    differing = [
        (one, other) for one, other in zip(ours, theirs, strict=True) if one.casefold() != other.casefold()
    ]
    inner = public or all(
        _is_telling(folded(a), folded(b)) or _is_inner(folded(a), folded(b)) for a, b in differing
    )
    return inner and all(_is_misspelt(one, other, public=public) for one, other in differing)


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


def _is_same_in_any_case(wanted: str, known: str) -> bool:
    """Whether case, of what differs in nothing else, can mean nothing."""
    length = len(folded(wanted))
    if length > _UNIT_LENGTH or folded(wanted) == "id":
        return True
    return length > 1 and (wanted.islower() or known.islower())


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def _is_misspelt(wanted: str, known: str, *, public: bool) -> bool:
    one, other = wanted.casefold(), known.casefold()
    least = MIN_LENGTH - 1 if public and sorted(one) == sorted(other) else MIN_LENGTH
    spelt_right = _is_word(one) and (_is_word(other) or not _lacks_a_letter(one, other))
    if min(len(one), len(other)) < least or _is_plural(one, other) or _is_plural(other, one) or spelt_right:
        return False
    of_a_word = _is_word(one) or _is_word(other)
    if _is_telling(one, other):
        # With a capital it may be somebody's, or some place's, name.
        return public or of_a_word or wanted.islower()
    if one[0] != other[0] or one[:-1] == other:
        return False
    if public:
        return of_a_word or len(one) != len(other) or len(one) >= _LONG
    # Another end makes another word; what lost its end may be cut short on purpose.
    same_end = one[-1] == other[-1]
    return of_a_word and same_end and (len(one) != len(other) or len(one) >= _SOLID)


def _is_plural(one: str, other: str) -> bool:
    return one in (other + "s", other + "es") or (other.endswith("is") and one == other[:-2] + "es")


def _is_word(text: str) -> bool:
    return text in WORDS or text.removesuffix("s") in WORDS


def _lacks_a_letter(wanted: str, known: str) -> bool:
    """Whether what is there is a long word that lost a letter, or has two of them swapped: no word of its own."""
    lost = any(wanted[:place] + wanted[place + 1 :] == known for place in range(1, len(wanted) - 1))
    return len(wanted) >= _LONG_WORD and (lost or sorted(wanted) == sorted(known))
