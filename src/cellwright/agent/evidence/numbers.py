"""Every number of an answer, traced to an output or marked. Pure.

Traced is a number that an output has, rounded to the digits that are shown; as a share where a percentage is told; with
its thousands or millions said in a word; without its sign where the sentence says that something fell. What would have
to be worked out first, such as the difference of two outputs, is not traced: a cell can work it out.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

__all__ = ["MARK", "Evidence", "read_numbers", "rests_on_output", "trace_numbers"]
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


# Numbers as they are written: found in an answer, with what each can mean, and in outputs, with all that
# they hold.

_GROUPS = "[ ,\u202f\u00a0\u2009_\u2019']"

_DIGITS = (
    rf"\d{{1,3}}(?:{_GROUPS}\d{{3}})+(?![\d])(?:\.\d+)?"  # 1,234.5
    r"|\d{1,3}(?:\.\d{3})+,\d+"  # 1.234,5
    r"|\d{1,3}(?:\.\d{3}){2,}(?![\d.])"  # 1.234.567
    r"|\d+,\d{1,2}(?![\d,])"  # 1,5
    r"|\d+\.\d+|\.\d+|\d+"
)

_number = re.compile(
    r"(?<![\w.])(?P<sign>[-\u2212+±]?)(?P<currency>(?:USD|EUR|GBP|CHF|[$€£¥])\s?)?(?P<inner>[-\u2212]?)"
    rf"(?P<digits>{_DIGITS})(?P<power>[eE][+\u2212-]?\d+|\s?[\u00d7x·*]\s?10(?:\^|\*\*)?\{{?[+\u2212-]?\d+\}}?)?"
    r"(?P<percent>\s?%|\s?‰|[\s-]per\s?cent(?:age)?(?:\spoints?)?\b|\s?pp\b|\spercentage\spoints?\b)?"
    r"(?P<scale>(?:\s|-)?(?:thousand|million|billion|trillion|mio|mrd|mn|bn|tn)\b|[kKMBTm](?![A-Za-z]))?"
)

_ratio = re.compile(r"(?<![\w.:/,])(\d+(?:\.\d+)?)\s?([:/])\s?(\d+(?:\.\d+)?)(?![\w:/]|[.,]\d)")

_identifier = re.compile(r"[A-Za-z]*\d|[A-Za-z]{6,}|_")

_unit = re.compile(r"(?:°?[A-Za-zµ\u00d7]{1,5}\b)?")

_range = re.compile(r"\s?(?:[-\u2013\u2014]|to|and)\s?[$€£¥]?", re.IGNORECASE)

_about = re.compile(
    r"(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|circa|ca\.?|~|≈)\s*[$€£¥]?$",
    re.IGNORECASE,
)

_falls = re.compile(
    r"\b(?:f[ea]ll(?:s|en|ing)?|decreas\w*|declin\w*|dropp?\w*|down|lower\w*|loss\w*|lost|shr[aiu]nk\w*|reduc\w*|"
    r"less|below|negative\w*|minus|worse\w*|cut|deficit|under|slump\w*|plung\w*|contract\w*|inverse\w*)\b",
    re.IGNORECASE,
)

_sentence = re.compile(r"[.!?;]\s|\n")

_SCALES = {
    "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "mio": 1e6, "mn": 1e6,
    "b": 1e9, "bn": 1e9, "billion": 1e9, "mrd": 1e9, "t": 1e12, "tn": 1e12, "trillion": 1e12,
}  # fmt: skip

_EXACT_DIGITS = 3

_NEAR = 80


@dataclass(frozen=True, slots=True)
class Meaning:
    """A value that a number can stand for, and half of the last place that it shows."""

    value: float
    within: float
    digits: int
    """How many of its digits count."""

    @property
    def is_whole(self) -> bool:
        return self.value == int(self.value) and self.within <= 0.5  # half of a one


@dataclass(frozen=True, slots=True)
class Reading:
    """A number in an answer."""

    text: str
    start: int
    end: int
    meanings: tuple[Meaning, ...]
    parts: tuple[Reading, ...] = ()
    """Of a ratio its two sides, and of what may be a list its members: all of them stand for it."""
    falls: bool = False
    """Whether the sentence says that something fell: a negative output is told without its sign then."""


def read_numbers(text: str) -> list[Reading]:
    """Every number that an answer claims, in order. Dates, names, labels, code, headings and list marks are none."""
    looked_at = blanked(text)
    found: list[Reading] = []
    for ratio in _ratio.finditer(looked_at):
        sides = [_read(looked_at, side) for side in _number.finditer(looked_at, *ratio.span())]
        if len(sides) == 2 and all(sides):  # two sides
            found.append(_ratio_reading(ratio, tuple(side for side in sides if side is not None)))
    pieces, done = [], 0
    for one in found:
        pieces += [looked_at[done : one.start], " " * (one.end - one.start)]
        done = one.end
    rest = "".join([*pieces, looked_at[done:]])
    found += [reading for match in _number.finditer(rest) if (reading := _read(rest, match)) is not None]
    return _with_shared_units(looked_at, sorted(found, key=lambda one: one.start))


def figures_in(text: str) -> Iterator[float]:
    """Every value that stands in an output, in every way in which it can be read."""
    for match in _number.finditer(text):
        if _continues(text, match.end("digits")):
            continue
        digits = match["digits"]
        if len(parts := re.split(_GROUPS, digits)) > 1:
            yield from (float(part) for part in parts if _is_plain(part))
        for value, _ in _values(digits):
            signed = _signed(text, match, value * _power(match["power"]))
            if not math.isfinite(signed):
                continue
            yield signed
            if match["percent"] and "%" in match["percent"]:
                yield signed / 100
            if match["scale"] and (scale := _scale(match)) is not None:
                yield signed * scale


# One number ----------------------------------------------------------------------------------------------------------


def _read(text: str, match: re.Match[str]) -> Reading | None:
    if _continues(text, match.end("power") if match["power"] else match.end("digits"), match):
        return None
    start = match.start()
    if match["sign"] and not _is_sign(text, match):
        start += 1
    before = text[max(0, start - _NEAR) : start]
    told = [_meaning(value, step, match, text) for value, step in _values(match["digits"])]
    meanings = [meaning for each in told for meaning in _scaled(each, match)]
    if _about.search(before):
        meanings += [_roughly(meaning) for meaning in meanings if meaning.is_whole]
    if match["percent"] and "‰" not in match["percent"]:
        meanings += [replace(one, value=one.value / 100, within=one.within / 100) for one in meanings]
    end = _unit.match(text, match.end()).end()  # type: ignore[union-attr]  # it matches nothing, too
    shown = text[start:end].rstrip()
    falls = _tells_of_fall(text, start, end)
    return Reading(shown, start, start + len(shown), tuple(meanings), _listed(match, start), falls)


def _listed(match: re.Match[str], start: int) -> tuple[Reading, ...]:
    """1,5 may be two numbers, and so may 100 200."""
    if not re.fullmatch(r"\d+,\d{1,2}|\d{1,3}(?: \d{3})+", match[0]):
        return ()
    return tuple(
        Reading(part, start, match.end(), (Meaning(float(part), 0.5, len(part)),))
        for part in re.split("[ ,]", match[0])
    )


def _continues(text: str, end: int, match: re.Match[str] | None = None) -> bool:
    """Whether what stands behind the digits makes a name of them."""
    if match is not None and match.end() > end:
        return False
    return _identifier.match(text, end) is not None


def _values(digits: str) -> list[tuple[float, float]]:
    """What digits can mean, each with its last place."""
    if re.fullmatch(r"\d+,\d{1,2}", digits):
        return [_plain(digits.replace(",", "."))]
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", digits):
        return [_plain(digits.replace(".", "").replace(",", "."))]
    if digits.count(".") > 1:
        return [_plain(digits.replace(".", ""))]
    plain = _plain(re.sub(_GROUPS, "", digits))
    if re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", digits):
        return [plain, _plain(digits.replace(".", ""))]
    return [plain]


def _plain(digits: str) -> tuple[float, float]:
    decimals = len(digits.partition(".")[2])
    return float(digits), 10.0**-decimals


def _is_plain(part: str) -> bool:
    return part.replace(".", "", 1).isdigit()


def _meaning(value: float, step: float, match: re.Match[str], text: str) -> Meaning:
    power = _power(match["power"])
    digits = match["digits"].lstrip("0.,").replace(".", "").replace(",", "")
    counted = len(re.sub(r"\D", "", digits)) or 1
    return Meaning(_signed(text, match, value * power), step * power / 2, counted)


def _power(power: str | None) -> float:
    if not power:
        return 1.0
    exponent = re.findall(r"[+-]?\d+", power.replace("\u2212", "-"))[-1]
    return 10.0 ** max(-400, min(300, int(exponent)))


def _signed(text: str, match: re.Match[str], value: float) -> float:
    return -value if match["inner"] or (match["sign"] in ("-", "\u2212") and _is_sign(text, match)) else value


def _is_sign(text: str, match: re.Match[str]) -> bool:
    """A dash between two numbers is a range's."""
    before = text[match.start() - 1 : match.start()]
    return bool(match["sign"]) and not (before.isalnum() or before in (")", "%", "]"))


