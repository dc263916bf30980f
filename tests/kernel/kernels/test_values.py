"""Values by name: what passes between languages comes back as it was, and what cannot is named."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cellwright_kernel
from cellwright_kernel import _values, get, names, put
from cellwright_kernel.tables import Table

Run = Callable[..., Awaitable[Any]]

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".cellwright" / "values"


@given(value=PLAIN)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    put("x", value)
    assert get("x") == value


def test_the_file_is_what_other_languages_expect(place: Path) -> None:
    put("x", {"a": (1, 2)})
    assert json.loads((place / "x.json").read_text()) == {
        "version": 1,
        "kind": "value",
        "value": {"a": [1, 2]},
    }
    put("t", pd.DataFrame({"n": [1, 2], "when": pd.to_datetime(["2026-01-02", None])}))
    held = json.loads((place / "t.json").read_text())
    table = Table.from_wire(held["table"])
    assert (held["kind"], table.names, table.total_rows) == ("table", ("n", "when"), 2)
    assert [column.kind for column in table.columns] == ["number", "time"]
    assert table.rows[1] == (2, None)
    assert table.rows[0] == (1, "2026-01-02")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, 2], "s": ["x", None], "f": [0.5, float("nan")]}),
        pl.DataFrame({"n": [1, 2], "s": ["x", None], "f": [0.5, None]}),
        pl.LazyFrame({"n": [1, 2], "s": ["x", None], "f": [0.5, None]}),
        pa.table({"n": [1, 2], "s": ["x", None], "f": [0.5, None]}),
        np.array([(1, "x", 0.5), (2, "", np.nan)], dtype=[("n", "i8"), ("s", "U3"), ("f", "f8")]),
    ],
    ids=lambda frame: f"{type(frame).__module__}.{type(frame).__name__}",
)
@pytest.mark.parametrize("arrow", [True, False])
def test_frames_come_back_as_frames(frame: Any, arrow: bool, place: Path) -> None:
    put("t", frame)
    if not arrow:
        (place / "t.arrow").unlink()
    back = get("t")
    assert type(back) is pd.DataFrame
    assert back["n"].tolist() == [1, 2]
    assert back["s"].iloc[0] == "x"
    assert back["f"].iloc[0] == 0.5
    assert back["f"].isna().tolist() == [False, True]


def test_times_come_back_as_times(place: Path) -> None:
    put("t", pd.DataFrame({"when": pd.to_datetime(["2026-01-02T03:04:05"])}))
    (place / "t.arrow").unlink()
    assert get("t")["when"].dt.hour.tolist() == [3]


def test_an_index_comes_back_with_its_frame() -> None:
    put("t", pd.DataFrame({"a": [1]}, index=pd.Index(["first"], name="key")))
    assert get("t").loc["first", "a"] == 1


def test_what_another_language_put_later_counts(place: Path) -> None:
    put("t", pd.DataFrame({"a": [1]}))
    (place / "t.json").write_text(json.dumps({"version": 1, "kind": "value", "value": "newer"}))
    os.utime(place / "t.json", ns=(2**62, 2**62))
    assert get("t") == "newer"


def test_a_plain_value_takes_the_place_of_a_table(place: Path) -> None:
    put("t", pd.DataFrame({"a": [1]}))
    put("t", 5)
    assert get("t") == 5
    assert [file.name for file in place.iterdir()] == ["t.json"]


def test_records_stay_records_and_dates_become_texts() -> None:
    put(
        "r",
        [
            {"a": 1, "when": dt.date(2026, 1, 2)},
            {"a": np.int64(2), "when": pd.Timestamp("2026-01-03")},
            {"when": pd.NaT},
        ],
    )
    assert get("r") == [
        {"a": 1, "when": "2026-01-02"},
        {"a": 2, "when": "2026-01-03T00:00:00"},
        {"when": None},
    ]
    put("a", np.arange(4).reshape(2, 2))
    assert get("a") == [[0, 1], [2, 3]]


def test_numbers_that_json_has_not_pass_as_null_and_are_told() -> None:
    with pytest.warns(UserWarning, match=r"value\.a\[1\] and 1 more had no finite number"):
        put("x", {"a": [1.0, float("nan"), float("inf")]})
    assert get("x") == {"a": [1.0, None, None]}


def cyclic() -> list[Any]:
    held: list[Any] = []
    held.append({"again": held})
    return held


def deep() -> list[Any]:
    held: list[Any] = []
    for _ in range(1_000):
        held = [held]
    return held


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        ({"a": [1, print]}, TypeError, r"value\.a\[1\] is of type builtin_function"),
        ({"a": {3: 4}}, TypeError, r"value\.a has the key 3"),
        (b"bytes", TypeError, "value is of type bytes"),
        (object(), TypeError, "value is of type object"),
        (cyclic(), ValueError, r"value\[0\]\.again contains itself"),
        (deep(), ValueError, "levels deep"),
    ],
)
def test_what_cannot_pass_is_named(value: Any, kind: type[Exception], told: str, place: Path) -> None:
    with pytest.raises(kind, match=told):
        put("x", value)
    assert not place.exists()


def test_too_much_is_refused_and_the_old_value_stays(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    put("x", 1)
    monkeypatch.setattr(_values, "MAX_BYTES", 1_000)
    with pytest.raises(ValueError, match="can pass: write it to a file instead"):
        put("x", "y" * 2_000)
    assert get("x") == 1
    assert len(list(place.iterdir())) == 1


@pytest.mark.parametrize("name", ["", "../x", "two words", "1st", "a.b", "x" * 200, 5])
def test_a_name_is_an_identifier(name: Any) -> None:
    with pytest.raises(ValueError, match="is no name for a value"):
        put(name, 1)
    with pytest.raises(ValueError, match="is no name for a value"):
        get(name)


def test_a_missing_value_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(LookupError, match="There is none at all"):
        get("sales")
    put("sales", 1)
    assert names() == ["sales"]
    with pytest.raises(LookupError, match="Did you mean sales"):
        get("salse")


def test_a_file_that_is_none_of_ours_is_refused(place: Path) -> None:
    place.mkdir(parents=True)
    for text in ("", "[]", '{"kind": "table"}', '{"kind": "table", "table": {"columns": 5}}'):
        (place / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"x\.json holds no value"):
            get("x")


def test_the_package_gives_out_these_and_costs_nothing_to_import() -> None:
    assert {"get", "names", "put"} <= set(cellwright_kernel.__all__)
    with pytest.raises(AttributeError):
        _ = cellwright_kernel.nothing  # type: ignore[attr-defined]  # that is the point
