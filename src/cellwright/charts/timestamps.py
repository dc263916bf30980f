"""Times as data files write them, in ISO 8601, as seconds on one axis and back. Knows no time zones but offsets.

A chart shows what a clock on the wall showed: an offset that is the same everywhere is left out, and times with
different ones are brought to UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from operator import sub

__all__ = ["clock", "looks_like_time", "on_one_axis", "parse_times"]

_FORM = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d(:?\d\d(:?\d\d([.,]\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?)?")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a clock on a wall has no zone
_MONTH_CHARACTERS = len("2026-01")
_LONGEST = len("2026-01-01T00:00:00.000000000+00:00")


def looks_like_time(text: str) -> bool:
    return len(text) <= _LONGEST and _FORM.fullmatch(text) is not None


def parse_times(texts: Sequence[str]) -> list[datetime]:
    """Read times; one of a month is its beginning.

    Raises:
        ValueError: a text is none.
    """
    try:
        return list(map(datetime.fromisoformat, texts))
    except ValueError:
        whole = [
            f"{text}-01" if len(text) == _MONTH_CHARACTERS and text[4] == "-" else text for text in texts
        ]
        return list(map(datetime.fromisoformat, whole))


def on_one_axis(texts: Sequence[str]) -> list[float]:
    """Seconds since 1970 by the clock on the wall, or by UTC where the texts have different offsets.

    Raises:
        ValueError: a text is no time.
    """
    times = parse_times(texts)
    # Without a step of Python for each: a million of them is what this is for.
    try:
        return list(map(timedelta.total_seconds, map(sub, times, repeat(_EPOCH))))
    except TypeError:  # there are offsets among them
        return list(map(timedelta.total_seconds, map(sub, _without_offsets(times), repeat(_EPOCH))))


def clock(seconds: float) -> str:
    """Back to text, in the form that every browser takes for the time on the reader's own wall."""
    try:
        time = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        time = datetime(9999, 12, 31) if seconds > 0 else datetime(1, 1, 1)  # noqa: DTZ001  # the calendar's ends
    return time.isoformat(timespec="milliseconds" if time.microsecond else "seconds")


def _without_offsets(times: list[datetime]) -> list[datetime]:
    if len({time.utcoffset() for time in times}) == 1:
        return [time.replace(tzinfo=None) for time in times]
    return [time.replace(tzinfo=None) if time.tzinfo is None else _in_utc(time) for time in times]


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # at the very ends of the calendar an offset leads out of it
        return time.replace(tzinfo=None)
