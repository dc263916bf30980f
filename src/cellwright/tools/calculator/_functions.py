"""Every function that an expression can call, by name. A table, after the statistics; what the others do is in the modules beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from math import gcd, lcm
from typing import TypeAlias

from cellwright.errors import CalculationError
from cellwright.tools.calculator import _elementary, _integers, _matrices, _moments
from cellwright.tools.calculator._arithmetic import ONE, ZERO, Arithmetic, minus
from cellwright.tools.calculator._elementary import root
from cellwright.tools.calculator._operations import Operations, number, real
from cellwright.tools.calculator._value_text import short
from cellwright.tools.calculator._values import MAX_DIGITS, Complex, Number, Quantity, Real, Value

__all__ = ["FUNCTIONS", "absolute"]

# Statistics of lists: of numbers, and of quantities where that means something.

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
    return o.divide(_central_moment(o, xs, ys), Fraction(len(xs) - (1 if sample else 0)))


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


def _central_moment(o: Operations, xs: tuple[Value, ...], ys: tuple[Value, ...]) -> Value:
    centre, other = mean(o, xs), mean(o, ys)
    return total(
        o,
        tuple(o.multiply(o.subtract(x, centre), o.subtract(y, other)) for x, y in zip(xs, ys, strict=True)),
    )


def _some(items: tuple[Value, ...]) -> tuple[Value, ...]:
    if not items:
        raise CalculationError("There is nothing in the list", hint="Give at least one value")
    return items


Body: TypeAlias = Callable[[Operations, list[Value]], Value]


@dataclass(frozen=True, slots=True)
class Function:
    """What a name calls, and with how many values."""

    run: Body
    least: int
    most: int


def absolute(o: Operations, value: Value) -> Value:
    if isinstance(value, Quantity):
        return Quantity(_elementary.modulus(o.numbers, value.magnitude), value.unit)
    return _elementary.modulus(o.numbers, number(value, "take the size of"))


def _of_plain(function: Callable[[Operations, Number], Value]) -> Function:
    """A function of one number without a unit."""
    return Function(lambda o, values: function(o, o.plain(values[0], "calculate a function of")), 1, 1)


def _of_real(function: Callable[[Operations, Real], Value]) -> Function:
    def run(o: Operations, values: list[Value]) -> Value:
        return function(o, real(o.plain(values[0], "calculate a function of"), "calculate a function of"))

    return Function(run, 1, 1)


def _of_list(function: Callable[[Operations, tuple[Value, ...]], Value]) -> Function:
    """A function of a list, or of as many values."""

    def run(o: Operations, values: list[Value]) -> Value:
        return function(o, _items(values[0]) if len(values) == 1 else tuple(values))

    return Function(run, 1, 10_000)


def _of_lists(function: Callable[[Operations, tuple[Value, ...], tuple[Value, ...]], Value]) -> Function:
    return Function(lambda o, values: function(o, _items(values[0]), _items(values[1])), 2, 2)


def _of_whole(function: Callable[..., int], count: int) -> Function:
    """A function of whole numbers and the account of work."""
    return Function(
        lambda o, values: Fraction(function(*(_whole(value) for value in values), o.numbers.meter)),
        count,
        count,
    )


def _of_matrix(function: Callable[[Operations, _matrices.Matrix], Value]) -> Function:
    return Function(lambda o, values: function(o, _matrices.as_matrix(values[0])), 1, 1)


# Numbers -------------------------------------------------------------------------------------------------------------


def _root(o: Operations, values: list[Value]) -> Value:
    degree = _whole(values[1]) if len(values) > 1 else 2
    if isinstance(values[0], Quantity):
        return o.power(values[0], Fraction(1, degree or 1))
    return _elementary.root(o.numbers, number(values[0], "take the root of"), degree)


def _cube_root(o: Operations, values: list[Value]) -> Value:
    return _root(o, [values[0], Fraction(3)])


def _log(o: Operations, values: list[Value]) -> Value:
    """With one argument the decimal logarithm is as likely meant as the natural one, so it must be said."""
    if len(values) == 1:
        raise CalculationError("log(x) says no base", hint="Write ln(x), log10(x), log2(x) or log(x, base)")
    base = o.plain(values[1], "use as a base")
    if isinstance(base, Complex) or base <= 0 or base == 1:
        raise CalculationError("A base is positive, and not 1", hint="Write log(x, 10)")
    argument = o.plain(values[0], "take the logarithm of")
    if isinstance(base, Fraction):
        return _elementary.logarithm(o.numbers, argument, base)
    return o.numbers.divide(
        _elementary.logarithm(o.numbers, argument), _elementary.logarithm(o.numbers, base)
    )


def _tanh(o: Operations, value: Number) -> Value:
    return o.numbers.divide(
        _elementary.hyperbolic(o.numbers, value, -1), _elementary.hyperbolic(o.numbers, value, 1)
    )


def _inverse_hyperbolic(o: Operations, value: Real, sign: int) -> Value:
    n = o.numbers
    inner = n.add(value, _elementary.root(n, n.plus(n.times(value, value), Fraction(sign))))
    return _elementary.logarithm(n, inner)


def _atanh(o: Operations, value: Real) -> Value:
    n = o.numbers
    return n.divide(
        _elementary.logarithm(n, n.over(n.plus(ONE, value), n.plus(ONE, minus(value)))), Fraction(2)
    )


def _rounding(whole: Callable[[Operations, Real], int]) -> Body:
    """To a whole number or to so many decimals, of a number or a quantity in its own unit."""

    def run(o: Operations, values: list[Value]) -> Value:
        places = _whole(values[1]) if len(values) > 1 else 0
        if abs(places) > MAX_DIGITS:
            raise CalculationError(f"Numbers have at most {MAX_DIGITS:,} decimals", hint="Round to fewer")
        value = values[0]
        if isinstance(value, Quantity):
            return Quantity(number(run(o, [value.magnitude, *values[1:]]), "round"), value.unit)
        shifted = o.numbers.times(real(value, "round"), Fraction(10) ** places)
        return Fraction(whole(o, shifted)) / Fraction(10) ** places

    return run


def _half_away(o: Operations, value: Real) -> int:
    exact = o.numbers.exact(value)
    away = (abs(exact) + Fraction(1, 2)).__floor__()
    return away if exact >= 0 else -away


def _sign(_: Operations, value: Real) -> Value:
    return Fraction((value > 0) - (value < 0))


def _argument(o: Operations, value: Number) -> Value:
    imaginary, real_part = (value.imaginary, value.real) if isinstance(value, Complex) else (ZERO, value)
    return _elementary.two_argument_arctangent(o.numbers, imaginary, real_part)


def _conjugate(_: Operations, value: Number) -> Value:
    return Complex(value.real, minus(value.imaginary)) if isinstance(value, Complex) else value


def _real_part(_: Operations, value: Number) -> Value:
    return value.real if isinstance(value, Complex) else value


def _imaginary_part(_: Operations, value: Number) -> Value:
    return value.imaginary if isinstance(value, Complex) else ZERO


def _based(prefix: str, spec: str) -> Function:
    def run(_: Operations, values: list[Value]) -> Value:
        whole = _whole(values[0])
        return f"{'-' if whole < 0 else ''}{prefix}{abs(whole):{spec}}"

    return Function(run, 1, 1)


def _extreme(sign: int) -> Function:
    def run(o: Operations, items: tuple[Value, ...]) -> Value:
        if not items:
            raise CalculationError("There is nothing in the list", hint="Give at least one value")
        best = items[0]
        for item in items[1:]:
            if o.compare(item, best) == sign:
                best = item
        return best

    return _of_list(run)


def _common(function: Callable[..., int]) -> Function:
    return _of_list(lambda o, items: Fraction(function(*_paid(o, items))))


def _paid(o: Operations, items: tuple[Value, ...]) -> list[int]:
    whole = [_whole(item) for item in items]
    o.numbers.meter.step(*(Fraction(item) for item in whole))
    return whole


def _share(o: Operations, values: list[Value], scale: int) -> Value:
    return quantile(o, _items(values[0]), o.numbers.over(real(values[1], "use as a share"), Fraction(scale)))


# Dates ---------------------------------------------------------------------------------------------------------------


def _date(_: Operations, values: list[Value]) -> Value:
    try:
        return date(*(_whole(value) for value in values))
    except (ValueError, OverflowError) as error:
        raise CalculationError(
            f"That is no date: {error}", hint="Write date(2024, 3, 1) or 2024-03-01"
        ) from error


def _of_date(function: Callable[[date], Value]) -> Function:
    return Function(lambda _, values: function(_moment(values[0])), 1, 1)


def _workdays(_: Operations, values: list[Value]) -> Value:
    return Fraction(_moments.workdays(_day(values[0]), _day(values[1])))


def _add_workdays(_: Operations, values: list[Value]) -> Value:
    return _moments.moved_workdays(_day(values[0]), _whole(values[1]))


# What arguments are --------------------------------------------------------------------------------------------------


def _items(value: Value) -> tuple[Value, ...]:
    if isinstance(value, tuple):
        return value
    raise CalculationError(f"{short(value)} is no list", hint="Write lists as [1, 2, 3] or 1..10")


def _whole(value: Value) -> int:
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    if isinstance(value, Decimal) and value == value.to_integral_value() and value.adjusted() < MAX_DIGITS:
        return int(value)
    raise CalculationError(f"{short(value)} is no whole number", hint="Round it first")


def _moment(value: Value) -> date:
    if isinstance(value, date):
        return value
    raise CalculationError(f"{short(value)} is no date", hint="Write dates as 2024-03-01")


def _day(value: Value) -> date:
    moment = _moment(value)
    return date(moment.year, moment.month, moment.day)


def _rows(matrix: _matrices.Matrix) -> Value:
    return tuple(tuple(row) for row in matrix)


def _solve(o: Operations, values: list[Value]) -> Value:
    right = _items(values[1])
    solution = _matrices.solved(o, _matrices.as_matrix(values[0]), _matrices.as_matrix(right))
    return _rows(solution) if right and isinstance(right[0], tuple) else tuple(row[0] for row in solution)


def _matmul(o: Operations, values: list[Value]) -> Value:
    return _rows(_matrices.multiplied(o, _matrices.as_matrix(values[0]), _matrices.as_matrix(values[1])))


def _matpow(o: Operations, values: list[Value]) -> Value:
    return _rows(_matrices.matrix_power(o, _matrices.as_matrix(values[0]), _whole(values[1])))


def _dot(o: Operations, left: tuple[Value, ...], right: tuple[Value, ...]) -> Value:
    if len(left) != len(right):
        raise CalculationError("The vectors are not equally long", hint="Give lists of one length")
    return total(o, tuple(map(o.multiply, left, right)))


def _norm(o: Operations, items: tuple[Value, ...]) -> Value:
    return rooted(o, _dot(o, items, items))


def _roots(o: Operations, items: tuple[Value, ...]) -> Value:
    return tuple(_matrices.roots(o, [number(item, "use as a coefficient") for item in items]))


def _atan2(o: Operations, values: list[Value]) -> Value:
    return _elementary.two_argument_arctangent(
        o.numbers, real(values[0], "use as a coordinate"), real(values[1], "use as a coordinate")
    )


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(_root, 1, 1),
    "cbrt": Function(_cube_root, 1, 1),
    "root": Function(_root, 2, 2),
    "abs": Function(lambda o, values: absolute(o, values[0]), 1, 1),
    "sign": _of_real(_sign),
    "exp": _of_plain(lambda o, x: _elementary.exponential(o.numbers, x)),
    "ln": _of_plain(lambda o, x: _elementary.logarithm(o.numbers, x)),
    "log10": _of_plain(lambda o, x: _elementary.logarithm(o.numbers, x, Fraction(10))),
    "log2": _of_plain(lambda o, x: _elementary.logarithm(o.numbers, x, Fraction(2))),
    "log": Function(_log, 1, 2),
    "sin": Function(lambda o, values: sine_of(o, values[0]), 1, 1),
    "cos": Function(lambda o, values: cosine_of(o, values[0]), 1, 1),
    "tan": Function(lambda o, values: tangent_of(o, values[0]), 1, 1),
    "asin": _of_real(lambda o, x: _elementary.inverse_sine(o.numbers, x)),
    "acos": _of_real(lambda o, x: _elementary.inverse_cosine(o.numbers, x)),
    "atan": _of_real(lambda o, x: _elementary.arctangent(o.numbers, x)),
    "atan2": Function(_atan2, 2, 2),
    "sinh": _of_plain(lambda o, x: _elementary.hyperbolic(o.numbers, x, -1)),
    "cosh": _of_plain(lambda o, x: _elementary.hyperbolic(o.numbers, x, 1)),
    "tanh": _of_plain(_tanh),
    "asinh": _of_real(lambda o, x: _inverse_hyperbolic(o, x, 1)),
    "acosh": _of_real(lambda o, x: _inverse_hyperbolic(o, x, -1)),
    "atanh": _of_real(_atanh),
    "floor": Function(_rounding(lambda o, x: o.floor(x)), 1, 2),
    "ceil": Function(_rounding(lambda o, x: -o.floor(minus(x))), 1, 2),
    "round": Function(_rounding(_half_away), 1, 2),
    "trunc": Function(_rounding(lambda o, x: o.floor(x) if x >= 0 else -o.floor(minus(x))), 1, 2),
    "re": _of_plain(_real_part),
    "im": _of_plain(_imaginary_part),
    "arg": _of_plain(_argument),
    "conj": _of_plain(_conjugate),
    "hex": _based("0x", "x"),
    "bin": _based("0b", "b"),
    "oct": _based("0o", "o"),
    "gcd": _common(gcd),
    "lcm": _common(lcm),
    "factorial": _of_whole(_integers.factorial_of, 1),
    "binomial": _of_whole(_integers.binomial, 2),
    "permutations": _of_whole(_integers.permutations, 2),
    "fibonacci": _of_whole(_integers.fibonacci, 1),
    "powmod": _of_whole(_integers.power_modulo, 3),
    "isprime": Function(lambda o, values: _integers.is_prime(_whole(values[0]), o.numbers.meter), 1, 1),
    "nextprime": _of_whole(_integers.next_prime, 1),
    "factor": Function(
        lambda o, values: tuple(map(Fraction, _integers.factors(_whole(values[0]), o.numbers.meter))), 1, 1
    ),
    "min": _extreme(-1),
    "max": _extreme(1),
    "sum": _of_list(total),
    "product": _of_list(product),
    "count": _of_list(lambda _, items: Fraction(len(items))),
    "sort": _of_list(ordered),
    "mean": _of_list(mean),
    "median": _of_list(median),
    "mode": _of_list(lambda _, items: found[0] if len(found := modes(items)) == 1 else found),
    "stdev": _of_list(lambda o, items: deviation(o, items, sample=True)),
    "pstdev": _of_list(lambda o, items: deviation(o, items, sample=False)),
    "variance": _of_list(lambda o, items: variance(o, items, sample=True)),
    "pvariance": _of_list(lambda o, items: variance(o, items, sample=False)),
    "geomean": _of_list(geometric_mean),
    "harmean": _of_list(harmonic_mean),
    "quantile": Function(lambda o, values: _share(o, values, 1), 2, 2),
    "percentile": Function(lambda o, values: _share(o, values, 100), 2, 2),
    "var": _of_list(lambda o, items: variance(o, items, sample=True)),
    "std": _of_list(lambda o, items: deviation(o, items, sample=True)),
    "covariance": _of_lists(lambda o, xs, ys: covariance(o, xs, ys, sample=True)),
    "cov": _of_lists(lambda o, xs, ys: covariance(o, xs, ys, sample=True)),
    "correlation": _of_lists(correlation),
    "corr": _of_lists(correlation),
    "linreg": _of_lists(regression),
    "dot": _of_lists(_dot),
    "norm": _of_list(_norm),
    "roots": _of_list(_roots),
    "det": _of_matrix(_matrices.determinant),
    "inv": _of_matrix(lambda o, matrix: _rows(_matrices.inverse(o, matrix))),
    "rank": _of_matrix(lambda o, matrix: Fraction(_matrices.rank(o, matrix))),
    "transpose": _of_matrix(lambda _, matrix: _rows(_matrices.transposed(matrix))),
    "eigenvalues": _of_matrix(lambda o, matrix: tuple(_matrices.eigenvalues(o, matrix))),
    "solve": Function(_solve, 2, 2),
    "matmul": Function(_matmul, 2, 2),
    "matpow": Function(_matpow, 2, 2),
    "date": Function(_date, 3, 3),
    "weekday": _of_date(lambda moment: _WEEKDAYS[moment.weekday()]),
    "year": _of_date(lambda moment: Fraction(moment.year)),
    "month": _of_date(lambda moment: Fraction(moment.month)),
    "day": _of_date(lambda moment: Fraction(moment.day)),
    "isoweek": _of_date(lambda moment: Fraction(moment.isocalendar().week)),
    "dayofyear": _of_date(lambda moment: Fraction(moment.timetuple().tm_yday)),
    "workdays": Function(_workdays, 2, 2),
    "addworkdays": Function(_add_workdays, 2, 2),
}


# Sines of angles: whole degrees exactly where the sine is a fraction, complex arguments, and all others.

_SINES = {0: 0, 30: 1, 90: 2, 150: 1, 180: 0, 210: -1, 270: -2, 330: -1}
"""Twice the sine, by degrees."""


def sine_of(o: Operations, value: Value) -> Value:
    degrees = _degrees(value)
    if degrees is not None and (twice := _SINES.get(degrees % 360)) is not None:  # type: ignore[call-overload]  # a fraction hashes as a whole number does
        return Fraction(twice, 2)
    return _sine(o.numbers, o.plain(value, "take the sine of"))


def cosine_of(o: Operations, value: Value) -> Value:
    degrees = _degrees(value)
    if degrees is not None and (twice := _SINES.get((degrees + 90) % 360)) is not None:  # type: ignore[call-overload]
        return Fraction(twice, 2)
    return _cosine(o.numbers, o.plain(value, "take the cosine of"))


def tangent_of(o: Operations, value: Value) -> Value:
    degrees = _degrees(value)
    if degrees is not None and degrees % 90 == 45:  # half of a right angle
        return Fraction(1 if degrees % 180 == 45 else -1)
    below = cosine_of(o, value)
    if below == 0:
        raise CalculationError("There is no tangent of a right angle", hint="Look at the angle")
    return o.divide(sine_of(o, value), below)


def _degrees(value: Value) -> Fraction | None:
    if isinstance(value, Quantity) and isinstance(value.magnitude, Fraction) and len(value.unit.parts) == 1:
        ((measure, exponent),) = value.unit.parts
        return value.magnitude if measure.canonical == "degree" and exponent == 1 else None
    return None


def _sine(a: Arithmetic, value: Number) -> Number:
    if not isinstance(value, Complex):
        return _elementary.sine(a, value)
    real, imaginary = value.real, value.imaginary
    return Complex(
        _real(a.multiply(_elementary.sine(a, real), _elementary.hyperbolic(a, imaginary, 1))),
        _real(a.multiply(_elementary.cosine(a, real), _elementary.hyperbolic(a, imaginary, -1))),
    )


def _cosine(a: Arithmetic, value: Number) -> Number:
    if not isinstance(value, Complex):
        return _elementary.cosine(a, value)
    real, imaginary = value.real, value.imaginary
    return Complex(
        _real(a.multiply(_elementary.cosine(a, real), _elementary.hyperbolic(a, imaginary, 1))),
        _real(a.negate(a.multiply(_elementary.sine(a, real), _elementary.hyperbolic(a, imaginary, -1)))),
    )


def _real(number: Number) -> Real:
    return number.real if isinstance(number, Complex) else number
