"""Values of expressions. Exact numbers are fractions, all others decimals of a fixed precision.

No floats: they are neither, and 0.1 + 0.2 is 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

__all__ = ["Complex", "Dimension", "Measure", "Number", "Quantity", "Real", "Unit", "Value", "dimension_of"]

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
