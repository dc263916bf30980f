"""Sines of angles: whole degrees exactly where the sine is a fraction, complex arguments, and all others."""

from __future__ import annotations

from fractions import Fraction

from cellwright.errors import CalculationError
from cellwright.tools.calculator import _elementary
from cellwright.tools.calculator._arithmetic import Arithmetic
from cellwright.tools.calculator._operations import Operations
from cellwright.tools.calculator._values import Complex, Number, Quantity, Real, Value

__all__ = ["cosine_of", "sine_of", "tangent_of"]

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
