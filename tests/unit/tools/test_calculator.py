"""The calculator against values that are known from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cellwright.errors import CalculationError, ExpressionInvalid, UnitsDiffer
from cellwright.tools.calculator import calculate, described

NOW = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)

KNOWN = [
    # numbers
    ("0.1 + 0.2", "0.3"),
    ("0.1 + 0.2 == 0.3", "true"),
    ("1/3 + 1/6", "0.5"),
    ("2/3", "2/3 ≈ 0.666666666666666666666666666667"),
    ("2^10", "1024"),
    ("2**10", "1024"),
    ("2^3^2", "512"),
    ("-2^2", "-4"),
    ("(-2)^2", "4"),
    ("2^-3", "0.125"),
    ("4^0.5", "2"),
    ("(8/27)^(2/3)", "4/9 ≈ 0.444444444444444444444444444444"),
    ("7 // 2", "3"),
    ("-7 // 2", "-4"),
    ("7 % 3", "1"),
    ("-7 mod 3", "2"),
    ("5!", "120"),
    ("3 + 4!", "27"),
    ("|3 - 5|", "2"),
    ("√16 + 2", "6"),
    ("2 × 3 ÷ 4", "1.5"),
    ("3²+4²", "25"),
    ("20% of 80", "16"),
    ("5%", "0.05"),
    ("200 - 10%", "180"),
    ("1_000_000 * 3", "3000000"),
    ("0xff + 0b11 + 0o17", "273"),
    ("255 to hex", "0xff"),
    ("-255 as bin", "-0b11111111"),
    ("1e3", "1000"),
    ("1.5e-10", "1.5e-10"),
    ("2(3 + 4)", "14"),
    ("let x = 3; 2 x^2", "18"),
    ("a = 1\nb = a + 1\na + b", "3"),
    ("1 < 2", "true"),
    ("2 ≥ 3", "false"),
    # constants and functions to 30 digits: OEIS A000796, A001113, A002193, A002162, A073742, A001622
    ("pi", "≈ 3.14159265358979323846264338328"),
    ("e", "≈ 2.71828182845904523536028747135"),
    ("exp(1)", "≈ 2.71828182845904523536028747135"),
    ("sqrt(2)", "≈ 1.41421356237309504880168872421"),
    ("ln(2)", "≈ 0.693147180559945309417232121458"),
    ("sinh(1)", "≈ 1.17520119364380145688238185060"[:-1]),
    ("phi", "≈ 1.61803398874989484820458683437"),
    ("sin(1)", "≈ 0.841470984807896506652502321630"[:-1]),
    ("cos(1)", "≈ 0.540302305868139717400936607443"),
    ("atan(1) * 4", "≈ 3.14159265358979323846264338328"),
    ("asin(1) * 2", "≈ 3.14159265358979323846264338328"),
    ("acos(-1)", "≈ 3.14159265358979323846264338328"),
    ("cbrt(2)", "≈ 1.25992104989487316476721060728"),
    ("cbrt(-27)", "-3"),
    ("sin(pi)", "≈ 0"),
    ("sin(30 deg)", "0.5"),
    ("cos(60°)", "0.5"),
    ("tan(45°)", "1"),
    ("atan(1) to deg", "≈ 45 deg"),
    ("log10(1000)", "3"),
    ("log2(1/8)", "-3"),
    ("log(81, 3)", "4"),
    ("round(2.5)", "3"),
    ("round(-2.5)", "-3"),
    ("round(pi, 4)", "3.1416"),
    ("floor(-1.5)", "-2"),
    ("ceil(-1.5)", "-1"),
    ("trunc(-1.5)", "-1"),
    ("round(1234 m, -2)", "1200 m"),
    # complex numbers
    ("i^2", "-1"),
    ("(1 + i)^10", "32i"),
    ("(3 + 4i) / (1 - 2i)", "-1 + 2i"),
    ("sqrt(-4)", "2i"),
    ("|3 + 4i|", "5"),
    ("e^(i pi)", "≈ -1"),
    ("conj(2 + 3i)", "2 - 3i"),
    ("1/2 + i/3", "0.5 + (1/3)i ≈ 0.5 + 0.333333333333333333333333333333i"),
    # whole numbers
    ("gcd(84, 36)", "12"),
    ("lcm(4, 6, 10)", "60"),
    ("binomial(52, 5)", "2598960"),
    ("permutations(5, 2)", "20"),
    ("fibonacci(100)", "354224848179261915075"),
    ("powmod(3, 10^12, 1000007)", str(pow(3, 10**12, 1000007))),
    ("isprime(2^61 - 1)", "true"),
    ("isprime(2^67 - 1)", "false"),
    ("factor(1000000016000000063)", "[1000000007, 1000000009]"),
    ("nextprime(1000000)", "1000003"),
    # statistics: the examples of Python's own documentation
    ("mean([1, 2, 3, 4, 4])", "2.8"),
    ("median([1, 3, 5, 7])", "4"),
    ("mode([1, 1, 2, 3, 3, 3, 3, 4])", "3"),
    ("mode([1, 1, 2, 2])", "[1, 2]"),
    ("variance([2.75, 1.75, 1.25, 0.25, 0.5, 1.25, 3.5])", "461/336 ≈ 1.37202380952380952380952380952"),
    ("stdev([1, 3])^2", "≈ 2"),
    ("pstdev([1, 3])", "1"),
    ("quantile([1, 2, 3, 4], 0.25)", "1.75"),
    ("percentile([15, 20, 35, 40, 50], 40)", "29"),
    ("geomean([54, 24, 36])", "36"),
    ("harmean([40, 60])", "48"),
    ("correlation([1, 2, 3], [2, 4, 6])", "1"),
    ("corr([1, 2, 3], [2, 4, 6])", "1"),
    ("var([1, 2, 3])", "1"),
    ("std([1, 2, 3])", "1"),
    ("cov([1, 2, 3], [2, 4, 6])", "2"),
    ("linreg([1, 2, 3], [2, 4, 6])", "[2, 0]"),
    ("covariance([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 1, 2, 3, 1, 2, 3])", "0.75"),
    ("sum(x^2 for x in 1..100)", "338350"),
    ("sum(k^2, k, 1, 100)", "338350"),
    ("product(k for k in 1..5)", "120"),
    ("max(3, 1/2, 2)", "3"),
    ("min([3 m, 200 cm])", "200 cm"),
    ("mean([1 m, 2 m, 300 cm])", "2 m"),
    ("sort([3, 1, 2])", "[1, 2, 3]"),
    # linear algebra
    ("det([[1, 2], [3, 4]])", "-2"),
    ("det([[2, 0, 1], [1, 3, 2], [1, 1, 1]])", "0"),
    ("inv([[1, 2], [3, 4]])", "[[-2, 1], [1.5, -0.5]]"),
    ("solve([[2, 1], [1, 3]], [3, 5])", "[0.8, 1.4]"),
    ("rank([[1, 2], [2, 4]])", "1"),
    ("transpose([[1, 2, 3]])", "[[1], [2], [3]]"),
    ("matmul([[1, 2], [3, 4]], [[5, 6], [7, 8]])", "[[19, 22], [43, 50]]"),
    ("matpow([[1, 1], [1, 0]], 10)", "[[89, 55], [55, 34]]"),
    ("dot([1, 2, 3], [4, 5, 6])", "32"),
    ("norm([3, 4])", "5"),
    ("eigenvalues([[2, 0], [0, 3]])", "[2, 3]"),
    ("eigenvalues([[0, -1], [1, 0]])", "[-i, i]"),
    ("roots([1, -6, 11, -6])", "[1, 2, 3]"),
    ("[1, 2] + [3, 4]", "[4, 6]"),
    ("2 * [1, 2]", "[2, 4]"),
    # units: SI brochure, NIST SP 811
    ("5 km/h to m/s", "25/18 ≈ 1.38888888888888888888888888889 m/s"),
    ("3 ft + 20 cm in m", "1.1144 m"),
    ("1 mile to km", "1.609344 km"),
    ("5 ft 3 in to cm", "160.02 cm"),
    ("12 in in cm", "30.48 cm"),
    ("5 ft in in", "60 in"),
    ("1 lb to kg", "0.45359237 kg"),
    ("100 km / 2 h", "50 km/h"),
    ("5 km per h to m/s", "25/18 ≈ 1.38888888888888888888888888889 m/s"),
    ("5 km / 2 m", "2500"),
    ("20 degC to degF", "68 degF"),
    ("-40 °C to °F", "-40 degF"),
    ("20 degC + 5 delta_degC", "25 degC"),
    ("20 °C - 5 °C", "15 delta_degC"),
    ("1 MiB to MB", "1.048576 MB"),
    ("1 GB / (10 Mbit/s) to s", "800 s"),
    ("5 N * 2 m to J", "10 J"),
    ("sqrt(16 m^2)", "4 m"),
    ("1 kWh to MJ", "3.6 MJ"),
    ("1 atm to Pa", "101325 Pa"),
    ("10 m > 5 ft", "true"),
    ("1 m == 100 cm", "true"),
    ("90 min to h", "1.5 h"),
    ("[1 km, 2 km] to m", "[1000 m, 2000 m]"),
    ("m = 3; 2 m", "6"),
    # dates
    ("2024-03-01 - 2024-02-01", "29 days"),
    ("2023-03-01 - 2023-02-01", "28 days"),
    ("2024-01-31 + 1 month", "2024-02-29"),
    ("2024-02-29 - 1 year", "2023-02-28"),
    ("today + 90 days", "2024-05-29"),
    ("today + 2 weeks", "2024-03-14"),
    ("2024-03-01 + 36 hours", "2024-03-02 12:00:00"),
    ("weekday(2000-01-01)", "Saturday"),
    ("isoweek(2021-01-03)", "53"),
    ("dayofyear(2024-12-31)", "366"),
    ("workdays(2024-03-01, 2024-03-31)", "21"),
    ("addworkdays(2024-03-01, 1)", "2024-03-04"),
    ("addworkdays(2024-03-04, -1)", "2024-03-01"),
    ("2024-03-01T12:00Z to Europe/Berlin", "2024-03-01 13:00:00+01:00"),
    ("2024-03-31T02:30+02:00 to UTC", "2024-03-31 00:30:00+00:00"),
    ("date(2024, 3, 1) > 2024-02-29", "true"),
    ("(2024-03-01 - 2024-02-01) to hours", "696 hours"),
]


@pytest.mark.parametrize(("expression", "known"), KNOWN)
def test_an_expression_is_worth_what_is_known_of_it(expression: str, known: str) -> None:
    assert calculate(expression, now=NOW).result == known


def test_long_numbers_are_shown_by_their_ends() -> None:
    assert calculate("3^3000").result == "23108095781119092726…01769798453765660001 (1,432 digits)"
    assert calculate("1000!").result.endswith("(2,568 digits)")


def test_a_percentage_that_is_added_says_of_what_it_was_taken() -> None:
    answer = calculate("200 + 10%")
    assert (answer.result, answer.notes) == ("220", ("+ 10% was taken of 200",))


def test_an_answer_has_the_exact_and_the_decimal_form_and_the_unit() -> None:
    answer = calculate("5 km/h to m/s")
    assert answer.kind == "quantity"
    assert answer.exact == "25/18 m/s"
    assert answer.decimal == "1.38888888888888888888888888889"
    assert answer.unit == "m/s"
    assert described(calculate("2 + 2")) == {"result": "4", "kind": "integer"}


@pytest.mark.parametrize(
    ("expression", "kind", "told"),
    [
        ("3 m + 2 s", UnitsDiffer, "Cannot add 3 m [length] and 2 s [time]"),
        ("3 m - 2 s", UnitsDiffer, "Cannot subtract 2 s [time] from 3 m [length]"),
        ("5 km to kg", UnitsDiffer, "Cannot convert 5 km [length] to kg [mass]"),
        ("5 km/h to W", UnitsDiffer, "Cannot convert 5 km/h [speed] to W [power]"),
        ("3 m + 2", UnitsDiffer, "Cannot add 3 m [length] and 2 [no dimension]"),
        ("3 m > 2 s", UnitsDiffer, "Cannot compare 3 m [length] and 2 s [time]"),
        ("20 C to F", UnitsDiffer, "temperatures are degC, degF and K"),
        ("20 degC + 5 degC", UnitsDiffer, "delta_degC"),
        ("2 * (20 degC)", UnitsDiffer, "does not begin at zero"),
        ("sin(3 m)", UnitsDiffer, "a plain number is needed"),
        ("2^(3 m)", UnitsDiffer, "Cannot use as an exponent 3 m [length]"),
        ("2024-03-01 + 5 m", UnitsDiffer, "to a date [time]"),
        ("5 MB to m", UnitsDiffer, "[information] to m [length]"),
        ("5 killometer", ExpressionInvalid, "Did you mean kilometer"),
        ("100 USD to EUR", CalculationError, "no exchange rates"),
        ("1,000,000 / 3", ExpressionInvalid, "1000000 or 1_000_000"),
        ("12:30 + 45 min", ExpressionInvalid, "12 h 30 min + 45 min"),
        ("2 x 3", ExpressionInvalid, "`*` to multiply"),
        ("5 plus 6", ExpressionInvalid, "`+` to add"),
        ("$5 * 3", ExpressionInvalid, "no exchange rates"),
        ("10 dB to W", ExpressionInvalid, "scale of logarithms"),
        ("1/0", CalculationError, "division by zero"),
        ("ln(0)", CalculationError, "no logarithm"),
        ("log(8)", CalculationError, "log10(x)"),
        ("asin(2)", CalculationError, "from -1 to 1"),
        ("inv([[1, 2], [2, 4]])", CalculationError, "singular"),
        ("[1, 2] + 3", CalculationError, "lists of their length"),
        ("mean([])", CalculationError, "nothing in the list"),
        ("sqr(2)", ExpressionInvalid, "Did you mean sqrt"),
        ("sin", ExpressionInvalid, "sin is a function"),
        ("sqrt(1, 2)", ExpressionInvalid, "takes 1 values, and was given 2"),
        ("2 +", ExpressionInvalid, "ends too soon"),
        ("(2", ExpressionInvalid, "where ')' is missing"),
        ("2 = 3", ExpressionInvalid, "only a name can be given a value"),
        ("pi = 3", ExpressionInvalid, "pi has a value already"),
        ("2024-02-30", ExpressionInvalid, "is no date"),
        ("now to Mars/Olympus", ExpressionInvalid, "no time zone"),
        ("", ExpressionInvalid, "nothing to calculate"),
    ],
)
def test_what_has_no_value_says_why(expression: str, kind: type[CalculationError], told: str) -> None:
    with pytest.raises(kind) as refused:
        calculate(expression)
    assert told in str(refused.value)
