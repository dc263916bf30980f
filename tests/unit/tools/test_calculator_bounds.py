"""Numbers that are too large even for the reckoning of what they would cost."""

from __future__ import annotations

import contextlib

import pytest

from cellwright.errors import CellwrightError
from cellwright.tools.calculator import calculate

HUGE = ("2^39000", "10^11000", "9" * 3_000)


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("name", ["fibonacci", "factorial", "isprime", "factor", "sqrt", "exp", "bin", "hex"])
def test_function_of_a_number_beyond_every_float_has_a_value_or_a_reason(name: str, huge: str) -> None:
    with contextlib.suppress(CellwrightError):
        assert calculate(f"{name}({huge})").result


@pytest.mark.parametrize("huge", HUGE)
def test_fibonacci_beyond_every_float_is_refused_by_its_digits(huge: str) -> None:
    with pytest.raises(CellwrightError, match="digits"):
        calculate(f"fibonacci({huge})")


@pytest.mark.parametrize(
    "expression",
    [
        "permutations(10^5000, 10^4000)",
        "binomial(10^5000, 10^4000)",
        "npr(10^5000, 10^4000)",
        "ncr(10^5000, 10^4000)",
    ],
)
def test_counts_beyond_every_float_are_refused_with_a_reason(expression: str) -> None:
    with pytest.raises(CellwrightError):
        calculate(expression)


@pytest.mark.parametrize(("base", "told"), [("1", "1"), ("(-1)", "1"), ("0", "0")])
def test_power_that_stays_short_has_any_exponent(base: str, told: str) -> None:
    assert calculate(f"{base}^1000000").result == calculate(f"{base}^(10^11000)").result == told


@pytest.mark.parametrize(
    "body",
    [
        "count(1..10000)",
        pytest.param("sum(pi^e for k in 1..10000)", marks=pytest.mark.matrix),
        pytest.param("sum(sinh(pi) for k in 1..10000)", marks=pytest.mark.matrix),
    ],
)
def test_what_calculates_no_fraction_is_work_all_the_same(body: str) -> None:
    with pytest.raises(CellwrightError, match="steps of work"):
        calculate(f"sum({body} for i in 1..10000)")
