"""A digest says what a reader needs, in less text than ten rows would take."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright_kernel._value_digests import Digests
from cellwright_kernel.frames import frame_of, table_of
from cellwright_kernel.tabledigests import frame_digest, table_digest, value_text
from cellwright_kernel.tables import Column, Table

rng = np.random.default_rng(3)


def told(value: Any) -> str:
    frame = frame_of(value)
    assert frame is not None
    return frame_digest(frame)


def sales(rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "shop": rng.choice(["north", "south", "harbour"], rows),
            "units": rng.poisson(20, rows),
            "revenue": rng.normal(200, 40, rows),
        }
    )


# Made by the test that wants one, not by every process that collects.
FRAMES: dict[str, Callable[[], pd.DataFrame]] = {
    "sales": lambda: sales(1_000),
    "a million": lambda: sales(1_000_000),
    "wide": lambda: pd.DataFrame(
        rng.normal(size=(500, 40)), columns=[f"measure_{number:02}" for number in range(40)]
    ),
    "one column": lambda: pd.DataFrame({"x": range(1_000)}),
    "texts": lambda: pd.DataFrame(
        {"name": [f"person {number}" for number in range(100)], "ok": [True, False] * 50}
    ),
    "levels": lambda: sales(500).set_index(["shop", "day"]),
    "described": lambda: sales(500).groupby("shop")[["units", "revenue"]].describe().T,
    "objects": lambda: pd.DataFrame({"o": [[1], {"a": 2}, None, "x"] * 50}),
    "hundreds of columns": lambda: pd.DataFrame(rng.normal(size=(20, 300))),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_digest_costs_a_third_of_the_html_and_no_more_than_ten_rows(name: str) -> None:
    frame = FRAMES[name]()
    digest = told(frame)
    # The least that pandas makes of it: ten rows and twenty columns.
    assert 3 * len(digest) <= len(frame._repr_html_())
    assert len(digest) <= len(frame.head(10).to_string())
    assert len(digest) <= 1_200


def test_every_library_is_told_alike() -> None:
    frame = sales(1_000)
    lines = [
        [line.partition(": ")[2].partition(", ")[2] for line in told(held).splitlines()[1:5]]
        for held in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame))
    ]
    assert lines[0] == lines[1] == lines[2]


def test_figures_of_a_part_are_marked_and_the_part_is_named() -> None:
    frame = pd.DataFrame(
        {"n": np.arange(1_000_000), "s": ["a", "b", None, "c"] * 250_000, "m": np.arange(1e6)}
    )
    digest = told(frame)
    assert "(~: of 992 rows)" in digest
    assert "n: int64, 0 … 999999" in digest
    assert "s: str, ~25% missing, ~3 distinct" in digest
    assert "m: float64, ~0 … 999" in digest
    assert "~" not in told(frame.head(900))


def test_a_digest_of_a_table_is_that_of_its_frame() -> None:
    frame = sales(200)
    table = table_of(frame)
    assert table is not None
    assert table_digest(table, called="pandas.DataFrame").splitlines()[2:5] == told(frame).splitlines()[2:5]
    assert table_digest(Table((), (), 0)) == "table 0 \u00d7 0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (float("inf"), "inf"),
        (1 / 3, "0.333333"),
        ("a\nb  c", "a b c"),
        ("xT0", "xT0"),
        ("y" * 100, "y" * 23 + "…"),
        (dt.datetime(2024, 1, 1), "2024-01-01"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_a_value_is_told_in_a_few_characters(value: Any, text: str) -> None:
    assert value_text(value) == text


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates(), st.datetimes())
NESTED = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@settings(deadline=None)
@given(NESTED)
def test_any_nesting_is_told_within_bounds(value: Any) -> None:
    digest = Digests().of(value)
    if isinstance(value, list | tuple | dict):
        assert digest
        assert len(digest) <= 1_200


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(PLAIN, PLAIN, NESTED), max_size=20))
def test_any_columns_are_told_within_bounds(rows: Any) -> None:
    for frame in (
        pd.DataFrame(rows, columns=["a", "b", "c"]),
        [dict(zip("abc", row, strict=True)) for row in rows],
    ):
        found = frame_of(frame)
        if found is not None:
            assert len(frame_digest(found)) <= 1_200


def test_the_order_of_a_nesting_is_told_with_what_only_some_have() -> None:
    digest = Digests().of([{"id": 1, "tags": ["a", "b", "c"]}, {"id": 2, "at": {"x": 1.5}}] * 50)
    assert digest == (
        "list of 100 dict\nid: int, 1\ntags?: list of 3 str, a, b, …\nat?: dict of 1 keys\n  x: float, 1.5"
    )


def test_columns_beyond_the_bound_are_counted() -> None:
    columns = tuple(Column(f"c{number}", "number") for number in range(100))
    digest = table_digest(Table(columns, (tuple(range(100)),) * 20, 20))
    assert digest.splitlines()[0] == "table, 20 rows \u00d7 100 columns"
    assert "… 60 more columns" in digest


def test_a_nesting_too_large_to_tell_ends_with_a_whole_line() -> None:
    digest = Digests().of(
        {f"key {number}": {f"inner {inner}": "x" * 20 for inner in range(20)} for number in range(20)}
    )
    assert digest is not None
    assert digest.splitlines()[-1] == "…"
    assert digest.splitlines()[-2].endswith("x" * 20)