def _scaled(meaning: Meaning, match: re.Match[str]) -> list[Meaning]:
    scale = _scale(match)
    if scale is None:
        return [meaning]
    scaled = replace(meaning, value=meaning.value * scale, within=meaning.within * scale)
    # A column may hold millions already; few digits would be found in any output.
    return [scaled, meaning] if meaning.digits >= _EXACT_DIGITS else [scaled]


def _scale(match: re.Match[str]) -> float | None:
    name = (match["scale"] or "").strip(" -.\u00a0").lower()
    if name == "m" and "M" not in match["scale"] and not match["currency"]:
        return None  # metres
    return _SCALES.get(name)


def _roughly(meaning: Meaning) -> Meaning:
    """Without the zeros at its end: about 1,200 is anything from 1,150 to 1,250."""
    step, value = meaning.within * 2, abs(meaning.value)
    while value and value % (step * 10) == 0:
        step *= 10
    return replace(meaning, within=step / 2)


def _tells_of_fall(text: str, start: int, end: int) -> bool:
    before = _sentence.split(text[max(0, start - _NEAR) : start])[-1]
    behind = _sentence.split(text[end : end + _NEAR // 2])[0]
    return bool(_falls.search(before) or _falls.search(behind))


# Several numbers -----------------------------------------------------------------------------------------------------


def _ratio_reading(ratio: re.Match[str], sides: tuple[Reading, ...]) -> Reading:
    over, under = (side.meanings[0] for side in sides)
    meanings: tuple[Meaning, ...] = ()
    if under.value:
        within = over.within / under.value
        meanings = (Meaning(over.value / under.value, within, max(over.digits, under.digits)),)
    shown = ratio[0].rstrip()
    return Reading(shown, ratio.start(), ratio.start() + len(shown), meanings, sides)


def _with_shared_units(text: str, readings: list[Reading]) -> list[Reading]:
    """10-20% is 10% to 20%, and 3 to 5 million three million."""
    for place in range(len(readings) - 1):
        one, other = readings[place], readings[place + 1]
        between = text[one.end : other.start]
        if one.parts or not re.fullmatch(r"[\d.,$€£¥ -]+", one.text) or not _range.fullmatch(between):
            continue
        unit = re.search(r"[^\d.,]+$", other.text)
        if unit is None or (again := _number.fullmatch(one.text + unit[0])) is None:
            continue
        shared = _read(again.string, again)
        if shared is not None:
            readings[place] = replace(one, meanings=(*one.meanings, *shared.meanings))
    return readings


# Which passages of an answer hold no numbers of its own: code, links, headings, dates, names, labels. Pure.

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)

_YEAR = r"(?:19|20)\d\d"

_ENDS = r"(?![\w%]|[.,:]\d)"

_FILES = "csv|tsv|jsonl?|parquet|xlsx?|ipynb|py|txt|md|png|jpe?g|svg|html?|pdf|db|sqlite|feather|arrow|zip|gz|ya?ml|toml"

_LABELS = (
    "cells?|steps?|figures?|figs?|tables?|charts?|sections?|parts?|options?|pages?|versions?|questions?|notes?|"
    "footnotes?|appendix|chapters?|equations?|items?|lines?|exhibits?|todos?|attempts?|python|pandas|numpy|"
    "quarters?|weeks?|phases?|methods?|ports?|no|nr"
)

# What a bare number of four digits counts, where it is no year.
_COUNTED = (
    "rows?|records?|entries|observations?|samples?|values?|points?|people|units?|dollars?|euros?|pounds?|usd|eur|gbp|"
    "km|kg|m|g|columns?|customers?|users?|times|thousand|million|billion|trillion|per ?cent|percentage"
)

_COMPOUNDS = "fold|days?|years?|months?|weeks?|hours?|minutes?|sided|tailed|dimensional|d|digits?|steps?|way|bit|cells?|nearest"

_PASSAGES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"^(?P<fence>```+|~~~+)[^\n]*\n.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL),
        (r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)", re.DOTALL),
        (r"^ {0,3}#{1,6}[ \t][^\n]*$", re.MULTILINE),
        (r"^[^\n|]+\n(?=={2,}[ \t]*$)", re.MULTILINE),
        (r"<!--.{0,2000}?-->|</?[A-Za-z][^<>\n]*>", re.DOTALL),
        (r"!\[[^\[\]\n]*\]\([^()\n]*\)", 0),
        (r"(?<=\])\([^()\n]*\)|(?<=\])\[[^\[\]\n]*\]|\[\^?\d+\]", 0),
        (r"\b(?:https?|ftp|file|cellwright)://[^\s<>)\]]+|\bwww\.[^\s<>)\]]+", re.IGNORECASE),
        (r"^[ \t>]*(?:[-*+][ \t]+)?\(?\d{1,3}[.)](?=[ \t])", re.MULTILINE),
        (rf"(?<![\w./~-])[\w./~-]*[\w-]\.(?:{_FILES})\b", re.IGNORECASE),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
        (r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", 0),
        # Dates and times.
        (
            rf"\b{_YEAR}-[01]\d(?:-[0-3]\d)?"
            r"(?:[T _]?[0-2]\d[:-]?[0-5]\d(?:[:-]?[0-5]\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?" + _ENDS,
            0,
        ),
        (rf"\b{_YEAR}[01]\d[0-3]\d(?:[T_-]?\d{{4,6}})?{_ENDS}", 0),
        (rf"\b\d{{1,2}}([/.])\d{{1,2}}\1(?:{_YEAR}|\d\d){_ENDS}", 0),
        (
            rf"\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:\s?[-\u2013]\s?\d{{1,2}})?(?:,?\s+{_YEAR})?{_ENDS}",
            0,
        ),
        (rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?\b", 0),
        (r"\b[0-2]?\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s?[ap]\.?m\.?)?" + _ENDS, re.IGNORECASE),
        (r"\b\d{1,2}\s?[ap]\.?m\b\.?", re.IGNORECASE),
        (
            rf"(?<![\w.,$€£¥]){_YEAR}\s?[-\u2013/]\s?(?:{_YEAR}|\d\d){_ENDS}(?!\s+(?:{_COUNTED})\b)",
            re.IGNORECASE,
        ),
        (
            rf"(?<![\w.,$€£¥+\u2212-]){_YEAR}(?:['\u2019]?s\b|{_ENDS})(?!\s*%|\s+(?:{_COUNTED})\b)",
            re.IGNORECASE,
        ),
        # Names and labels.
        (r"\b\d+(?:\.\d+)?(?:st|nd|rd|th)\b|\b24/7\b", re.IGNORECASE),
        (r"(?<![\w-])(?!(?:USD|EUR|GBP|CHF)\d)[A-Za-z_][\w-]*\d[\w-]*(?:\.\d+)*", 0),
        (r"\bv?\d+\.\d+\.\d+(?:\.\d+)*\b(?![,.]\d)", 0),
        (
            rf"\b(?:{_LABELS})\.?\s+#?\d+(?:\.\d+)?(?:(?:\s?[-\u2013]\s?|\s?,\s?|\s+and\s+|\s+to\s+)\d+)*{_ENDS}",
            re.IGNORECASE,
        ),
        (r"(?<!\w)#\d+\b", 0),
        (rf"\b\d+-(?:{_COMPOUNDS})\b", re.IGNORECASE),
        # What is agreed upon, and not found.
        (
            r"\b(?:90|95|98|99|99\.9)\s?%[ -](?=(?:confidence|credible|prediction|ci\b|interval))",
            re.IGNORECASE,
        ),
        (
            r"\b[p\u03b1]\s?(?:-?values?)?\s?(?:[<>≤≥]=?|below|above|under)\s?0?\.0*[15]\b(?!\d)",
            re.IGNORECASE,
        ),
        (r"\b(?:1|5|10)\s?%(?=\s+(?:significance|level))|\b(?:alpha|\u03b1)\s?=\s?0?\.\d+\b", re.IGNORECASE),
    )
)

_link = re.compile(r"\[[^\[\]\n]*\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")


def blanked(text: str) -> str:
    """The same text, of the same length, with spaces where no number counts."""
    for passage in _PASSAGES:
        text = passage.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def link_ends(text: str) -> list[tuple[int, int]]:
    """Where links begin and end: nothing is written inside of one."""
    return [found.span() for found in _link.finditer(text)]
