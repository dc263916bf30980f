"""Parameters of exhaustive products: the default run has one case of each kind, the marker ``matrix`` has the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

__all__ = ["each_with_one", "first_of", "one_of_each"]

Case = TypeVar("Case")


def one_of_each(
    cases: Iterable[Case], kind: Callable[[Case], Hashable], name: Callable[[Case], str]
) -> list[ParameterSet]:
    """Every case; the first of each kind is in the default run."""
    params, seen = [], set()
    for case in cases:
        marks = [pytest.mark.matrix] if kind(case) in seen else []
        params.append(pytest.param(case, id=name(case), marks=marks))
        seen.add(kind(case))
    return params


def first_of(cases: Iterable[Any], count: int) -> list[ParameterSet]:
    """Every case; the first ``count`` are in the default run, and stand for others that take the same way."""
    params = []
    for number, case in enumerate(cases):
        marks = [] if number < count else [pytest.mark.matrix]
        if isinstance(case, ParameterSet):
            params.append(pytest.param(*case.values, id=case.id, marks=[*case.marks, *marks]))
        else:
            params.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks))
    return params


def each_with_one(rows: Sequence[Any], columns: Sequence[Any]) -> list[ParameterSet]:
    """Every pair of a row and a column; each row and each column is in a pair of the default run."""
    longest = max(len(rows), len(columns))
    default = {(number % len(rows), number % len(columns)) for number in range(longest)}
    return [
        pytest.param(row, column, marks=[] if (at, place) in default else [pytest.mark.matrix])
        for at, row in enumerate(rows)
        for place, column in enumerate(columns)
    ]
