"""Nothing that an expression says runs code or explodes; each of these does where the guard is missing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator import calculate
from tests.forks import forked
from tests.matrix import one_of_each
from tests.support.tools.hostile_expressions import CODE, EXPLOSIONS, Code, Explosion
from tests.support.tools.unguarded import calculates_each, calculates_without_bounds, evaluates, within_limits


def in_fork(function: Callable[[Any], None], given: Any, *, cpu_s: int) -> subprocess.CompletedProcess[str]:
    with forked(within_limits, function, given, cpu_s) as fork:
        told = fork.out.read()
        return subprocess.CompletedProcess([function.__name__], fork.end(), told, fork.said_wrong())


def test_there_are_more_than_forty_of_them() -> None:
    assert len({case.expression for case in (*CODE, *EXPLOSIONS)}) >= 70


@pytest.mark.parametrize("case", CODE, ids=lambda case: case.expression)
def test_code_is_refused_by_its_character_or_word_and_runs_in_plain_eval(case: Code) -> None:
    with pytest.raises(CalculationError) as refused:
        calculate(case.expression)
    assert case.told in str(refused.value)
    assert refused.value.hint
    unguarded = in_fork(evaluates, case.expression, cpu_s=20)
    assert case.reaches in unguarded.stdout, unguarded.stderr


# One by default, since each takes a second, all that it is given; that each is refused is in the next.
@pytest.mark.parametrize("case", one_of_each(EXPLOSIONS, lambda _: "explodes", lambda case: case.name))
def test_what_explodes_does_so_without_its_bound(case: Explosion) -> None:
    unguarded = in_fork(calculates_without_bounds, case.expression, cpu_s=1)
    assert unguarded.stdout == "began\n", unguarded.stdout
    assert unguarded.returncode != 0


def test_all_of_them_are_refused_by_their_bound_or_word_within_little_time_and_memory() -> None:
    every = [(case.expression, case.told) for case in (*CODE, *EXPLOSIONS)]
    # pint's own start is in it; what there is to spend is a fraction of what one explosion takes.
    done = in_fork(calculates_each, every, cpu_s=20)
    assert done.stdout == "all refused\n", done.stderr


def test_an_expression_leaves_nothing_behind_for_the_next() -> None:
    assert calculate("km = 5; x = 2; km x").result == "10"
    with pytest.raises(CalculationError):
        calculate("x")
    assert calculate("1 km to m").result == "1000 m"


def test_lists_deep_within_each_other_are_refused_in_words() -> None:
    nested = "x0=[1];" + "".join(f"x{depth}=[x{depth - 1}];" for depth in range(1, 600))
    with pytest.raises(CalculationTooLarge, match="too deep within each other"):
        calculate(f"{nested}-x599")
