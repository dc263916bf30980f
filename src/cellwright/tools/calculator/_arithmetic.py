"""Sums, products and powers of real and complex numbers: exact where they can be, bounded before they are begun.

Knows no units and no lists (see ``_operations``), nor functions (see ``_elementary``).
"""

from __future__ import annotations

from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from fractions import Fraction
from math import isqrt, log2

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator._values import (
    MAX_BITS,
    MAX_EXPONENT,
    Complex,
    Meter,
    Number,
    Real,
    too_many_digits,
)

__all__ = ["ONE", "PRECISION", "ZERO", "Arithmetic", "is_whole", "minus", "parts", "root_of", "size"]

PRECISION = 60
"""Digits that approximate numbers are calculated with; fewer are shown."""

ONE = Fraction(1)
ZERO = Fraction(0)


class Arithmetic:
    """The operations of one expression, with its account of work."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.context = Context(
            prec=PRECISION,
            Emax=MAX_EXPONENT,
            Emin=-MAX_EXPONENT,
            traps=[Overflow, InvalidOperation, DivisionByZero],
        )

    def decimal(self, number: Real) -> Decimal:
        """A real number to the precision of approximate ones, paid for with what it is about to be used in."""
        if isinstance(number, Decimal):
            self.meter.spend(3)
            return number
        self.meter.step(number)
        return self.context.divide(Decimal(number.numerator), Decimal(number.denominator))

    def exact(self, number: Real) -> Fraction:
        """A real number as a fraction, which an approximate one is only to its last digit."""
        if isinstance(number, Fraction):
            return number
        if not -MAX_BITS < number.adjusted() * 4 < MAX_BITS:
            raise CalculationTooLarge(
                f"A number of about 10^{number.adjusted():,} is too large or small to be written out",
                hint="Calculate with its logarithm",
            )
        return Fraction(number)

    # Reals and complex numbers alike ---------------------------------------------------------------------------------

    def add(self, left: Number, right: Number) -> Number:
        if isinstance(left, Complex) or isinstance(right, Complex):
            (a, b), (c, d) = parts(left), parts(right)
            return _complex(self.plus(a, c), self.plus(b, d))
        return self.plus(left, right)

    def subtract(self, left: Number, right: Number) -> Number:
        return self.add(left, _opposite(right))

    def negate(self, number: Number) -> Number:
        self.meter.step(*(part for part in parts(number) if isinstance(part, Fraction)))
        return _opposite(number)

    def multiply(self, left: Number, right: Number) -> Number:
        if isinstance(left, Complex) or isinstance(right, Complex):
            (a, b), (c, d) = parts(left), parts(right)
            real = self.plus(self.times(a, c), minus(self.times(b, d)))
            return _complex(real, self.plus(self.times(a, d), self.times(b, c)))
        return self.times(left, right)

    def divide(self, left: Number, right: Number) -> Number:
        if isinstance(right, Complex):
            square = self.plus(
                self.times(right.real, right.real), self.times(right.imaginary, right.imaginary)
            )
            conjugate = Complex(self.over(right.real, square), self.over(minus(right.imaginary), square))
            return self.multiply(left, conjugate)
        if isinstance(left, Complex):
            return _complex(self.over(left.real, right), self.over(left.imaginary, right))
        return self.over(left, right)

    def whole_power(self, base: Number, exponent: int) -> Number:
        """A power with a whole exponent, exact where the base is."""
        if isinstance(base, Decimal):
            return self.raised(base, Fraction(exponent))
        if exponent < 0:
            return self.divide(ONE, self.whole_power(base, -exponent))
        if isinstance(base, Fraction):
            return self._exact_power(base, exponent)
        self._bound_power(base, exponent)
        result: Number = ONE
        square: Number = base
        while exponent:
            if exponent & 1:
                result = self.multiply(result, square)
            exponent >>= 1
            square = self.multiply(square, square) if exponent else square
        return result

    def compare(self, left: Real, right: Real) -> int:
        """-1, 0 or 1. Approximate numbers are equal where they differ in their last digits only."""
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            self.meter.step(left, right)
            return (left > right) - (left < right)
        a, b = self.decimal(left), self.decimal(right)
        difference = self.context.subtract(a, b)
        slack = self.context.multiply(max(a.copy_abs(), b.copy_abs()), Decimal(1).scaleb(5 - PRECISION))
        return 0 if difference.copy_abs() <= slack else (1 if difference > 0 else -1)

    # Reals -----------------------------------------------------------------------------------------------------------

    def plus(self, left: Real, right: Real) -> Real:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            self.meter.step(left, right)
            return _bounded(left + right)
        return self.context.add(self.decimal(left), self.decimal(right))

    def times(self, left: Real, right: Real) -> Real:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            self.meter.step(left, right)
            return _bounded(left * right)
        a, b = self.decimal(left), self.decimal(right)
        return self.context.multiply(a, b) if a and b else ZERO

    def over(self, left: Real, right: Real) -> Real:
        if right == 0:
            raise CalculationError("A division by zero", hint="Look for the divisor that comes to zero")
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            self.meter.step(left, right)
            return _bounded(left / right)
        return self.context.divide(self.decimal(left), self.decimal(right))

    def raised(self, base: Real, exponent: Real) -> Real:
        """A power that is approximate, of a number that has one."""
        self.meter.approximate()
        return self.context.power(self.decimal(base), self.decimal(exponent))

    def _exact_power(self, base: Fraction, exponent: int) -> Fraction:
        bits = int(self._bound_power(base, exponent))
        self.meter.spend(2 + (bits // 64) ** 2 // 16)
        return base**exponent

    def _bound_power(self, base: Fraction | Complex, exponent: int) -> float:
        """How many bits the longest part of a power has, about."""
        growth = _growth(base)
        if growth == 0:
            return 0  # One and minus one stay as short as they are.
        # A whole number is compared, as it may be no float.
        if exponent > MAX_BITS / growth:
            raise too_many_digits("The power", growth * min(exponent, 10**30))
        return growth * exponent


def _growth(base: Fraction | Complex) -> float:
    """How many bits each factor adds."""
    exact = [part for part in parts(base) if isinstance(part, Fraction) and part]
    longest = max((max(abs(part.numerator), part.denominator) for part in exact), default=1)
    return log2(longest) + (0.5 if len(exact) > 1 else 0)


def parts(number: Number) -> tuple[Real, Real]:
    """The real and the imaginary part."""
    return (number.real, number.imaginary) if isinstance(number, Complex) else (number, ZERO)


def _opposite(number: Number) -> Number:
    if isinstance(number, Complex):
        return Complex(minus(number.real), minus(number.imaginary))
    return minus(number)


def minus(number: Real) -> Real:
    """The opposite number, with all of its digits: a decimal's own minus would round to the thread's precision."""
    return -number if isinstance(number, Fraction) else number.copy_negate()


def size(number: Real) -> Real:
    """The number without its sign, and with all of its digits."""
    return abs(number) if isinstance(number, Fraction) else number.copy_abs()


def is_whole(number: object) -> bool:
    return isinstance(number, Fraction) and number.denominator == 1


def root_of(number: Fraction, degree: int) -> Fraction | None:
    """The exact root of a number that is not negative, if it has one."""
    top, bottom = _whole_root(number.numerator, degree), _whole_root(number.denominator, degree)
    return Fraction(top, bottom) if top is not None and bottom is not None else None


def _whole_root(number: int, degree: int) -> int | None:
    root = isqrt(number) if degree == 2 else _floor_root(number, degree)  # a square root
    return root if root**degree == number else None


def _floor_root(number: int, degree: int) -> int:
    """The largest whole number whose power is not above: Newton's steps, from above."""
    root = 1 << -(-number.bit_length() // degree)
    while (lower := ((degree - 1) * root + number // root ** (degree - 1)) // degree) < root:
        root = lower
    return root


def _complex(real: Real, imaginary: Real) -> Number:
    return real if imaginary == 0 else Complex(real, imaginary)


def _bounded(number: Fraction) -> Fraction:
    bits = max(number.numerator.bit_length(), number.denominator.bit_length())
    if bits > MAX_BITS:
        raise too_many_digits("The result", bits)
    return number
