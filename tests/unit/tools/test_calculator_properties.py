"""The calculator agrees with Python's own exact numbers, decimals and statistics, on numbers of any kind."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal, localcontext
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cellwright.tools.calculator import calculate
from cellwright.tools.calculator._value_text import shown

fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)
whole = st.integers(min_value=-(10**12), max_value=10**12)


@given(fractions, fractions, fractions)
def test_sums_and_products_are_those_of_fractions(a: Fraction, b: Fraction, c: Fraction) -> None:
    assert calculate(f"({a}) * ({b}) - ({c}) + ({a}) * 3").result == shown(a * b - c + a * 3)


@given(whole, whole.filter(bool))
def test_floors_and_remainders_are_those_of_python(a: int, b: int) -> None:
    assert calculate(f"{a} // ({b})").result == str(a // b)
    assert calculate(f"({a}) mod ({b})").result == str(a % b)


@given(st.integers(min_value=0, max_value=10**15), st.integers(min_value=0, max_value=10**15))
def test_divisors_and_primes_are_those_of_python(a: int, b: int) -> None:
    assert calculate(f"gcd({a}, {b})").result == str(math.gcd(a, b))
    if 0 < a < 10**12:
        assert calculate(f"product(factor({a}))").result == str(a)


@given(st.lists(fractions, min_size=2, max_size=12))
def test_statistics_are_those_of_the_standard_library(items: list[Fraction]) -> None:
    listed = ", ".join(f"({item})" for item in items)
    assert calculate(f"mean([{listed}])").result == shown(statistics.mean(items))
    assert calculate(f"median([{listed}])").result == shown(Fraction(statistics.median(items)))
    assert calculate(f"variance([{listed}])").result == shown(Fraction(statistics.variance(items)))


@given(st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000))
def test_roots_and_logarithms_are_those_of_decimals(number: Fraction) -> None:
    with localcontext() as context:
        context.prec = 60
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
        assert calculate(f"sqrt({number})").decimal in (
            shown(decimal.sqrt())[2:],
            calculate(f"{decimal.sqrt()}").decimal,
        )
        if number != 1:
            assert calculate(f"ln({number})").result == shown(decimal.ln())


@given(st.floats(min_value=-50, max_value=50))
def test_angles_are_those_of_floats_as_far_as_those_go(angle: float) -> None:
    text = format(Decimal(angle), "f")
    for name, function in (("sin", math.sin), ("cos", math.cos), ("atan", math.atan)):
        assert math.isclose(
            float(calculate(f"{name}({text})").decimal or "nan"),
            function(angle),
            rel_tol=1e-12,
            abs_tol=1e-14,
        )


@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=3, max_size=3))
def test_a_matrix_times_its_inverse_is_the_identity(rows: list[list[int]]) -> None:
    if calculate(f"det({rows})").result != "0":
        assert calculate(f"a = {rows}; matmul(a, inv(a))").result == "[[1, 0, 0], [0, 1, 0], [0, 0, 1]]"


@given(fractions, st.sampled_from(["ft", "mile", "cm", "light_year", "inch"]))
def test_a_conversion_there_and_back_changes_nothing(count: Fraction, unit: str) -> None:
    assert calculate(f"(({count}) {unit} to km to {unit}) == ({count}) {unit}").result == "true"
