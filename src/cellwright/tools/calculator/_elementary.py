"""Roots, exponentials, logarithms and angles of real and complex numbers, to the precision of ``Arithmetic``.

Exact where the result is a fraction that is easily seen, such as the root of 1/4; otherwise decimals.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator._arithmetic import (
    ONE,
    PRECISION,
    ZERO,
    Arithmetic,
    minus,
    parts,
    root_of,
    size,
)
from cellwright.tools.calculator._values import MAX_BITS, MAX_EXPONENT, Complex, Number, Real

__all__ = [
    "PHI",
    "PI",
    "E",
    "arctangent",
    "cosine",
    "exponential",
    "hyperbolic",
    "inverse_cosine",
    "inverse_sine",
    "logarithm",
    "modulus",
    "power",
    "root",
    "sine",
    "two_argument_arctangent",
]

_PI = Decimal(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679"
)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
E = Decimal("2.71828182845904523536028747135266249775724709369995957496697")
PHI = Decimal("1.61803398874989484820458683436563811772030917980576286213545")
_GUARD = 40
_LARGEST_ANGLE = Decimal(10) ** 30
_TINY = Decimal(10) ** (8 - PRECISION)
_WIDE = Context(prec=PRECISION + _GUARD, Emax=MAX_EXPONENT, Emin=-MAX_EXPONENT)
_MAX_DEGREE = 1_000


def root(a: Arithmetic, number: Number, degree: int = 2) -> Number:
    """The principal root; the real one where an odd root of a negative number is asked for."""
    if not 0 < degree <= _MAX_DEGREE:
        raise CalculationTooLarge(f"Roots are taken up to the {_MAX_DEGREE:,}th", hint="Use a power instead")
    if isinstance(number, Complex):
        return power(a, number, Fraction(1, degree))
    return _negative_root(a, number, degree) if number < 0 else _positive_root(a, number, degree)


def _negative_root(a: Arithmetic, number: Real, degree: int) -> Number:
    if degree % 2:
        return a.negate(_positive_root(a, minus(number), degree))
    if degree == 2:  # a square root
        return a.multiply(_positive_root(a, minus(number), degree), Complex(ZERO, ONE))
    return power(a, Complex(number, ZERO), Fraction(1, degree))


def _positive_root(a: Arithmetic, number: Real, degree: int) -> Real:
    if isinstance(number, Fraction):
        bits = number.numerator.bit_length() + number.denominator.bit_length()
        a.meter.spend((bits // 64) ** 2 * min(degree, 50) + bits // 8)
        if (found := root_of(number, degree)) is not None:
            return found
    if degree == 2:
        return a.context.sqrt(a.decimal(number))
    return a.raised(number, Fraction(1, degree))


def power(a: Arithmetic, base: Number, exponent: Number) -> Number:
    """Any power. Zero to the power of zero is one."""
    if isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            return a.whole_power(base, exponent.numerator)
        if exponent.denominator <= _MAX_DEGREE and isinstance(base, Fraction) and base >= 0:
            rooted = root(a, base, exponent.denominator)
            if isinstance(rooted, Fraction):
                return a.whole_power(rooted, exponent.numerator)
    if not isinstance(base, Complex) and not isinstance(exponent, Complex) and base >= 0:
        if base == 0 and exponent <= 0:
            raise CalculationError("Zero has no such power", hint="Look for the base that comes to zero")
        return a.raised(base, exponent) if base else ZERO
    return exponential(a, a.multiply(exponent, logarithm(a, base)))


def exponential(a: Arithmetic, number: Number) -> Number:
    if isinstance(number, Complex):
        length = _exp(a, number.real)
        direction = Complex(cosine(a, number.imaginary), sine(a, number.imaginary))
        return a.multiply(length, direction)
    return ONE if number == 0 else _exp(a, number)


def _exp(a: Arithmetic, number: Real) -> Decimal:
    a.meter.approximate()
    return a.context.exp(a.decimal(number))


def logarithm(a: Arithmetic, number: Number, base: Fraction | None = None) -> Number:
    """The logarithm to a base, by default e."""
    if number == 0:
        raise CalculationError("Zero has no logarithm", hint="Look for the argument that comes to zero")
    if isinstance(number, Complex) or number < 0:
        natural: Number = Complex(
            _ln(a, modulus(a, number)), two_argument_arctangent(a, *reversed(parts(number)))
        )
    else:
        if (
            base is not None
            and isinstance(number, Fraction)
            and (whole := _whole_log(a, number, base)) is not None
        ):
            return whole
        natural = _ln(a, number)
    return natural if base is None else a.divide(natural, _ln(a, base))


def _ln(a: Arithmetic, number: Real) -> Real:
    a.meter.approximate()
    return ZERO if number == 1 else a.context.ln(a.decimal(number))


def _whole_log(a: Arithmetic, number: Fraction, base: Fraction) -> Fraction | None:
    """The logarithm of a number that is a whole power of a whole base."""
    if base.denominator != 1 or base <= 1:
        return None
    inverted = number.numerator == 1
    target = 1 / number if inverted else number
    if target.denominator != 1:
        return None
    # What the quotient pays for is more than the power that is compared.
    guess = round(a.over(_ln(a, target), _ln(a, base)))
    if guess > MAX_BITS or base**guess != target:
        return None
    return Fraction(-guess if inverted else guess)


def modulus(a: Arithmetic, number: Number) -> Real:
    """How far from zero a number is."""
    if not isinstance(number, Complex):
        return size(number)
    square = a.plus(a.times(number.real, number.real), a.times(number.imaginary, number.imaginary))
    length = root(a, square)
    assert not isinstance(length, Complex)  # squares are not negative
    return length


# Angles --------------------------------------------------------------------------------------------------------------


def sine(a: Arithmetic, angle: Real) -> Real:
    """The sine of an angle in radians."""
    if angle == 0:
        return ZERO
    decimal = a.decimal(angle)
    if decimal.copy_abs() > _LARGEST_ANGLE:
        raise CalculationTooLarge(
            "The angle is beyond 10^30 radians", hint="Take it modulo 2 pi first, with the digits that needs"
        )
    a.meter.spend(60)
    turn = _WIDE.multiply(_PI, Decimal(2))
    turns = _WIDE.divide(decimal, turn).to_integral_value(context=_WIDE)
    rest = _WIDE.subtract(decimal, _WIDE.multiply(turns, turn))
    return _snapped(a, _series(rest))


def cosine(a: Arithmetic, angle: Real) -> Real:
    return ONE if angle == 0 else sine(a, _WIDE.add(a.decimal(angle), _WIDE.divide(_PI, Decimal(2))))


def _series(x: Decimal) -> Decimal:
    """Taylor's series of the sine, of an angle that is at most half a turn."""
    square = _WIDE.multiply(x, x)
    total = term = x
    count = 1
    while term and term.adjusted() > -(PRECISION + _GUARD - 5):
        term = _WIDE.divide(_WIDE.multiply(term, square), Decimal((count + 1) * (count + 2))).copy_negate()
        total = _WIDE.add(total, term)
        count += 2
    return total


