"""Values as people and programs read them. What is exact is shown so; what is not says so and stops in time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Context, Decimal
from fractions import Fraction

from cellwright.tools.calculator._values import (
    MAX_EXPONENT,
    Complex,
    Dimension,
    Number,
    Quantity,
    Unit,
    Value,
    digits_of,
)

__all__ = [
    "SHOWN_DIGITS",
    "as_decimal",
    "as_exact",
    "fitting",
    "named_dimension",
    "short",
    "shown",
    "unit_text",
]

SHOWN_DIGITS = 30
_WHOLE_DIGITS = 1_000
"""Longer whole numbers are summarized."""
_ENDS = 20
_LONGEST_TEXT = 4_000
_SMALLEST_WRITTEN_OUT = -8
_MAX_SHOWN_ITEMS = 100
_EXACT_DIGITS = 100
"""Longer fractions are of no use to a reader."""
_ROUND = Context(prec=SHOWN_DIGITS, Emax=MAX_EXPONENT, Emin=-MAX_EXPONENT)
_NAMES = {
    "length": "length",
    "length^2": "area",
    "length^3": "volume",
    "length/time": "speed",
    "length/time^2": "acceleration",
    "length*mass/time^2": "force",
    "length^2*mass/time^2": "energy",
    "length^2*mass/time^3": "power",
    "mass/length/time^2": "pressure",
    "1/time": "frequency",
    "information/time": "data rate",
}


def shown(value: Value) -> str:
    """The value in a line: exact, and its decimals where those say more."""
    if isinstance(value, tuple):
        return (
            _listed(shown(item) for item in value[:_MAX_SHOWN_ITEMS])
            if len(value) <= _MAX_SHOWN_ITEMS
            else (f"{_listed(shown(item) for item in value[:10])[:-1]}, … {len(value):,} items]")
        )
    if isinstance(value, Quantity):
        return f"{shown(value.magnitude)} {unit_text(value.unit)}".rstrip()
    if isinstance(value, Fraction | Decimal | Complex):
        exact, decimal = as_exact(value), as_decimal(value)
        if exact is None:
            return f"≈ {decimal}"
        return exact if _ends(value) or exact == decimal else f"{exact} ≈ {decimal}"
    return _plain(value)


def short(value: Value) -> str:
    """The value for the middle of a sentence."""
    if isinstance(value, tuple):
        return f"a list of {len(value):,}"
    if isinstance(value, Quantity):
        return f"{short(value.magnitude)} {unit_text(value.unit)}".rstrip()
    if isinstance(value, Fraction | Decimal | Complex):
        text = as_decimal(value, digits=10)
        return text if len(text) <= 2 * SHOWN_DIGITS else f"{text[:10]}…"
    return _plain(value)


def as_exact(value: Value) -> str | None:
    """The value without any rounding, or nothing where it is not known so or too long to read."""
    if isinstance(value, Decimal):
        return None
    if isinstance(value, Complex):
        real, imaginary = as_exact(value.real), as_exact(value.imaginary)
        return None if real is None or imaginary is None else _complex_text(value, real, imaginary)
    if isinstance(value, Quantity):
        magnitude = as_exact(value.magnitude)
        return None if magnitude is None else f"{magnitude} {unit_text(value.unit)}".rstrip()
    if isinstance(value, Fraction):
        return _exact_text(value)
    if isinstance(value, tuple):
        items = [as_exact(item) for item in value[:_MAX_SHOWN_ITEMS]]
        known = [item for item in items if item is not None]
        return _listed(known) if len(known) == len(value) else None
    return _plain(value)


def as_decimal(value: Number, *, digits: int = SHOWN_DIGITS) -> str:
    """The value as a decimal of so many digits."""
    if isinstance(value, Complex):
        return _complex_text(
            value, as_decimal(value.real, digits=digits), as_decimal(value.imaginary, digits=digits)
        )
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return _whole_text(value.numerator)
        context = Context(prec=digits, Emax=MAX_EXPONENT, Emin=-MAX_EXPONENT)
        return _decimal_text(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
    return _decimal_text(Context(prec=digits, Emax=MAX_EXPONENT, Emin=-MAX_EXPONENT).plus(value))


def unit_text(unit: Unit) -> str:
    """A unit as it is written in an expression."""
    return _product([(measure.symbol, exponent) for measure, exponent in unit.parts])


def named_dimension(dimension: Dimension) -> str:
    """A dimension in brackets, by its own name where it has one."""
    if not dimension:
        return "[no dimension]"
    text = _product(list(dimension))
    return f"[{_NAMES.get(text, text)}]"


def _product(powers: list[tuple[str, Fraction]]) -> str:
    above = [_powered(name, power) for name, power in powers if power > 0]
    below = [_powered(name, -power) for name, power in powers if power < 0]
    return "/".join(["*".join(above) or "1", *below]) if above or below else ""


def _powered(name: str, power: Fraction) -> str:
    if power == 1:
        return name
    return f"{name}^{power}" if power.denominator == 1 else f"{name}^({power})"


def _exact_text(value: Fraction) -> str | None:
    if value.denominator == 1:
        return _whole_text(value.numerator)
    if _ends(value):
        return as_decimal(value)
    if digits_of(max(value.numerator.bit_length(), value.denominator.bit_length())) > _EXACT_DIGITS:
        return None
    return f"{value.numerator}/{value.denominator}"


def _ends(value: Number) -> bool:
    """Whether the decimals that are shown are all there are."""
    if isinstance(value, Complex):
        return _ends(value.real) and _ends(value.imaginary)
    if isinstance(value, Decimal):
        return False
    rest = value.denominator
    if rest.bit_length() > 4 * SHOWN_DIGITS:
        return False
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return (
        rest == 1 and Fraction(_ROUND.divide(Decimal(value.numerator), Decimal(value.denominator))) == value
    )


def _whole_text(value: int) -> str:
    # By way of a decimal: Python refuses to write more than 4,300 digits of a whole number at once.
    text = str(Decimal(value)) if value.bit_length() > 10_000 else str(value)
    count = len(text.lstrip("-"))
    if count <= _WHOLE_DIGITS:
        return text
    return f"{text[:_ENDS]}…{text[-_ENDS:]} ({count:,} digits)"


def _decimal_text(value: Decimal) -> str:
    if value == 0:
        return "0"
    # Not `normalize` of the value itself, which would round to the thread's precision.
    text = str(_ROUND.normalize(value))
    if "E" not in text:
        return text
    if _SMALLEST_WRITTEN_OUT < value.adjusted() < SHOWN_DIGITS:
        return f"{_ROUND.normalize(value):f}"
    return text.replace("E+", "e").replace("E", "e")


def _complex_text(value: Complex, real: str, imaginary: str) -> str:
    if imaginary in ("1", "-1"):
        imaginary = imaginary[:-1]
    factor = f"({imaginary})" if "/" in imaginary else imaginary
    if value.real == 0:
        return f"{factor}i"
    if factor.startswith("-"):
        return f"{real} - {factor[1:]}i"
    return f"{real} + {factor}i"


def fitting(text: str) -> str:
    """A text that is not too long to be read, or its ends."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT // 2]} … {text[-_LONGEST_TEXT // 4 :]} ({len(text):,} characters)"


def _listed(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return fitting(str(value))
