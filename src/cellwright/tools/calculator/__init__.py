"""The calculator: an expression in, its value out. Pure, but for the day that `today` is.

The grammar is its own (``parser``), and so is what walks it (``evaluation``): no text of a caller's reaches Python or
pint. What a step costs is known before it is taken (``values``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, DecimalException, Overflow, Underflow
from fractions import Fraction
from typing import Any

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator._evaluation import Evaluation
from cellwright.tools.calculator._parser import parse
from cellwright.tools.calculator._value_text import as_decimal, as_exact, fitting, shown, unit_text
from cellwright.tools.calculator._values import Complex, Quantity, Value

__all__ = ["Answer", "calculate", "described"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an expression is worth."""

    result: str
    """All of it in a line, such as ``1/3 ≈ 0.333333333333333333333333333333``."""
    kind: str
    """``integer``, ``rational``, ``decimal``, ``complex``, ``quantity``, ``date``, ``datetime``, ``list``, ``truth`` or ``text``."""
    exact: str | None = None
    """Without any rounding, where that is known and short enough to read."""
    decimal: str | None = None
    """A number to 30 digits, without its unit."""
    unit: str | None = None
    notes: tuple[str, ...] = ()
    """How something was taken that could have been meant otherwise."""


def calculate(expression: str, *, now: datetime | None = None) -> Answer:
    """The value of an expression, such as ``3 ft + 20 cm to m``.

    Raises:
        ExpressionInvalid: it is not of the grammar, or names what there is not.
        UnitsDiffer: its dimensions do not go together; the message names both.
        CalculationTooLarge: a bound stops it; the message names the bound.
        CalculationError: it has no value, as 1/0.
    """
    evaluation = Evaluation(now or datetime.now(UTC).astimezone())
    try:
        value: Value = False
        for statement in parse(expression):
            value = evaluation.value(statement)
        return _answer(value, tuple(evaluation.notes))
    except (Overflow, Underflow) as error:
        raise CalculationTooLarge(
            "The result is beyond 10^±999,999", hint="Calculate with its logarithm"
        ) from error
    except RecursionError:
        raise CalculationTooLarge(
            "The expression has lists too deep within each other", hint="Calculate it in parts"
        ) from None
    except (DecimalException, ZeroDivisionError) as error:
        raise CalculationError("The expression has no value", hint="Look for 0/0 and its like") from error


def described(answer: Answer) -> dict[str, Any]:
    """An answer as data. What would only say the result again is left out."""
    data: dict[str, Any] = {"result": answer.result, "kind": answer.kind}
    for name in ("exact", "decimal", "unit"):
        value = getattr(answer, name)
        if value is not None and value != answer.result:
            data[name] = value
    if answer.notes:
        data["notes"] = list(answer.notes)
    return data


def _answer(value: Value, notes: tuple[str, ...]) -> Answer:
    number = value.magnitude if isinstance(value, Quantity) else value
    return Answer(
        result=fitting(shown(value)),
        kind=_kind(value),
        exact=None if (exact := as_exact(value)) is None else fitting(exact),
        decimal=as_decimal(number) if isinstance(number, Fraction | Decimal | Complex) else None,
        unit=unit_text(value.unit) if isinstance(value, Quantity) else None,
        notes=notes,
    )


def _kind(value: Value) -> str:
    if isinstance(value, Fraction):
        return "integer" if value.denominator == 1 else "rational"
    kinds: tuple[tuple[type, str], ...] = (
        (Decimal, "decimal"),
        (Complex, "complex"),
        (Quantity, "quantity"),
        (datetime, "datetime"),
        (date, "date"),
        (bool, "truth"),
        (str, "text"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "list")
