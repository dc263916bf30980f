"""Statistics of lists: of numbers, and of quantities where that means something."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cmp_to_key

from cellwright.errors import CalculationError
from cellwright.tools.calculator._arithmetic import ONE
from cellwright.tools.calculator._elementary import root
from cellwright.tools.calculator._operations import Operations
from cellwright.tools.calculator._values import Complex, Quantity, Real, Value

__all__ = [
    "correlation",
    "covariance",
    "deviation",
    "geometric_mean",
    "harmonic_mean",
    "mean",
    "median",
    "modes",
    "ordered",
    "product",
    "quantile",
    "regression",
    "total",
    "variance",
]

_HALF = Fraction(1, 2)


def total(o: Operations, items: tuple[Value, ...]) -> Value:
    if not items:
        return Fraction(0)
    result = items[0]
    for item in items[1:]:
        result = o.add(result, item)
    return result


def product(o: Operations, items: tuple[Value, ...]) -> Value:
    result: Value = ONE
    for item in items:
        result = o.multiply(result, item)
    return result


def mean(o: Operations, items: tuple[Value, ...]) -> Value:
    return o.divide(total(o, _some(items)), Fraction(len(items)))


def ordered(o: Operations, items: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(sorted(items, key=cmp_to_key(o.compare)))


def median(o: Operations, items: tuple[Value, ...]) -> Value:
    return quantile(o, items, _HALF)


def quantile(o: Operations, items: tuple[Value, ...], share: Real) -> Value:
    """The value below which that share lies, between neighbours where it falls between them (R's type 7)."""
    if not 0 <= share <= 1:
        raise CalculationError(
            "A quantile is from 0 to 1, a percentile from 0 to 100", hint="Give such a share"
        )
    inorder = ordered(o, _some(items))
    place = o.numbers.exact(share) * (len(items) - 1)
    below = place.numerator // place.denominator
    rest = place - below
    if not rest:
        return inorder[below]
    return o.add(inorder[below], o.multiply(o.subtract(inorder[below + 1], inorder[below]), rest))


def modes(items: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values that are there most often."""
    counts = Counter(_some(items))
    most = max(counts.values())
    return tuple(item for item, count in counts.items() if count == most)


def variance(o: Operations, items: tuple[Value, ...], *, sample: bool) -> Value:
    return covariance(o, items, items, sample=sample)


def deviation(o: Operations, items: tuple[Value, ...], *, sample: bool) -> Value:
    return rooted(o, variance(o, items, sample=sample))


def covariance(o: Operations, xs: tuple[Value, ...], ys: tuple[Value, ...], *, sample: bool) -> Value:
    if len(xs) != len(ys):
        raise CalculationError(
            f"There are {len(xs):,} values and {len(ys):,} to go with them", hint="Give lists of one length"
        )
    if len(xs) < (2 if sample else 1):
        raise CalculationError("There are too few values", hint="A sample has at least two; pstdev takes one")
    return o.divide(_moment(o, xs, ys), Fraction(len(xs) - (1 if sample else 0)))


def correlation(o: Operations, xs: tuple[Value, ...], ys: tuple[Value, ...]) -> Value:
    """Pearson's."""
    both = covariance(o, xs, ys, sample=True)
    return o.divide(both, rooted(o, o.multiply(variance(o, xs, sample=True), variance(o, ys, sample=True))))


def regression(o: Operations, xs: tuple[Value, ...], ys: tuple[Value, ...]) -> tuple[Value, Value]:
    """The slope and the intercept of the line that leaves the least squares."""
    slope = o.divide(covariance(o, xs, ys, sample=True), variance(o, xs, sample=True))
    return slope, o.subtract(mean(o, ys), o.multiply(slope, mean(o, xs)))


def geometric_mean(o: Operations, items: tuple[Value, ...]) -> Value:
    return o.power(product(o, _some(items)), Fraction(1, len(items)))


def harmonic_mean(o: Operations, items: tuple[Value, ...]) -> Value:
    return o.divide(Fraction(len(_some(items))), total(o, tuple(o.divide(ONE, item) for item in items)))


def rooted(o: Operations, value: Value) -> Value:
    if isinstance(value, Quantity):
        return o.power(value, _HALF)
    if isinstance(value, Complex):
        return root(o.numbers, value)
    return o.power(value, _HALF)


def _moment(o: Operations, xs: tuple[Value, ...], ys: tuple[Value, ...]) -> Value:
    centre, other = mean(o, xs), mean(o, ys)
    return total(
        o,
        tuple(o.multiply(o.subtract(x, centre), o.subtract(y, other)) for x, y in zip(xs, ys, strict=True)),
    )


def _some(items: tuple[Value, ...]) -> tuple[Value, ...]:
    if not items:
        raise CalculationError("There is nothing in the list", hint="Give at least one value")
    return items
