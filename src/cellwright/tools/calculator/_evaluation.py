"""Walks the tree of an expression and finds its value. Calls what the tables name, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from cellwright.errors import CalculationError, CalculationTooLarge, ExpressionInvalid
from cellwright.tools.calculator import _elementary, _integers, _moments
from cellwright.tools.calculator._arithmetic import ONE, ZERO, is_whole
from cellwright.tools.calculator._functions import FUNCTIONS, absolute
from cellwright.tools.calculator._operations import Operations, is_number
from cellwright.tools.calculator._parser import (
    Apply,
    Assign,
    Call,
    Chain,
    Compare,
    Convert,
    Each,
    Items,
    Moment,
    Name,
    Node,
    Number,
    Percent,
    Power,
    Span,
)
from cellwright.tools.calculator._units import find_measure, near_names
from cellwright.tools.calculator._value_text import short
from cellwright.tools.calculator._values import (
    MAX_BITS,
    MAX_ENTRIES,
    MAX_ITEMS,
    Complex,
    Meter,
    Quantity,
    Unit,
    Value,
)

__all__ = ["Evaluation"]

_CONSTANTS: dict[str, Value] = {
    "pi": _elementary.PI,
    "e": _elementary.E,
    "tau": Decimal("6.28318530717958647692528676655900576839433879875021164194989"),
    "phi": _elementary.PHI,
    "i": Complex(ZERO, ONE),
    "j": Complex(ZERO, ONE),
    "true": True,
    "false": False,
}
_FORMS = frozenset({"hex", "bin", "oct"})
_PLAIN_FORMS = frozenset({"decimal", "fraction", "number"})
_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class Evaluation:
    """One expression: its variables, its account of work, and what the reader should know."""

    def __init__(self, now: datetime, meter: Meter | None = None) -> None:
        self.operations = Operations(meter)
        self.notes: list[str] = []
        self._now = now
        self._variables: dict[str, Value] = {}
        self._kinds: dict[type[Node], Callable[[Any], Value]] = {
            Number: lambda node: node.value,
            Moment: lambda node: node.value,
            Name: self._name,
            Apply: self._apply,
            Percent: self._percent,
            Chain: self._chain,
            Power: lambda node: self.operations.power(self.value(node.base), self.value(node.exponent)),
            Compare: self._compare,
            Call: self._call,
            Items: lambda node: self._kept(self.value(item) for item in node.items),
            Span: self._span,
            Each: self._each,
            Convert: self._convert,
            Assign: self._assign,
        }
        o = self.operations
        self._operators: dict[str, Callable[[Value, Value], Value]] = {
            "+": o.add,
            "-": o.subtract,
            "*": o.multiply,
            "·": o.multiply,
            "/": o.divide,
            "//": o.floor_divide,
            "mod": o.remainder,
        }

    def value(self, node: Node) -> Value:
        self.operations.numbers.meter.spend(1)
        return self._kinds[type(node)](node)

    # Names -----------------------------------------------------------------------------------------------------------

    def _name(self, node: Name) -> Value:
        name = node.name
        if name in self._variables:
            return self._variables[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in ("today", "now"):
            return self._now if name == "now" else self._now.date()
        unit = self._unit(node)
        if unit is None:
            raise _unknown(name, [*self._variables, *_CONSTANTS])
        return Quantity(ONE, unit)

    def _unit(self, node: Node) -> Unit | None:
        """The unit that a name alone says, unless it says something else."""
        if not isinstance(node, Name) or node.name in self._variables or node.name in _CONSTANTS:
            return None
        measure = find_measure(node.name)
        return None if measure is None else Unit(((measure, ONE),))

    def _assign(self, node: Assign) -> Value:
        if node.name in _CONSTANTS or node.name in FUNCTIONS:
            raise ExpressionInvalid(f"{node.name} has a value already", hint="Choose another name")
        self._variables[node.name] = value = self.value(node.value)
        return value

    # Operators -------------------------------------------------------------------------------------------------------

    def _chain(self, node: Chain) -> Value:
        value = self.value(node.first)
        for operator, operand in node.rest:
            if isinstance(operand, Percent) and operator in ("+", "-"):
                value = self._by_percent(value, operator, operand)
            elif operator in ("·", "*") and is_number(value) and (unit := self._unit(operand)) is not None:
                value = Quantity(value, unit)  # type: ignore[arg-type]  # it is a number
            else:
                value = self._operators[operator](value, self.value(operand))
        return value

    def _by_percent(self, value: Value, operator: str, operand: Percent) -> Value:
        share = self._percent(operand)
        part = self.operations.multiply(value, share)
        self.notes.append(
            f"{operator} {short(self.operations.multiply(share, Fraction(100)))}% was taken of {short(value)}"
        )
        return self._operators[operator](value, part)

    def _percent(self, node: Percent) -> Value:
        return self.operations.divide(self.value(node.operand), Fraction(100))

    def _apply(self, node: Apply) -> Value:
        value = self.value(node.operand)
        if node.operator == "-":
            return self.operations.negate(value)
        if node.operator == "|":
            return absolute(self.operations, value)
        if node.operator == "√":
            return FUNCTIONS["sqrt"].run(self.operations, [value])
        if not isinstance(value, Fraction) or not is_whole(value):
            raise CalculationError(
                f"{short(value)} has no factorial: it is no whole number", hint="Round it first"
            )
        return Fraction(_integers.factorial_of(int(value), self.operations.numbers.meter))

    def _compare(self, node: Compare) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if node.operator in ("==", "!="):
            return self.operations.equal(left, right) == (node.operator == "==")
        return _COMPARISONS[node.operator](self.operations.compare(left, right))

    # Lists and functions ---------------------------------------------------------------------------------------------

    def _span(self, node: Span) -> Value:
        first, last = self.value(node.first), self.value(node.last)
        if (
            not isinstance(first, Fraction)
            or not isinstance(last, Fraction)
            or not (is_whole(first) and is_whole(last))
        ):
            raise CalculationError("A range goes from one whole number to another", hint="Write 1..100")
        self._bound_items(int(last - first) + 1)
        numbers = range(int(first), int(last) + 1)
        self.operations.numbers.meter.write(len(numbers), first, last)
        return tuple(map(Fraction, numbers))

    def _each(self, node: Each) -> Value:
        source = self.value(node.source)
        if not isinstance(source, tuple):
            raise CalculationError(
                f"{short(source)} is no list", hint="Write `for k in 1..10` or `for x in [1, 2]`"
            )
        return self._over(node.body, node.name, source)

    def _over(self, body: Node, name: str, source: tuple[Value, ...]) -> tuple[Value, ...]:
        self._bound_items(len(source))
        return self._kept(self._values(body, name, source))

    def _values(self, body: Node, name: str, source: tuple[Value, ...]) -> Iterator[Value]:
        outer = self._variables
        for item in source:
            self._variables = {**outer, name: item}
            yield self.value(body)
        self._variables = outer

    def _kept(self, made: Iterable[Value]) -> tuple[Value, ...]:
        """A new list, made only as far as it is not too much with all that is in it."""
        items, count = [], 0
        for item in made:
            items.append(item)
            weight = _weight(item)
            count += weight
            if count > MAX_ENTRIES:
                raise CalculationTooLarge(
                    f"The list and the lists in it have more than {MAX_ENTRIES:,} items",
                    hint="Use a formula, or run it as code",
                )
            self.operations.numbers.meter.spend(weight)
        return tuple(items)

    def _bound_items(self, count: int) -> None:
        if count > MAX_ITEMS:
            shown = f"{count:,}" if count.bit_length() <= MAX_BITS // 1_000 else "a long number of"
            raise CalculationTooLarge(
                f"The range has {shown} items; at most {MAX_ITEMS:,} are made",
                hint="Use a formula, or run it as code",
            )

    def _call(self, node: Call) -> Value:
        function = FUNCTIONS.get(node.name)
        if function is None:
            if len(node.arguments) == 1 and self._is_value(node.name):
                # `pi(2 + 3)` and `x(y + 1)` are products.
                return self.operations.multiply(self._name(Name(node.name)), self.value(node.arguments[0]))
            raise _unknown_function(node.name)
        if node.name in ("sum", "product") and len(node.arguments) == 4:  # body, name, first, last
            body, name, first, last = node.arguments
            if isinstance(name, Name):
                items = self._over(body, name.name, self._span(Span(first, last)))  # type: ignore[arg-type]  # a list
                return function.run(self.operations, [items])
        values = [self.value(argument) for argument in node.arguments]
        if not function.least <= len(values) <= function.most:
            expected = (
                f"{function.least}"
                if function.least == function.most
                else f"{function.least} to {function.most:,}"
            )
            raise ExpressionInvalid(
                f"{node.name} takes {expected} values, and was given {len(values)}",
                hint="The guide shows each function",
            )
        return function.run(self.operations, values)

    def _is_value(self, name: str) -> bool:
        return name in self._variables or name in _CONSTANTS

    # Conversions -----------------------------------------------------------------------------------------------------

    def _convert(self, node: Convert) -> Value:
        value = self.value(node.value)
        if isinstance(value, datetime):
            return _moments.in_zone(value, node.text.strip())
        if isinstance(node.target, Name) and node.target.name in _FORMS:
            return FUNCTIONS[node.target.name].run(self.operations, [value])
        if isinstance(node.target, Name) and node.target.name in _PLAIN_FORMS:
            return value
        target = self.value(node.target)
        if not isinstance(target, Quantity) or target.magnitude != 1:
            raise ExpressionInvalid(
                f"{node.text} is no unit to convert to", hint="Write a unit, as in `5 km/h to m/s`"
            )
        return self.operations.convert(value, target.unit)


def _weight(value: Value) -> int:
    """As how many items a value counts with all that is in it; what is too much is not counted to its end."""
    count, pending = 1, [value]
    while pending and count <= MAX_ENTRIES:
        inner = pending.pop()
        if isinstance(inner, tuple):
            count += len(inner)
            pending += [item for item in inner if isinstance(item, tuple)]
    return count


_WORDS = {
    "x": "`*` to multiply, or give it a value first, as in `x = 3; 2 x`",
    "X": "`*` to multiply, or give it a value first, as in `X = 3; 2 X`",
    "times": "`*` to multiply",
    "plus": "`+` to add",
    "minus": "`-` to subtract",
}


def _unknown(name: str, values: list[str]) -> ExpressionInvalid:
    near = [*get_close_matches(name, values, n=2, cutoff=0.75), *near_names(name)]
    if name in _WORDS:
        return ExpressionInvalid(f"There is no variable {name!r}", hint=f"Write {_WORDS[name]}")
    if name in FUNCTIONS:
        return ExpressionInvalid(f"{name} is a function", hint=f"Write {name}(…)")
    hint = (
        f"Did you mean {' or '.join(dict.fromkeys(near))}?"
        if near
        else "Give it a value first, as in `x = 3; 2 x`"
    )
    return ExpressionInvalid(f"There is no unit, constant or variable {name[:60]!r}", hint=hint)


def _unknown_function(name: str) -> ExpressionInvalid:
    near = get_close_matches(name, FUNCTIONS, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(sorted(FUNCTIONS))}"
    return ExpressionInvalid(f"There is no function {name[:60]!r}", hint=hint)
