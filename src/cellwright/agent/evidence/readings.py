"""Numbers as they are written: found in an answer, with what each can mean, and in outputs, with all that they hold.

Pure. A number in an answer has several meanings where writing is ambiguous: 12.3% is 12.3, and a share of 0.123.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cellwright.agent.evidence.passages import blanked

__all__ = ["Meaning", "Reading", "figures_in", "read_numbers"]

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
        return self.value == int(self.value) and self.within <= 0.5  # noqa: PLR2004  # half of a one


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
        if len(sides) == 2 and all(sides):  # noqa: PLR2004  # two sides
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
