"""Roots of polynomials: whole and broken numbers exactly, all others as decimals, real ones before complex ones."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator.arithmetic import ONE, PRECISION, ZERO, parts
from cellwright.tools.calculator.elementary import modulus, root
from cellwright.tools.calculator.operations import Operations
from cellwright.tools.calculator.values import Complex, Number

__all__ = ["roots"]

_MAX_DEGREE = 12
_MAX_ROUNDS = 200
_MAX_CANDIDATES = 2_000
_SMALL = 10**6
_CLOSE = Decimal(10) ** (12 - PRECISION)


def roots(o: Operations, coefficients: list[Number]) -> list[Number]:
    """The roots, each as often as it counts; the coefficients begin with the highest.

    Raises:
        CalculationTooLarge: the degree is beyond what is solved.
    """
    while coefficients and coefficients[0] == 0:
        coefficients = coefficients[1:]
    if len(coefficients) < 2:  # a constant
        raise CalculationError("A constant has no roots", hint="Give the coefficients, the highest first")
    if len(coefficients) - 1 > _MAX_DEGREE:
        raise CalculationTooLarge(f"Polynomials are solved up to degree {_MAX_DEGREE}", hint="Run it as code")
    found, rest = _rational_roots(o, coefficients)
    while len(rest) > 1:
        # A root that counts twice is found to half of the digits only: so each is looked for once, then the rest.
        simple, rest = _simple_part(o, rest)
        found += _quadratic(o, simple) if len(simple) == 3 else _aberth(o, simple)
    return sorted(found, key=_order)


def _order(number: Number) -> tuple[bool, Fraction, Fraction]:
    real, imaginary = parts(number)
    return isinstance(number, Complex), Fraction(real), Fraction(imaginary)


def _rational_roots(o: Operations, coefficients: list[Number]) -> tuple[list[Number], list[Number]]:
    """The roots that are fractions, and what is left when they are divided out."""
    found: list[Number] = []
    if not all(isinstance(coefficient, Fraction) for coefficient in coefficients):
        return found, coefficients
    while len(coefficients) > 1 and coefficients[-1] == 0:
        found.append(ZERO)
        coefficients = coefficients[:-1]
    for candidate in _candidates(coefficients):
        while len(coefficients) > 1:
            *quotient, rest = _divided(o, coefficients, candidate)
            if rest != 0:
                break
            found.append(candidate)
            coefficients = quotient
    return found, coefficients


def _simple_part(o: Operations, coefficients: list[Number]) -> tuple[list[Number], list[Number]]:
    """The polynomial that has each root once, and what is left of the whole."""
    if not all(isinstance(coefficient, Fraction) for coefficient in coefficients):
        return coefficients, []
    common, other = coefficients, _slope(o, coefficients)
    while other:
        common, other = other, _quotient(o, common, other)[1]
    return _quotient(o, coefficients, common)[0], common


def _quotient(o: Operations, above: list[Number], below: list[Number]) -> tuple[list[Number], list[Number]]:
    """The quotient and the remainder of two polynomials."""
    n = o.numbers
    rest, quotient = list(above), []
    while len(rest) >= len(below):
        factor = n.divide(rest[0], below[0])
        quotient.append(factor)
        for place, coefficient in enumerate(below):
            rest[place] = n.subtract(rest[place], n.multiply(factor, coefficient))
        rest = rest[1:]
    while rest and rest[0] == 0:
        rest = rest[1:]
    return quotient, rest


def _slope(o: Operations, coefficients: list[Number]) -> list[Number]:
    degree = len(coefficients) - 1
    return [
        o.numbers.multiply(coefficient, Fraction(degree - place))
        for place, coefficient in enumerate(coefficients[:-1])
    ]


def _candidates(coefficients: list[Number]) -> list[Fraction]:
    """A divisor of the last coefficient over one of the first, where both are small."""
    exact = [number for number in coefficients if isinstance(number, Fraction)]
    scale = lcm(*(number.denominator for number in exact))
    whole = [int(number * scale) for number in exact]
    common = gcd(*whole)
    first, last = abs(whole[0] // common), abs(whole[-1] // common)
    if max(first, last) > _SMALL:
        return []
    tops, bottoms = _divisors(last), _divisors(first)
    if len(tops) * len(bottoms) > _MAX_CANDIDATES:
        return []
    positive = sorted({Fraction(top, bottom) for top in tops for bottom in bottoms})
    return [sign * number for number in positive for sign in (1, -1)]


def _divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return small + [number // divisor for divisor in small]


def _divided(o: Operations, coefficients: list[Number], at: Number) -> list[Number]:
    """Horner's scheme: the quotient, then the value."""
    line: list[Number] = []
    carried: Number = ZERO
    for coefficient in coefficients:
        carried = o.numbers.add(o.numbers.multiply(carried, at), coefficient)
        line.append(carried)
    return line


def _quadratic(o: Operations, coefficients: list[Number]) -> list[Number]:
    a, b, c = coefficients
    n = o.numbers
    square = n.subtract(n.multiply(b, b), n.multiply(Fraction(4), n.multiply(a, c)))
    half, below = root(n, square), n.multiply(Fraction(2), a)
    return [n.divide(n.subtract(part, b), below) for part in (half, n.negate(half))]


def _aberth(o: Operations, coefficients: list[Number]) -> list[Number]:
    """All roots at once (Aberth's method), from points on a circle around all of them."""
    n = o.numbers
    degree = len(coefficients) - 1
    slope = _slope(o, coefficients)
    points = _circle(o, coefficients)
    for _ in range(_MAX_ROUNDS):
        n.meter.spend(60 * degree * degree)
        moved = ZERO
        for place, point in enumerate(points):
            value = _divided(o, coefficients, point)[-1]
            if value == 0:
                continue
            newton = n.divide(value, _divided(o, slope, point)[-1])
            pull: Number = ZERO
            for other, there in enumerate(points):
                if other != place:
                    pull = n.add(pull, n.divide(ONE, n.subtract(point, there)))
            step = n.divide(newton, n.subtract(ONE, n.multiply(newton, pull)))
            points[place] = n.subtract(point, step)
            share = n.over(modulus(n, step), n.plus(modulus(n, points[place]), _CLOSE))
            moved = max(
                moved, Fraction(n.decimal(share).quantize(_CLOSE, context=n.context)) if share < 1 else ONE
            )
        if moved <= Fraction(_CLOSE):
            break
    return [_cleaned(o, point) for point in points]


def _circle(o: Operations, coefficients: list[Number]) -> list[Number]:
    n = o.numbers
    radius = (
        ONE
        + max(
            n.exact(n.divide(modulus(n, coefficient), modulus(n, coefficients[0])))  # type: ignore[arg-type]  # real over real
            for coefficient in coefficients[1:]
        )
    )
    direction: Number = Complex(Fraction(3, 5), Fraction(4, 5))
    turn: Number = Complex(Fraction(5, 13), Fraction(12, 13))
    points: list[Number] = []
    for _ in range(len(coefficients) - 1):
        points.append(n.multiply(n.decimal(radius), direction))
        direction = n.multiply(direction, turn)
    return points


def _cleaned(o: Operations, point: Number) -> Number:
    """Without an imaginary part that is nothing but rounding."""
    real, imaginary = parts(point)
    slack = o.numbers.times(o.numbers.plus(modulus(o.numbers, point), ONE), Decimal(10) ** (30 - PRECISION))
    if modulus(o.numbers, imaginary) < slack:
        return real
    return Complex(ZERO, imaginary) if modulus(o.numbers, real) < slack else point