def _snapped(a: Arithmetic, value: Decimal) -> Real:
    """A value near which nothing but zero can be meant is zero, as is the sine of pi; and so for one."""
    for exact in (0, 1, -1):
        if _WIDE.subtract(value, Decimal(exact)).copy_abs() < _TINY:
            return a.context.plus(Decimal(exact))
    return a.context.plus(value)


def arctangent(a: Arithmetic, number: Real) -> Real:
    """The angle in radians, from minus to plus a quarter of a turn."""
    if number == 0:
        return ZERO
    x = a.decimal(number)
    a.meter.spend(100)
    if x.copy_abs() > 1:
        quarter = _WIDE.divide(_PI, Decimal(2)).copy_sign(x)
        return a.context.plus(_WIDE.subtract(quarter, _arctangent_within(_WIDE.divide(Decimal(1), x))))
    return a.context.plus(_arctangent_within(x))


def _arctangent_within(x: Decimal) -> Decimal:
    halvings = 4
    for _ in range(halvings):
        below = _WIDE.add(Decimal(1), _WIDE.sqrt(_WIDE.add(Decimal(1), _WIDE.multiply(x, x))))
        x = _WIDE.divide(x, below)
    square = _WIDE.multiply(x, x).copy_negate()
    total = term = x
    count = 1
    while term and term.adjusted() > x.adjusted() - (PRECISION + _GUARD - 5):
        term = _WIDE.multiply(term, square)
        count += 2
        total = _WIDE.add(total, _WIDE.divide(term, Decimal(count)))
    return _WIDE.multiply(total, Decimal(2**halvings))


def two_argument_arctangent(a: Arithmetic, y: Real, x: Real) -> Real:
    """The angle of a point, from minus to plus half a turn."""
    if x == 0 and y == 0:
        return ZERO
    if x == 0:
        return a.context.divide(PI, Decimal(2)).copy_sign(a.decimal(y))
    angle = arctangent(a, a.over(y, x))
    if x > 0:
        return angle
    return a.plus(angle, PI if y >= 0 else minus(PI))


def inverse_sine(a: Arithmetic, number: Real) -> Real:
    if not -1 <= number <= 1:
        raise CalculationError("A sine is from -1 to 1", hint="Look at what asin or acos is given")
    other = root(a, a.plus(ONE, minus(a.times(number, number))))
    assert not isinstance(other, Complex)  # the square is at most one
    return two_argument_arctangent(a, number, other)


def inverse_cosine(a: Arithmetic, number: Real) -> Real:
    return a.plus(a.context.divide(PI, Decimal(2)), minus(inverse_sine(a, number)))


def hyperbolic(a: Arithmetic, number: Number, sign: int) -> Number:
    """Half of ``e^x + sign e^-x``: the hyperbolic cosine or sine."""
    if isinstance(number, Complex):
        there, back = exponential(a, number), exponential(a, a.negate(number))
        return a.divide(a.add(there, a.multiply(Fraction(sign), back)), Fraction(2))
    if number == 0:
        return ZERO if sign < 0 else ONE
    # Wide, as the two nearly cancel each other where x is small.
    x = _WIDE.plus(a.decimal(number))
    if x.copy_abs() > MAX_EXPONENT * 2:
        raise CalculationTooLarge("The result is beyond 10^999,999", hint="Calculate with logarithms")
    a.meter.spend(60)
    there, back = _WIDE.exp(x), _WIDE.exp(x.copy_negate())
    return a.context.plus(
        _WIDE.divide(_WIDE.add(there, back if sign > 0 else back.copy_negate()), Decimal(2))
    )
