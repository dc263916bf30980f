"""Units by their names: times and angles from here, all others from pint, which is loaded on first need.

Pint's own parser evaluates what it is given, so it is never given any text: one name is looked up, one unit of it is
converted, and what is kept is two numbers and a dimension. Nothing that an expression says reaches its registry.
"""

from __future__ import annotations

import re
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from threading import Lock
from typing import Any

from cellwright.errors import CalculationError, ExpressionInvalid
from cellwright.tools.calculator._arithmetic import Arithmetic
from cellwright.tools.calculator._elementary import PI
from cellwright.tools.calculator._values import Dimension, Measure, Meter, Real

__all__ = ["DAY", "SECOND", "find_measure", "near_names"]

_TIME: Dimension = (("time", Fraction(1)),)
DAY = Measure("days", "day", Fraction(86_400), _TIME)
SECOND = Measure("s", "second", Fraction(1), _TIME)

_YEAR = Fraction(31_557_600)
_OWN: dict[str, tuple[Real, Dimension, tuple[str, ...]]] = {
    "second": (Fraction(1), _TIME, ("s", "sec", "secs", "second", "seconds")),
    "minute": (Fraction(60), _TIME, ("min", "mins", "minute", "minutes")),
    "hour": (Fraction(3_600), _TIME, ("h", "hr", "hrs", "hour", "hours")),
    "day": (Fraction(86_400), _TIME, ("d", "day", "days")),
    "week": (Fraction(604_800), _TIME, ("week", "weeks")),
    "month": (_YEAR / 12, _TIME, ("month", "months")),
    "year": (_YEAR, _TIME, ("yr", "year", "years")),
    "radian": (Fraction(1), (), ("rad", "radian", "radians")),
    "degree": (Arithmetic(Meter()).context.divide(PI, Decimal(180)), (), ("deg", "degree", "degrees")),
    "turn": (
        Arithmetic(Meter()).context.multiply(PI, Decimal(2)),
        (),
        ("turn", "turns", "revolution", "revolutions"),
    ),
}
_BUILT_IN = {
    name: Measure(name, canonical, factor, dimension)
    for canonical, (factor, dimension, names) in _OWN.items()
    for name in names
}
_ALIASES = {
    "KB": "kilobyte",
    "Kb": "kilobit",
    "kmh": "kph",
    "fahrenheit": "degF",
    "sqft": "square_foot",
    "cc": "cm3",
}
_CURRENCY_NAMES = """
    USD EUR GBP JPY CNY CHF CAD AUD NZD INR BRL MXN SEK NOK DKK PLN CZK HUF RUB TRY ZAR KRW SGD HKD THB IDR ILS BTC ETH
    dollar dollars euro euros yen yuan rupee rupees cent cents franc francs bitcoin
"""
_CURRENCIES = frozenset(_CURRENCY_NAMES.split())
_DIMENSIONS = {
    "meter": "length",
    "gram": "mass",
    "second": "time",
    "ampere": "current",
    "kelvin": "temperature",
    "mole": "substance",
    "candela": "luminosity",
    "bit": "information",
}
_PLAIN = re.compile(r"[A-Za-zµμΩÅ][A-Za-z0-9_µμΩÅ]*")
_LONGEST_NAME = 60
_SHORT_BITS = 130
"""Longer fractions are not definitions: pi is in them."""


def find_measure(name: str) -> Measure | None:
    """The unit of that name, or nothing.

    Raises:
        CalculationError: it is a currency, or a scale that cannot be calculated with, or pint is not installed.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if name in _CURRENCIES:
        raise CalculationError(
            f"{name} is a currency, and there are no exchange rates here",
            hint="Write the rate as a number, as in `120 * 1.08`",
        )
    if len(name) > _LONGEST_NAME or not _PLAIN.fullmatch(name) or "__" in name or name.startswith("_"):
        return None
    return _measure_of_pint(name)


def near_names(name: str) -> list[str]:
    """Units whose names look like this one, where pint is there to know any."""
    try:
        known = _known_names()
    except CalculationError:
        known = tuple(_BUILT_IN)
    return get_close_matches(name[:_LONGEST_NAME], known, n=3, cutoff=0.7)


_loading = Lock()


@lru_cache(maxsize=1)
def _registry() -> Any:
    try:
        import pint  # an extra, and 0.4 s of start
    except ImportError as error:
        raise CalculationError(
            f"Units need {error.name or 'pint'}, which is not installed",
            hint="pip install 'cellwright[calculator]'",
        ) from error
    return pint.UnitRegistry(non_int_type=Fraction, cache_folder=None, on_redefinition="raise")


@lru_cache(maxsize=1)
def _known_names() -> tuple[str, ...]:
    names = {name for name in dir(_registry()) if _PLAIN.fullmatch(name) and name[0] != "_"}
    return (*_BUILT_IN, *sorted(names - set(_BUILT_IN)))


@lru_cache(maxsize=1_000)
def _measure_of_pint(name: str) -> Measure | None:
    with _loading:  # pint makes its caches as it goes, and calculations may be in several threads
        registry = _registry()
        candidates = registry.parse_unit_name(_ALIASES.get(name, name))
        if not candidates:
            return None
        canonical = "".join(candidates[0][:2])
        unit = registry.Unit(registry.UnitsContainer({canonical: Fraction(1)}))
        try:
            none, one, two = (_in_roots(registry, unit, Fraction(count)) for count in (0, 1, 2))
        except Exception as error:  # boundary: pint's errors are of many kinds
            raise _scale(name) from error
    if two[0] - one[0] != one[0] - none[0]:
        raise _scale(name)
    return Measure(name, canonical, _number(one[0] - none[0]), one[1], _number(none[0]))


def _scale(name: str) -> ExpressionInvalid:
    return ExpressionInvalid(
        f"{name} is a scale of logarithms, no multiple of a base unit",
        hint="Convert it by hand, with log10 and powers",
    )


def _in_roots(registry: Any, unit: Any, count: Fraction) -> tuple[Fraction, Dimension]:
    roots = registry.Quantity(count, unit).to_root_units()
    dimension = {
        _DIMENSIONS[name]: Fraction(power) for name, power in roots.unit_items() if name in _DIMENSIONS
    }
    return Fraction(roots.magnitude), tuple(sorted(dimension.items()))


def _number(factor: Fraction) -> Real:
    if factor.numerator.bit_length() + factor.denominator.bit_length() <= _SHORT_BITS:
        return factor
    return Arithmetic(Meter()).decimal(factor)
