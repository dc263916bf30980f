"""What a person writes into a column's filter."""

from __future__ import annotations

import pytest

from cellwright_kernel._grid import condition_of


@pytest.mark.parametrize(
    ("text", "values", "left"),
    [
        (">5", [5, 6, None, float("nan")], [6]),
        ("<=1,000", [1000, 1001], [1000]),
        ("!=2", [1, 2, None], [1]),
        ("empty", [None, 1, float("nan")], [None, float("nan")]),
        ("filled", [None, 1], [1]),
        ("2", [12, 3], [12]),
    ],
)
def test_numbers_are_compared_or_looked_for(text: str, values: list[object], left: list[object]) -> None:
    holds = condition_of(text, is_number=True)
    assert repr([value for value in values if holds(value)]) == repr(left)


def test_texts_are_looked_for_whatever_their_case_and_can_be_equal() -> None:
    found = condition_of("Ap", is_number=False)
    assert [value for value in ("apple", "GRAPE", "pear", None) if found(value)] == ["apple", "GRAPE"]
    same = condition_of("= apple", is_number=False)
    assert [value for value in ("Apple", "apples") if same(value)] == ["Apple"]
    with pytest.raises(ValueError, match="'many' is no number"):
        condition_of(">many", is_number=True)
