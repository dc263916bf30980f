"""Values added up, or rows counted, for each category and series: exact, over all rows of the table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from cellwright.charts.drawings import plural
from cellwright.charts.encodings import Encodings
from cellwright.charts.fields import quoted
from cellwright.charts.readings import Readings, exact
from cellwright.errors import ChartRefused

__all__ = ["Tally", "tally"]

Key = tuple[str, str]


@dataclass(slots=True)
class Tally:
    what: str
    """What the numbers are: ``revenue``, ``sum of revenue``, ``count``."""
    values: dict[Key, float]
    whole: bool
    notices: list[str] = field(default_factory=list)

    @property
    def lowest(self) -> float:
        return min(self.values.values(), default=0)

    def weights(self, part: int) -> dict[str, float]:
        """How much belongs to each category (0) or series (1), in the order in which they came."""
        weights: dict[str, float] = {}
        for key, value in self.values.items():
            weights[key[part]] = weights.get(key[part], 0) + abs(value)
        return weights

    def leave_out(self, category: str) -> float:
        """Take a category out, and return what it came to."""
        kept = {key: value for key, value in self.values.items() if key[0] != category}
        gone = sum(value for key, value in self.values.items() if key[0] == category)
        self.values = kept
        return gone

    def merge(self, folding: Mapping[str, str], part: int) -> None:
        """Add up what a folding puts together."""
        merged: dict[Key, float] = {}
        for (category, series), value in self.values.items():
            key = (folding[category], series) if part == 0 else (category, folding[series])
            merged[key] = exact(merged.get(key, 0) + value)
        self.values = merged


def tally(encodings: Encodings, readings: Readings, categories: Sequence[str]) -> Tally:
    groups = readings.names(encodings.group) if encodings.group is not None else None
    if not categories:
        raise ChartRefused(f"{readings.output.source} has no rows")
    if not encodings.y:
        return _counted(categories, groups or [""] * len(categories))
    sums: dict[Key, float] = {}
    counts: dict[Key, int] = {}
    notices = []
    for name in encodings.y:
        numbers = readings.numbers(name, "yColumn")
        missing = numbers.count(None)
        if missing:
            notices.append(f"{quoted(name)}: {plural(missing, 'row')} without a value")
        _add(sums, counts, categories, _series_of(readings.title(name), groups, encodings), numbers)
    repeated = any(count > 1 for count in counts.values())
    named = encodings.y[0] if len(encodings.y) == 1 else "values"
    if repeated:
        notices.append(
            f"several rows share a bar: {named} are added up"
            if named == "values"
            else f"several rows share a bar: {named} is added up"
        )
    whole = all(isinstance(value, int) for value in sums.values())
    return Tally(f"sum of {named}" if repeated else named, sums, whole, notices)


def _counted(categories: Sequence[str], groups: Sequence[str]) -> Tally:
    counts: dict[Key, float] = {}
    counts.update(Counter(zip(categories, groups, strict=True)))
    return Tally("count", counts, whole=True)


def _series_of(name: str, groups: Sequence[str] | None, encodings: Encodings) -> Sequence[str] | str:
    """A name for all rows, or one for each."""
    if groups is None:
        return name
    return groups if len(encodings.y) == 1 else [f"{name}, {group}" for group in groups]


def _add(
    sums: dict[Key, float],
    counts: dict[Key, int],
    categories: Sequence[str],
    series: Sequence[str] | str,
    numbers: Sequence[float | None],
) -> None:
    keys = zip(categories, repeat(series) if isinstance(series, str) else series, strict=False)
    found: defaultdict[Key, list[float | None]] = defaultdict(list)
    for key, number in zip(keys, numbers, strict=True):
        found[key].append(number)
    for key, every in found.items():
        held = [number for number in every if number is not None] if None in every else every
        if held:
            sums[key] = exact(sums.get(key, 0) + sum(held))  # type: ignore[arg-type]  # none is None
            counts[key] = counts.get(key, 0) + len(held)
