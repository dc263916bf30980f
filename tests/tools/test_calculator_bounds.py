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
