"""The operators ``+ - * / ^`` and comparisons for every kind of value: numbers, quantities, lists, dates.

Numbers are ``arithmetic``'s, dates are ``moments``'s; this knows which goes with which, and explains what does not.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction

from cellwright.errors import CalculationError, UnitsDiffer
from cellwright.tools.calculator import _moments
from cellwright.tools.calculator._arithmetic import ONE, Arithmetic, is_whole
from cellwright.tools.calculator._elementary import power
from cellwright.tools.calculator._value_text import named_dimension, short
from cellwright.tools.calculator._values import (
    Complex,
    Measure,
    Meter,
    Number,
    Quantity,
    Real,
    Unit,
    Value,
    dimension_of,
)

__all__ = ["Operations", "is_number"]

_TEMPERATURES = frozenset({"C", "F"})


class Operations:
    """The operators of one expression."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.numbers = Arithmetic(meter or Meter())

    def add(self, left: Value, right: Value) -> Value:
        if isinstance(left, tuple) or isinstance(right, tuple):
            return self._each(self.add, left, right, "add")
        if isinstance(left, date) or isinstance(right, date):
            moment, other = (left, right) if isinstance(left, date) else (right, left)
            return self._moved(moment, other, 1)
        if isinstance(left, Quantity) or isinstance(right, Quantity):
            return self._sum(left, right, 1)
        return self.numbers.add(number(left, "add"), number(right, "add"))

    def subtract(self, left: Value, right: Value) -> Value:
        if isinstance(left, tuple) or isinstance(right, tuple):
            return self._each(self.subtract, left, right, "subtract")
        if isinstance(left, date):
            return _moments.between(right, left) if isinstance(right, date) else self._moved(left, right, -1)
        if isinstance(left, Quantity) or isinstance(right, Quantity):
            return self._sum(left, right, -1)
        return self.numbers.subtract(number(left, "subtract"), number(right, "subtract"))

    def negate(self, value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(self.negate(item) for item in value)
        if isinstance(value, Quantity):
            return Quantity(self.numbers.negate(value.magnitude), value.unit)
        return self.numbers.negate(number(value, "negate"))

    def multiply(self, left: Value, right: Value) -> Value:
        if isinstance(left, tuple) and isinstance(right, tuple):
            raise CalculationError(
                "Lists are not multiplied with *",
                hint="Use dot(a, b) for vectors or matmul(a, b) for matrices",
            )
        if isinstance(left, tuple):
            return tuple(self.multiply(item, right) for item in left)
        if isinstance(right, tuple):
            return tuple(self.multiply(left, item) for item in right)
        if isinstance(left, Quantity) or isinstance(right, Quantity):
            a, b = self._factor(left, "multiply"), self._factor(right, "multiply")
            return self._combined(self.numbers.multiply(a.magnitude, b.magnitude), a.unit, b.unit, 1)
        return self.numbers.multiply(number(left, "multiply"), number(right, "multiply"))

    def divide(self, left: Value, right: Value) -> Value:
        if isinstance(left, tuple) and not isinstance(right, tuple):
            return tuple(self.divide(item, right) for item in left)
        if isinstance(left, Quantity) or isinstance(right, Quantity):
            a, b = self._factor(left, "divide"), self._factor(right, "divide")
            return self._combined(self.numbers.divide(a.magnitude, b.magnitude), a.unit, b.unit, -1)
        return self.numbers.divide(number(left, "divide"), number(right, "divide by"))

    def floor_divide(self, left: Value, right: Value) -> Value:
        a, b = self._alike(left, right, "divide")
        return Fraction(self.floor(self.numbers.over(a, b)))

    def remainder(self, left: Value, right: Value) -> Value:
        """What is left of a division, with the divisor's sign, in the unit of what was divided."""
        a, b = self._alike(left, right, "divide")
        rest = self.numbers.subtract(a, self.numbers.times(Fraction(self.floor(self.numbers.over(a, b))), b))
        return Quantity(rest, left.unit) if isinstance(left, Quantity) else rest

    def floor(self, value: Real) -> int:
        exact = self.numbers.exact(value)
        return exact.numerator // exact.denominator

    def power(self, base: Value, exponent: Value) -> Value:
        if isinstance(exponent, Quantity):
            exponent = self.plain(exponent, "use as an exponent")
        degree = number(exponent, "use as an exponent")
        if isinstance(base, tuple):
            raise CalculationError(
                "Lists have no powers", hint="Use matpow(matrix, n), or [x^2 for x in list]"
            )
        if not isinstance(base, Quantity):
            return power(self.numbers, number(base, "raise"), degree)
        if not isinstance(degree, Fraction):
            raise UnitsDiffer(
                f"Cannot raise {_quantity_text(base)} to an exponent that is no fraction",
                hint="Divide by the unit first",
            )
        self._refuse_offsets(base, "raise")
        magnitude = power(self.numbers, base.magnitude, degree)
        unit = Unit(tuple((measure, exponent * degree) for measure, exponent in base.unit.parts if degree))
        return Quantity(magnitude, unit) if unit.parts else magnitude

    def compare(self, left: Value, right: Value) -> int:
        """-1, 0 or 1, of two values that have an order."""
        if isinstance(left, date) and isinstance(right, date):
            return _moments.compare(left, right)
        return self.numbers.compare(*self._alike(left, right, "compare"))

    def equal(self, left: Value, right: Value) -> bool:
        if isinstance(left, tuple) and isinstance(right, tuple):
            return len(left) == len(right) and all(map(self.equal, left, right))
        if isinstance(left, Complex) or isinstance(right, Complex):
            return left == right
        if isinstance(left, bool | str) or isinstance(right, bool | str):
            return left == right
        return self.compare(left, right) == 0

    # Units -----------------------------------------------------------------------------------------------------------

    def convert(self, value: Value, unit: Unit) -> Value:
        """The same quantity in another unit of its dimension.

        Raises:
            UnitsDiffer: it is of another one.
        """
        if isinstance(value, tuple):
            return tuple(self.convert(item, unit) for item in value)
        quantity = value if isinstance(value, Quantity) else Quantity(number(value, "convert"), Unit(()))
        if dimension_of(quantity.unit) != dimension_of(unit):
            raise _differ(
                "convert",
                _quantity_text(quantity),
                "to",
                _quantity_text(Quantity(ONE, unit), only_unit=True),
                quantity,
                unit,
            )
        return Quantity(self._from_base(self._to_base(quantity), unit), unit)

    def plain(self, value: Value, verb: str) -> Number:
        """A number, or a quantity that is one, as an angle is in radians."""
        if not isinstance(value, Quantity):
            return number(value, verb)
        if dimension_of(value.unit):
            raise UnitsDiffer(
                f"Cannot {verb} {_quantity_text(value)}: a plain number is needed",
                hint="Divide by a unit of that dimension first",
            )
        return self._to_base(value)

    def _sum(self, left: Value, right: Value, sign: int) -> Value:
        verb = "add" if sign > 0 else "subtract"
        a, b = _quantity(left, verb), _quantity(right, verb)
        if dimension_of(a.unit) != dimension_of(b.unit):
            raise _differ(
                verb, _quantity_text(a), "and" if sign > 0 else "from", _quantity_text(b), a, b.unit
            )
        if _offset(a.unit) or _offset(b.unit):
            return self._sum_of_offsets(a, b, sign)
        # In the unit that was named first, unless that is none.
        unit = a.unit if a.unit.parts else b.unit
        there, other = (self._from_base(self._to_base(part), unit) for part in (a, b))
        combined = self.numbers.add(there, other if sign > 0 else self.numbers.negate(other))
        return Quantity(combined, unit)

    def _sum_of_offsets(self, a: Quantity, b: Quantity, sign: int) -> Value:
        """Readings of a thermometer: they differ by a difference, and differences are added to them."""
        if _offset(a.unit) and _offset(b.unit):
            if sign > 0:
                raise UnitsDiffer(
                    f"Cannot add {_quantity_text(a)} and {_quantity_text(b)}: both are readings of a scale that does not begin at zero",
                    hint="Write the difference as delta_degC, delta_degF or K",
                )
            difference = self.numbers.subtract(self._to_base(a), self._to_base(b))
            unit = _difference_unit(a.unit)
            return Quantity(self._from_base(difference, unit), unit)
        if _offset(a.unit):
            moved = self.numbers.add(
                self._to_base(a), self.numbers.multiply(Fraction(sign), self._to_base(b))
            )
            return Quantity(self._from_base(moved, a.unit), a.unit)
        if sign > 0:
            return self._sum_of_offsets(b, a, sign)
        raise UnitsDiffer(
            f"Cannot take {_quantity_text(b)} from {_quantity_text(a)}", hint="Convert both to K first"
        )

    def _combined(self, magnitude: Number, left: Unit, right: Unit, sign: int) -> Value:
        exponents: dict[str, tuple[Measure, Fraction]] = {}
        for measure, exponent in (
            *left.parts,
            *((measure, exponent * sign) for measure, exponent in right.parts),
        ):
            known, before = exponents.get(measure.canonical, (measure, Fraction(0)))
            exponents[measure.canonical] = (known, before + exponent)
        unit = Unit(tuple((measure, exponent) for measure, exponent in exponents.values() if exponent))
        quantity = Quantity(magnitude, unit)
        if not unit.parts:
            return magnitude
        # Metres per kilometre are a number; radians are left as they are.
        if not dimension_of(unit) and any(measure.dimension for measure, _ in unit.parts):
            return self._to_base(quantity)
        return quantity

    def _factor(self, value: Value, verb: str) -> Quantity:
        quantity = _quantity(value, verb)
        self._refuse_offsets(quantity, verb)
        return quantity

    def _refuse_offsets(self, quantity: Quantity, verb: str) -> None:
        if _offset(quantity.unit):
            raise UnitsDiffer(
                f"Cannot {verb} {_quantity_text(quantity)}: its scale does not begin at zero",
                hint="Convert to K first, or write a difference as delta_degC",
            )

    def _alike(self, left: Value, right: Value, verb: str) -> tuple[Real, Real]:
        """Two real numbers, or two quantities of one dimension in the unit of the first."""
        if not isinstance(left, Quantity) and not isinstance(right, Quantity):
            return real(left, verb), real(right, verb)
        a, b = _quantity(left, verb), _quantity(right, verb)
        if dimension_of(a.unit) != dimension_of(b.unit):
            raise _differ(verb, _quantity_text(a), "and", _quantity_text(b), a, b.unit)
        other = self._from_base(self._to_base(b), a.unit)
        return real(a.magnitude, verb), real(other, verb)

    def _to_base(self, quantity: Quantity) -> Number:
        scaled = self.numbers.multiply(quantity.magnitude, self._scale(quantity.unit))
        offset = _offset(quantity.unit)
        return self.numbers.add(scaled, offset) if offset else scaled

    def _from_base(self, base: Number, unit: Unit) -> Number:
        offset = _offset(unit)
        from_zero = self.numbers.subtract(base, offset) if offset else base
        return self.numbers.divide(from_zero, self._scale(unit))

    def _scale(self, unit: Unit) -> Real:
        scale: Number = ONE
        for measure, exponent in unit.parts:
            if measure.factor != 1:
                scale = self.numbers.multiply(scale, power(self.numbers, measure.factor, exponent))
        return real(scale, "scale")

    # Others ----------------------------------------------------------------------------------------------------------

    def _each(self, operator: Callable[[Value, Value], Value], left: Value, right: Value, verb: str) -> Value:
        if not isinstance(left, tuple) or not isinstance(right, tuple) or len(left) != len(right):
            raise CalculationError(
                f"Cannot {verb} {short(left)} and {short(right)}: lists go with lists of their length",
                hint="Use [x + 1 for x in list] to do it to each",
            )
        return tuple(operator(a, b) for a, b in zip(left, right, strict=True))

    def _moved(self, moment: Value, other: Value, sign: int) -> Value:
        if not isinstance(moment, date) or not isinstance(other, Quantity):
            raise CalculationError(
                f"Cannot add {short(other)} to a date", hint="Add a time, as in `2024-03-01 + 90 days`"
            )
        if dimension_of(other.unit) != (("time", Fraction(1)),):
            raise UnitsDiffer(
                f"Cannot add {_quantity_text(other)} to a date [time]",
                hint="Add a time, as in `2024-03-01 + 90 days`",
            )
        count = real(other.magnitude, "add")
        measure = other.unit.parts[0][0]
        if len(other.unit.parts) == 1 and measure.canonical in ("month", "year") and is_whole(count):
            months = int(count) * (12 if measure.canonical == "year" else 1)
            return _moments.moved_months(moment, months * sign)
        seconds = self.numbers.exact(real(self._to_base(other), "add"))
        return _moments.moved(moment, seconds * sign)


def is_number(value: Value) -> bool:
    return isinstance(value, Fraction | Decimal | Complex)


def number(value: Value, verb: str) -> Number:
    """The value, if it is a number.

    Raises:
        CalculationError: it is something else.
    """
    if isinstance(value, Fraction | Decimal | Complex):
        return value
    raise CalculationError(
        f"Cannot {verb} {short(value)}: it is no number", hint="Look at what it is made of"
    )


def real(value: Value, verb: str) -> Real:
    """The value, if it is a real number.

    Raises:
        CalculationError: it is something else.
    """
    if isinstance(value, Fraction | Decimal):
        return value
    kind = "a complex number" if isinstance(value, Complex) else "no number"
    raise CalculationError(f"Cannot {verb} {short(value)}: it is {kind}", hint="Look at what it is made of")


def _quantity(value: Value, verb: str) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(number(value, verb), Unit(()))


def _offset(unit: Unit) -> Real:
    """Where a unit begins to count. In a product of units only differences can be meant."""
    if len(unit.parts) == 1 and unit.parts[0][1] == 1:
        return unit.parts[0][0].offset
    return Fraction(0)


def _difference_unit(unit: Unit) -> Unit:
    measure = unit.parts[0][0]
    name = f"delta_{measure.symbol}"
    return Unit(((Measure(name, f"delta_{measure.canonical}", measure.factor, measure.dimension), ONE),))


def _quantity_text(quantity: Quantity, *, only_unit: bool = False) -> str:
    shown = short(quantity)
    if only_unit:
        shown = shown.partition(" ")[2] or "a plain number"
    return f"{shown} {named_dimension(dimension_of(quantity.unit))}"


def _differ(verb: str, left: str, joint: str, right: str, a: Quantity, b: Unit) -> UnitsDiffer:
    used = {measure.symbol for unit in (a.unit, b) for measure, _ in unit.parts}
    hint = "Quantities of one dimension go together: convert or divide one of them first"
    if used & _TEMPERATURES:
        hint = "C is the coulomb and F the farad; temperatures are degC, degF and K"
    first, second = (right, left) if verb == "subtract" else (left, right)
    return UnitsDiffer(f"Cannot {verb} {first} {joint} {second}", hint=hint)
