"""What a cell cost is counted line by line, within bounds; and values are compared by what they hold."""

from __future__ import annotations

import datetime as dt
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright_kernel import _profiler as profiling
from cellwright_kernel._inspection import fingerprint
from cellwright_kernel._profiler import Profiler

CELL = """def double(x):
    return 2 * x

total = 0
for n in range(50):
    total += double(n)
"""


def measured(source: str, *, lines: bool) -> dict[str, Any]:
    """What a profiler tells of code that ran statement by statement, as a shell runs it."""
    profiler, namespace = Profiler(), {"__name__": "__main__"}
    profiler.arm("cell", lines=lines)
    profiler.begin()
    code = compile(source, "<cell>", "exec")
    with profiler.statement(code):
        exec(code, namespace)  # noqa: S102  # a test's own code
    profiler.end()
    told: dict[str, Any] = profiler.answer(SimpleNamespace(user_ns=namespace, user_ns_hidden={}))["measured"]
    return told


def test_lines_are_counted_where_they_ran_and_their_time_holds_what_they_called() -> None:
    told = measured(CELL, lines=True)
    rows = {(scope, line): (hits, seconds) for _, scope, line, hits, seconds in told["lines"]}
    assert rows["", 5][0] == 51
    assert rows["", 6][0] == rows["double", 2][0] == 50
    assert rows["", 6][1] > rows["double", 2][1]
    assert not told["cut"]
    assert sys.gettrace() is None


def test_without_lines_only_statements_are_timed() -> None:
    told = measured(CELL, lines=False)
    assert told["lines"] == []
    ((line, seconds),) = told["statements"]
    assert (line, seconds > 0) == (1, True)


def test_following_ends_at_its_bound_and_the_cell_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_STEPS", 20)
    told = measured(CELL + "assert total == 2450", lines=True)
    assert told["cut"]
    assert sum(hits for *_, hits, _ in told["lines"]) <= 20


def test_a_cell_that_raises_is_measured_and_leaves_no_trace_function() -> None:
    profiler = Profiler()
    profiler.arm("cell", lines=True)
    profiler.begin()
    code = compile("1 / 0", "<cell>", "exec")
    with pytest.raises(ZeroDivisionError), profiler.statement(code):
        exec(code, {})  # noqa: S102  # a test's own code
    profiler.end()
    assert sys.gettrace() is None


def test_memory_that_a_cell_took_and_gave_back_is_seen() -> None:
    told = measured(
        "block = bytearray(64 << 20)\nfor n in range(0, len(block), 4096): block[n] = 1\ndel block",
        lines=False,
    )
    assert told["memory_bytes"] > 40 << 20


PAIRS = [
    (1, 1.0),
    (1, True),
    ([1, 2], (1, 2)),
    ({"a": 1}, {"a": 2}),
    ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
    (np.array([1, 2]), np.array([1.0, 2.0])),
    (np.float64(1.5), 1.5),
    (pd.Series([1.0], name="a"), pd.Series([1.0], name="b")),
    (pd.Series(["a", "b"]), pd.Series(["a", "c"])),
    (pd.Series([1, 2], index=[0, 1]), pd.Series([1, 2], index=[1, 0])),
    (pd.Timestamp(0), dt.datetime(1970, 1, 1)),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_values_that_differ_in_type_order_or_content_have_other_prints(one: Any, other: Any) -> None:
    first, second = fingerprint(one), fingerprint(other)
    assert first != second
    assert "exact" in first
    assert fingerprint(one) == first


def test_frames_are_told_column_by_column() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.to_datetime(["2026-01-01", None])})
    told, other = fingerprint(frame), fingerprint(frame.assign(b="y"))
    differ = [name for name in told["columns"] if told["columns"][name] != other["columns"][name]]
    assert differ == ["str b"]
    assert told["index"] == other["index"]


@given(st.lists(st.floats(), min_size=1), st.data())
def test_equal_numbers_have_equal_prints_and_one_that_moves_is_seen(
    values: list[float], data: st.DataObject
) -> None:
    assert fingerprint(np.array(values)) == fingerprint(np.array(list(values)))
    place = data.draw(st.integers(0, len(values) - 1))
    moved = [*values[:place], data.draw(st.floats(1.0, 2.0)), *values[place + 1 :]]
    if not abs(moved[place] - values[place]) < 1e-8:
        assert fingerprint(np.array(moved))["close"] != fingerprint(np.array(values))["close"]
        assert fingerprint(moved)["close"] != fingerprint(values)["close"]


def test_a_sum_in_another_order_is_close() -> None:
    values = np.random.default_rng(1).random(1000)
    assert fingerprint([sum(values.tolist())])["close"] == fingerprint([float(values.sum())])["close"]


def test_what_cannot_be_looked_into_is_told_by_its_type_and_none_of_its_code_runs() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise AssertionError

        __eq__ = __hash__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]

    assert set(fingerprint(Hostile())) == {"type"}
    assert set(fingerprint([Hostile()])) == {"type"}
