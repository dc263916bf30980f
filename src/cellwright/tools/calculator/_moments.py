"""Dates and times: differences, calendar months, working days, time zones. Knows no clock: now is given."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from fractions import Fraction
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from cellwright.errors import CalculationError, ExpressionInvalid
from cellwright.tools.calculator._units import DAY, SECOND
from cellwright.tools.calculator._values import MAX_ITEMS, Quantity, Unit

__all__ = ["between", "compare", "in_zone", "moved", "moved_months", "moved_workdays", "workdays"]

_DAY_S = 86_400
_MONTHS = 12
_SATURDAY = 5
_WORKDAYS = 5


def between(first: date, second: date) -> Quantity:
    """The time from one to the other: in days, or in seconds where they have times that are not whole days apart."""
    if not isinstance(first, datetime) and not isinstance(second, datetime):
        return Quantity(Fraction((second - first).days), Unit(((DAY, Fraction(1)),)))
    gap = _timed(second) - _timed(first)
    seconds = Fraction(gap.days * _DAY_S + gap.seconds) + Fraction(gap.microseconds, 1_000_000)
    if seconds % _DAY_S == 0:
        return Quantity(seconds / _DAY_S, Unit(((DAY, Fraction(1)),)))
    return Quantity(seconds, Unit(((SECOND, Fraction(1)),)))


def compare(first: date, second: date) -> int:
    one, other = _timed(first), _timed(second)
    return (one > other) - (one < other)


def moved(moment: date, seconds: Fraction) -> date:
    """The date or time that comes so many seconds later.

    Raises:
        CalculationError: it is before the year 1 or after 9999.
    """
    try:
        if not isinstance(moment, datetime) and seconds % _DAY_S == 0:
            return moment + timedelta(days=int(seconds // _DAY_S))
        start = (
            moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
        )  # a date has no zone
        # Seconds are those of a watch: the zone's own change of time does not lengthen them.
        gap = timedelta(days=int(seconds // _DAY_S), microseconds=int(seconds % _DAY_S * 1_000_000))
        return start + gap if start.tzinfo is None else (start.astimezone(UTC) + gap).astimezone(start.tzinfo)
    except (OverflowError, ValueError) as error:
        raise _beyond() from error


def moved_months(moment: date, months: int) -> date:
    """The same day so many months later, or the last of that month where it is shorter."""
    if abs(months) > 9999 * _MONTHS:
        raise _beyond()
    count = moment.year * _MONTHS + moment.month - 1 + months
    year, month = count // _MONTHS, count % _MONTHS + 1
    if not 1 <= year <= 9999:  # the years that there are
        raise _beyond()
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day)


def workdays(first: date, last: date) -> int:
    """The days from Monday to Friday from one date to another, both included."""
    if last < first:
        return -workdays(last, first)
    days = (last - first).days + 1
    weeks, rest = divmod(days, 7)
    return weeks * _WORKDAYS + sum((first.weekday() + extra) % 7 < _SATURDAY for extra in range(rest))


def moved_workdays(moment: date, count: int) -> date:
    """The date that is so many days from Monday to Friday later."""
    if abs(count) > MAX_ITEMS * 100:
        raise _beyond()
    step = 1 if count >= 0 else -1
    weeks, rest = divmod(abs(count), _WORKDAYS)
    try:
        there = moment + timedelta(days=7 * weeks * step)
        while rest or there.weekday() >= _SATURDAY:
            there += timedelta(days=step)
            rest -= there.weekday() < _SATURDAY and rest > 0
    except OverflowError as error:
        raise _beyond() from error
    return there


def in_zone(moment: datetime, name: str) -> datetime:
    """The same moment by the clocks of a time zone; a time without one is taken to be there already."""
    zone = _zone(name)
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


def _zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if not re.fullmatch(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+){0,2}", name) or name not in _zones():
        raise ExpressionInvalid(
            f"There is no time zone {name[:60]!r}", hint="Name one as in `to UTC` or `to Europe/Berlin`"
        )
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _timed(moment: date) -> datetime:
    if isinstance(moment, datetime):
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)


def _beyond() -> CalculationError:
    return CalculationError("The date is before the year 1 or after 9999", hint="Move by less")
