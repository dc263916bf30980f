"""Values of expressions. Exact numbers are fractions, all others decimals of a fixed precision.

No floats: they are neither, and 0.1 + 0.2 is 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from cellwright.errors import CalculationTooLarge

__all__ = [
    "MAX_BITS",
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_ENTRIES",
    "MAX_EXPONENT",
    "MAX_ITEMS",
    "MAX_ORDER",
    "Complex",
    "Dimension",
    "Measure",
    "Meter",
    "Number",
    "Quantity",
    "Real",
    "Unit",
    "Value",
    "digits_of",
    "dimension_of",
    "too_many_digits",
]

Real: TypeAlias = Fraction | Decimal


@dataclass(frozen=True, slots=True)
class Complex:
    real: Real
    imaginary: Real


Number: TypeAlias = Real | Complex

Dimension: TypeAlias = tuple[tuple[str, Fraction], ...]
"""Base dimensions with their exponents, sorted; empty for a plain number."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One unit by one name: so many of its dimension's base units, from where it begins to count."""

    symbol: str
    canonical: str
    factor: Real
    dimension: Dimension
    offset: Real = Fraction(0)


@dataclass(frozen=True, slots=True)
class Unit:
    """A product of measures."""

    parts: tuple[tuple[Measure, Fraction], ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in the unit that it was given or asked for in."""

    magnitude: Number
    unit: Unit


Value: TypeAlias = "Fraction | Decimal | Complex | Quantity | date | bool | str | tuple[Value, ...]"


def dimension_of(unit: Unit) -> Dimension:
    """The dimension of a product of measures."""
    total: dict[str, Fraction] = {}
    for measure, exponent in unit.parts:
        for name, power in measure.dimension:
            total[name] = total.get(name, Fraction(0)) + power * exponent
    return tuple(sorted((name, power) for name, power in total.items() if power))


# Bounds on the work of an expression: sizes that are known before a step, and one account of work for all of
# them.

MAX_CHARACTERS = 10_000

MAX_DEPTH = 40

MAX_BITS = 40_000

MAX_DIGITS = 12_000
"""What ``MAX_BITS`` comes to, and what a literal may have."""

MAX_EXPONENT = 999_999
"""Of an approximate number, as a power of ten."""

MAX_ITEMS = 10_000

MAX_ENTRIES = 100_000
"""Of a list and all lists in it: a short name can stand for a long list, many times."""

MAX_ORDER = 40
"""Rows or columns of a matrix."""

MAX_WORK = 2_000_000

_BITS_PER_DIGIT = 3.3219280948873626

_MOST_COUNTED = 10**18

_LIMB = 64

_APPROXIMATION = 100


class Meter:
    """The work that one expression has done."""

    def __init__(self, allowed: int = MAX_WORK) -> None:
        self._left = self._allowed = allowed

    def spend(self, work: int) -> None:
        """Pay for a step before it is taken.

        Raises:
            CalculationTooLarge: there is not that much left.
        """
        self._left -= work
        if self._left < 0:
            raise CalculationTooLarge(
                f"The expression takes more than {self._allowed:,} steps of work",
                hint="Calculate a smaller part, or run it as code",
            )

    def step(self, *numbers: Fraction) -> None:
        """Pay for one operation on exact numbers, which grows with the square of their lengths."""
        limbs = _limbs(numbers)
        self.spend(6 + limbs * limbs // 16)

    def approximate(self) -> None:
        """Pay for an exponential, a logarithm or a power of decimals."""
        self.spend(_APPROXIMATION)

    def write(self, count: int, *longest: Fraction) -> None:
        """Pay for so many new numbers, which take time and memory even where nothing is calculated."""
        self.spend(count * (1 + _limbs(longest)))


def digits_of(bits: float) -> int:
    """About how many decimal digits a number of so many bits has; no more than anybody counts."""
    # What was reckoned exactly may itself be beyond every float.
    return int(min(bits, _MOST_COUNTED) / _BITS_PER_DIGIT) + 1


def too_many_digits(what: str, bits: float) -> CalculationTooLarge:
    return CalculationTooLarge(
        f"{what} would have about {digits_of(bits):,} digits; at most {MAX_DIGITS:,} are calculated",
        hint="Ask for its logarithm, for it modulo a number with powmod(base, exponent, modulus), or for a smaller one",
    )


def _limbs(numbers: tuple[Fraction, ...]) -> int:
    bits = sum(number.numerator.bit_length() + number.denominator.bit_length() for number in numbers)
    return bits // _LIMB
