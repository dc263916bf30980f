"""Groups and histograms are of all rows, the same from every library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cellwright_kernel._chart_manifest import group, histogram
from cellwright_kernel.frames import frame_of

COLUMNS: dict[str, list[Any]] = {
    "shop": ["A", "B", "A", None, "B", "A"],
    "year": [1, 1, 2, 1, 1, 2],
    "units": [1.0, 2.0, 4.0, 8.0, None, 16.0],
}
MAKERS: dict[str, Any] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "dict of columns": dict,
    "records": lambda held: [dict(zip(held, row, strict=True)) for row in zip(*held.values(), strict=True)],
    "pandas objects": lambda held: pd.DataFrame(held).astype({"shop": object}),
}


@pytest.fixture(params=MAKERS)
def frame(request: pytest.FixtureRequest) -> Any:
    found = frame_of(MAKERS[request.param](COLUMNS))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("how", "figures"),
    [("sum", [21, 2, 8]), ("mean", [7, 2, 8]), ("min", [1, 2, 8]), ("max", [16, 2, 8]), ("count", [3, 1, 1])],
)
def test_groups_have_exact_figures(frame: Any, how: Any, figures: list[float]) -> None:
    found = group(frame, ["shop"], value="units", how=how)
    assert list(found.rows) == [
        (shop, figure) for shop, figure in zip(["A", "B", None], figures, strict=True)
    ]
    assert found.names == ("shop", "count" if how == "count" else "units")
    assert found.columns[0].kind == "text"


def test_groups_of_several_columns_are_counted(frame: Any) -> None:
    found = group(frame, ["shop", "year"])
    assert sorted(found.rows, key=str) == [("A", 1, 1), ("A", 2, 2), ("B", 1, 2), (None, 1, 1)]


def test_values_are_counted_into_equal_parts(frame: Any) -> None:
    found = histogram(frame, "units", bins=3)
    assert found.rows == ((1.0, 6.0, 3), (6.0, 11.0, 1), (11.0, 16.0, 1))
    assert found.notices == ("1 of 6 rows have no finite number",)


def test_what_cannot_be_asked_is_refused_by_name(frame: Any) -> None:
    with pytest.raises(KeyError, match="no column 'store'; there are shop, year, units"):
        group(frame, ["store"])
    with pytest.raises(ValueError, match="'shop' has no numbers"):
        group(frame, ["year"], value="shop", how="sum")
    with pytest.raises(ValueError, match="'shop' has no numbers"):
        histogram(frame, "shop", bins=3)
    with pytest.raises(ValueError, match="no figure 'median'"):
        group(frame, ["shop"], value="units", how="median")  # type: ignore[arg-type]


def test_an_index_can_be_grouped_by() -> None:
    found = frame_of(pd.DataFrame({"x": [1, 2, 3]}, index=pd.Index(["a", "b", "a"], name="k")))
    assert found is not None
    assert group(found, ["k"], value="x", how="sum").rows == (("a", 4), ("b", 2))


def test_an_array_of_one_value_has_a_histogram() -> None:
    found = frame_of(np.full(10, 5.0))
    assert found is not None
    assert sum(row[2] for row in histogram(found, "value", bins=4).rows if isinstance(row[2], int)) == 10
