"""Every number of an answer, traced to an output or marked. Pure.

Traced is a number that an output has, rounded to the digits that are shown; as a share where a percentage is told; with
its thousands or millions said in a word; without its sign where the sentence says that something fell. What would have
to be worked out first, such as the difference of two outputs, is not traced: a cell can work it out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cellwright.agent.evidence.passages import link_ends
from cellwright.agent.evidence.readings import Meaning, Reading, figures_in, read_numbers

__all__ = [
    "MARK",
    "Correction",
    "Evidence",
    "EvidenceKind",
    "Traced",
    "TracedNumber",
    "rests_on_output",
    "trace_numbers",
]

MARK = " [not from an output]"

EvidenceKind: TypeAlias = Literal["output", "reply", "given"]
"""What a cell put out, what a tool replied, what the question said."""

_SURE_DIGITS = 3
_ROUNDING = 1e-9
_claims = re.compile(
    r"\b(?:the|a|this) (?:chart|plot|graph|figure|table|result|output|analysis|data) (?:\w+ )?(?:shows?|says?|tells?|"
    r"indicates?|suggests?|reveals?|confirms?)\b"
    r"|\bI (?:have )?(?:computed|calculated|analy[sz]ed|plotted|found|measured|ran|loaded|created|verified|checked)\b"
    r"|\b(?:the )?(?:highest|lowest|largest|smallest|most|least|best|worst|average|mean|median|total|maximum|minimum)\b"
    r"[^.?!\n]{0,80}\b(?:is|are|was|were|has|had)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that a number can come from."""

    source: str
    """Where it stands, in words: ``cell ab12cd34``, ``fetch``, ``the question``."""
    text: str = ""
    values: tuple[float, ...] = ()
    """Data in bulk: rows of a chart. Among thousands of them a number of one or two digits would always be found."""
    kind: EvidenceKind = "output"
    fresh: bool = True
    """Whether it is of this turn."""


@dataclass(frozen=True, slots=True)
class TracedNumber:
    """A number of the answer, and where it comes from."""

    text: str
    start: int
    end: int
    source: str | None
    """None where no output has it."""
    given: bool = False
    """Whether it is the asker's own."""


@dataclass(frozen=True, slots=True)
class Traced:
    """An answer whose numbers were looked up."""

    marked: str
    """The answer, with a mark behind each number that no output has, where it first stands."""
    numbers: tuple[TracedNumber, ...]

    @property
    def untraced(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.text for one in self.numbers if one.source is None))


@dataclass(frozen=True, slots=True)
class Correction:
    """Why an answer goes back to whoever gave it, and what to do."""

    text: str


def trace_numbers(text: str, evidence: Sequence[Evidence]) -> Traced:
    """Look up every number of an answer. A text that was marked before is marked anew."""
    text = text.replace(MARK, "")
    index = _Index(evidence)
    numbers = []
    for reading in read_numbers(text):
        found = index.find(reading)
        source, given = found if found is not None else (None, False)
        numbers.append(TracedNumber(reading.text, reading.start, reading.end, source, given))
    return Traced(_marked(text, numbers), tuple(numbers))


def rests_on_output(answer: str, evidence: Sequence[Evidence]) -> Correction | None:
    """What to tell a model whose answer claims something, and nothing was run in this turn that could bear it out.

    The caller leaves out what failed. What was asked back, or said without a finding, rests on nothing.
    """
    if any(one.fresh and one.kind != "given" for one in evidence):
        return None
    unborne = [one.text for one in trace_numbers(answer, evidence).numbers if one.source is None]
    if not unborne and not _claims.search(answer):
        return None
    named = f" ({', '.join(dict.fromkeys(unborne))})" if unborne else ""
    return Correction(
        f"The answer states findings{named}, but no cell ran successfully for this question. "
        "Run a cell that computes and prints what the answer says, then answer from its output. "
        "If the data cannot be had, say so and state no findings."
    )


def _marked(text: str, numbers: Iterable[TracedNumber]) -> str:
    links = link_ends(text)
    places: list[int] = []
    seen: set[str] = set()
    for number in numbers:
        if number.source is None and number.text not in seen:
            seen.add(number.text)
            around = (end for start, end in links if start < number.end < end)
            places.append(next(around, number.end))
    for place in sorted(places, reverse=True):
        text = f"{text[:place]}{MARK}{text[place:]}"
    return text


class _Index:
    """All values of the evidence, by size: outputs first, then what was given, then data in bulk."""

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        said = [one for one in evidence if one.kind != "given"]
        given = [one for one in evidence if one.kind == "given"]
        self._said = _Shelf((value, one.source) for one in said for value in figures_in(one.text))
        self._given = _Shelf((value, one.source) for one in given for value in figures_in(one.text))
        self._bulk = _Shelf((value, one.source) for one in evidence for value in one.values)

    def find(self, reading: Reading) -> tuple[str, bool] | None:
        """Where a number comes from, and whether that is the question."""
        for shelf, given in ((self._said, False), (self._given, True)):
            for meaning in reading.meanings:
                if (source := shelf.near(meaning, falls=reading.falls)) is not None:
                    return source, given
        for meaning in reading.meanings:
            if (source := self._in_bulk(meaning, falls=reading.falls)) is not None:
                return source, False
        sides = [self.find(part) for part in reading.parts]
        return next((side for side in sides if side is not None), None) if sides and all(sides) else None

    def _in_bulk(self, meaning: Meaning, *, falls: bool) -> str | None:
        if meaning.digits < _SURE_DIGITS:
            meaning = Meaning(meaning.value, 0.0, meaning.digits)
        return self._bulk.near(meaning, falls=falls)


class _Shelf:
    def __init__(self, entries: Iterable[tuple[float, str]]) -> None:
        held: dict[float, str] = {}
        for value, source in entries:
            held.setdefault(value, source)
        self._sources = held
        self._values = sorted(held)

    def near(self, meaning: Meaning, *, falls: bool) -> str | None:
        """The source of the value that this rounds to its digits."""
        found = self._between(meaning.value, meaning.within)
        if found is None and falls and meaning.value > 0:
            found = self._between(-meaning.value, meaning.within)
        return found

    def _between(self, value: float, within: float) -> str | None:
        # A half may be rounded either way, and neither is exact in binary.
        slack = within * _ROUNDING + abs(value) * 1e-12
        low = bisect_left(self._values, value - within - slack)
        high = bisect_right(self._values, value + within + slack)
        held = self._values[low:high]
        return self._sources[min(held, key=lambda one: abs(one - value))] if held else None
