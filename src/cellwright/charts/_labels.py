"""Numbers, times, names and labels in words, for digests, pictures and messages. Pure; knows no specs."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from operator import sub

from cellwright_kernel.tables import Value

__all__ = [
    "MISSING",
    "UNSEEN",
    "clock",
    "cut",
    "drawable",
    "label",
    "list_text",
    "listed",
    "looks_like_time",
    "number_text",
    "on_one_axis",
    "parse_times",
    "quoted",
    "suggestion",
    "time_text",
    "wrapped",
]
MISSING = "(missing)"

UNSEEN = "\u200b"

_LONGEST_LABEL = 60

_QUOTED_CHARACTERS = 60

_LISTED_NAMES = 12

# Below this a name is no slip of another but a word of its own.
_LIKENESS = 0.72

_BREAKS = "\t\r\n\v\f\x85\u2028\u2029"

# Vega looks names up in objects that have these from birth, and stumbles over a text that is one of them.
_VEGAS_OWN = frozenset(
    [
        "if",
        "constructor",
        "toString",
        "toLocaleString",
        "valueOf",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "__proto__",
        "__defineGetter__",
        "__defineSetter__",
        "__lookupGetter__",
        "__lookupSetter__",
    ]
)

_PLAIN_BELOW, _PLAIN_FROM = 1e15, 1e-4

_SIGNIFICANT = 5

_CALENDAR_S = (-62135596800, 253402300799)


def number_text(value: float) -> str:
    """A number for reading: thousands apart, five digits that matter."""
    if abs(value) < _PLAIN_BELOW and float(value).is_integer():
        return f"{int(value):,}"
    if not _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return f"{float(value):.4g}"
    whole_digits = len(str(int(abs(value))))
    return f"{value:,.{max(0, _SIGNIFICANT - whole_digits)}f}".rstrip("0").rstrip(".")


def time_text(seconds: float) -> str:
    """A time for reading, without the parts that are zero."""
    if not _CALENDAR_S[0] <= seconds <= _CALENDAR_S[1]:
        return number_text(seconds)
    time = datetime(1970, 1, 1) + timedelta(seconds=seconds)  # a clock on a wall has no zone
    if time.hour == time.minute == time.second == time.microsecond == 0:
        return f"{time:%Y-%m-%d}"
    return f"{time:%Y-%m-%d %H:%M}" if time.second == time.microsecond == 0 else f"{time:%Y-%m-%d %H:%M:%S}"


def label(value: Value) -> str:
    """A value as the name of a category or series: one line, not too long, never empty."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return cut(str(value), _LONGEST_LABEL)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _PLAIN_BELOW else f"{value:.10g}"
    return cut(drawable(value), _LONGEST_LABEL) or "(empty)"


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def wrapped(text: str, width: int, *, lines: int) -> list[str]:
    """Lines of about this width; a wide character counts twice, and what does not fit ends in an ellipsis."""
    plain = drawable(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in plain)
    width = max(8, round(width * len(plain) / (len(plain) + wide))) if plain else width
    return textwrap.wrap(plain, width, max_lines=lines, placeholder=" …") or [""]


def list_text(names: Sequence[str], *, at_most: int = 6) -> str:
    shown = ", ".join(names[:at_most])
    return f"{shown}, … ({len(names):,} in all)" if len(names) > at_most else shown


def quoted(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    if isinstance(value, str):
        text = repr(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=repr)
        except (ValueError, RecursionError):
            text = type(value).__name__
    return text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}…"


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them, the first dozen and how many more there are."""
    shown = ", ".join(name if name.isidentifier() else repr(name) for name in names[:_LISTED_NAMES])
    more = len(names) - _LISTED_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def suggestion(name: str, known: Sequence[str]) -> str:
    """`` — did you mean 'revenue'?``, or nothing where no known name is like it."""
    folded = {other.casefold().replace("_", ""): other for other in reversed(known)}
    near = difflib.get_close_matches(name.casefold().replace("_", ""), list(folded), 1, _LIKENESS)
    return f" — did you mean {folded[near[0]]!r}?" if near else ""


def drawable(text: str) -> str:
    """On one line, without what no picture can show, and no word that Vega takes for something of its own."""
    if not (text.isascii() and text.isprintable()):
        text = text.encode("utf-8", "replace").decode()
        text = "".join(" " if letter in _BREAKS else letter for letter in text if not _is_lost(letter))
    text = " ".join(text.split())
    return f"{text}{UNSEEN}" if text in _VEGAS_OWN else text


def _is_lost(letter: str) -> bool:
    if letter in _BREAKS:
        return False
    return unicodedata.category(letter) in ("Cc", "Co") or letter in "\ufffe\uffff"


# Times as data files write them, in ISO 8601, as seconds on one axis and back. Knows no time zones but
# offsets.

_FORM = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d(:?\d\d(:?\d\d([.,]\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?)?")

_EPOCH = datetime(1970, 1, 1)  # a clock on a wall has no zone

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
        time = datetime(9999, 12, 31) if seconds > 0 else datetime(1, 1, 1)  # the calendar's ends
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
