"""Whatever holds columns becomes the same kind of table, and says what it left out."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright_kernel.frames import frame_of, sampled_rows, table_of
from cellwright_kernel.tables import Table

DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3)]
COLUMNS: dict[str, list[Any]] = {
    "n": [1, None, 3],
    "x": [0.5, math.nan, 2.5],
    "s": ["a", None, "c"],
    "day": DAYS,
    "ok": [True, False, True],
}


def table(value: Any, **options: Any) -> Table:
    made = table_of(value, **options)
    assert made is not None
    assert Table.from_wire(json.loads(json.dumps(made.to_wire(), allow_nan=False))) == made
    return made


def pandas_frame() -> Any:
    frame = pd.DataFrame(COLUMNS)
    return frame.astype({"n": "Int64", "day": "datetime64[s]"})


def duckdb_relation() -> Any:
    held = pa.table({**COLUMNS, "x": [0.5, None, 2.5]})
    return duckdb.connect().from_arrow(held)


@pytest.mark.parametrize(
    "make",
    [
        pandas_frame,
        lambda: pl.DataFrame(COLUMNS),
        lambda: pa.table(COLUMNS),
        lambda: pa.RecordBatch.from_pydict(COLUMNS),
        duckdb_relation,
        lambda: COLUMNS,
        lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    ],
    ids=["pandas", "polars", "arrow", "record batch", "duckdb", "dict of columns", "list of records"],
)
def test_every_library_gives_the_same_table(make: Any) -> None:
    made = table(make())
    assert made.names == ("n", "x", "s", "day", "ok")
    assert [column.kind for column in made.columns] == ["number", "number", "text", "time", "bool"]
    assert [column.missing for column in made.columns] == [1, 1, 1, 0, 0]
    assert made.rows == (
        (1, 0.5, "a", "2024-01-01", True),
        (None, None, None, "2024-01-02", False),
        (3, 2.5, "c", "2024-01-03", True),
    )
    assert made.total_rows == 3
    assert made.notices == ()


def test_an_index_that_says_something_comes_first() -> None:
    frame = pd.DataFrame({"shop": ["A", "A", "B"], "year": [1, 2, 1], "units": [5, 6, 7]})
    grouped = frame.groupby(["shop", "year"])["units"].sum()
    assert table(grouped).names == ("shop", "year", "units")
    assert table(grouped).rows[2] == ("B", 1, 7)
    assert table(frame).names == ("shop", "year", "units")
    assert table(pd.Series([1, 2], index=["a", "b"])).names == ("index", "value")
    assert table(frame.pivot_table("units", "shop", "year")).names == ("shop", "1", "2")


def test_columns_of_one_name_are_told_apart() -> None:
    twice = pd.DataFrame([[1, 2, 3]], columns=["x", "x", "x_2"])
    assert table(twice).names == ("x", "x_2", "x_2_2")
    levels = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "sum"), ("a", 7)]))
    assert table(levels).names == ("a.sum", "a.7")
    assert table(pd.DataFrame([[1]], columns=[None])).names == ("column",)


@pytest.mark.parametrize(
    ("array", "names", "rows"),
    [
        (np.arange(3), ("value",), ((0,), (1,), (2,))),
        (np.array([[1.5, np.inf], [np.nan, 2]]), ("0", "1"), ((1.5, None), (None, 2.0))),
        (np.array([(1, "a")], dtype=[("n", "i4"), ("s", "U3")]), ("n", "s"), ((1, "a"),)),
        (np.array(["2024-01-01", "NaT"], dtype="M8[ns]"), ("value",), (("2024-01-01",), (None,))),
        (np.array([90, 30], dtype="m8[m]"), ("value",), ((5400.0,), (1800.0,))),
        (np.array([1.5], dtype=np.longdouble), ("value",), ((1.5,),)),
    ],
)
def test_arrays_are_tables(array: Any, names: tuple[str, ...], rows: Any) -> None:
    made = table(array)
    assert (made.names, made.rows) == (names, rows)


@pytest.mark.parametrize(
    "value", [3, "text", [], {}, [object()], {"a": [1], "b": 2}, np.zeros((2, 2, 2)), [[1], [2, 3]]]
)
def test_what_has_no_columns_is_no_table(value: Any) -> None:
    assert table_of(value) is None


def test_a_dictionary_of_plain_values_has_them_as_rows() -> None:
    assert table({"a": 1, "b": 2.5}).rows == (("a", 1), ("b", 2.5))


def test_a_sample_is_spread_evenly_and_says_so() -> None:
    frame = pd.DataFrame({"x": range(1_000)})
    even = table(frame, max_rows=10)
    assert [row[0] for row in even.rows] == list(range(0, 1_000, 101))
    assert even.notices == ("10 of 1,000 rows, spread evenly: every 101st",)
    first = table(frame, max_rows=3, sample="first")
    assert [row[0] for row in first.rows] == [0, 1, 2]
    assert first.notices == ("the first 3 of 1,000 rows",)
    assert len(table(frame, max_rows=None, sample="all").rows) == 1_000


def test_a_sample_meets_every_part_of_a_round() -> None:
    frame = pd.DataFrame({"hour": [f"{hour:02}" for hour in range(24)] * 1_000})
    assert len({row[0] for row in table(frame, max_rows=1_000).rows}) == 24


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_missing_values_are_counted_in_all_rows_not_in_the_sample(make: Any) -> None:
    held = make({"x": [None if number % 4 == 1 else number for number in range(1_000)]})
    made = table(held, max_rows=10)
    assert made.columns[0].missing == 250
    assert len(made.rows) == 10


@given(st.integers(0, 10_000), st.integers(1, 500))
def test_a_sample_is_never_larger_than_asked_for(total: int, limit: int) -> None:
    rows = sampled_rows(total, limit, "even")
    assert len(rows) <= limit
    assert len(rows) >= min(total, limit) * 0.4
    assert not rows or rows[-1] < total


def test_only_the_columns_asked_for_are_read() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2]})
    assert table(frame, columns=["b"]).names == ("b",)
    with pytest.raises(KeyError, match="no column 'c'; there are a, b"):
        table_of(frame, columns=["c"])


def test_infinite_and_long_values_are_left_out_and_counted() -> None:
    made = table(pd.DataFrame({"x": [math.inf, 1.0], "s": ["y" * 50, "z"]}), max_text=10)
    assert made.rows == ((None, "y" * 9 + "…"), (1.0, "z"))
    assert made.notices == ("x: 1 infinite values are left out", "s: 1 texts are cut to 10 characters")


def test_no_code_of_a_value_runs() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise AssertionError("foreign code ran")

        __str__ = __len__ = __eq__ = __hash__ = __float__ = __bool__ = __lt__ = __repr__  # type: ignore[assignment]

    held = [Hostile(), 1]
    frame = pd.DataFrame({"o": pd.Series(held, dtype=object)})
    assert "Hostile" in str(table(frame).rows[0][0])
    assert table([{"o": Hostile()}]).columns[0].kind == "other"

    class Frame(pd.DataFrame):
        pass

    assert frame_of(Frame({"x": [1]})) is None


def test_columns_of_a_foreign_type_are_named_and_left_alone() -> None:
    class Foreign(pd.api.extensions.ExtensionDtype):
        name = "foreign"
        type = object
        kind = "O"

        @classmethod
        def construct_array_type(cls) -> Any:
            return ForeignArray

    class ForeignArray(pd.api.extensions.ExtensionArray):
        dtype = Foreign()  # type: ignore[assignment]
        nbytes = 0

        def __len__(self) -> int:
            return 2

        def __getitem__(self, item: Any) -> Any:
            raise AssertionError("foreign code ran")

        def copy(self) -> Any:
            return self

        def isna(self) -> Any:
            raise AssertionError("foreign code ran")

    made = table(pd.DataFrame({"x": [1, 2], "f": pd.Series(ForeignArray(), copy=False)}))
    assert made.rows == ((1, None), (2, None))
    assert "f: values of type" in made.notices[0]
    assert "are not read" in made.notices[0]
