"""Patterns are seen in a cell's text, and what is proposed for them does the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.review import Spot, find_spots
from tests.support.review.casemaking import case_of, page, run

FRAME = pd.DataFrame(
    {"a": [3, 1, 2, 5], "b": [0.5, 2.5, 1.0, 4.0], "s": ["x", "y", "x", "z"], "k": ["p", "q", "p", "q"]}
)

SEEN = [
    ("row_loop", "out = []\nfor i, row in df.iterrows():\n    out.append(row['a'] * row['b'])"),
    ("row_loop", "t = 0\nfor row in df.itertuples():\n    t += row.a * row.b"),
    ("row_loop", "t = 0\nfor i in range(len(df)):\n    t += df['a'].iloc[i] - df.iloc[i]['b']"),
    ("row_loop", "for i in df.index:\n    df.loc[i, 'c'] = df.at[i, 'b'] * 2"),
    (
        "row_loop",
        "n = 0\nfor _, row in df.iterrows():\n    if row['s'] == 'x' and row['b'] > 0.7:\n        n += 1",
    ),
    ("row_loop", "for i, row in df.iterrows():\n    if row['a'] > 1:\n        df.loc[i, 'b'] = row['a'] / 2"),
    ("row_loop", "d = {'p': 2.0, 'q': 3.0}\nt = 0\nfor _, r in df.iterrows():\n    t += d[r['k']] * r['b']"),
    ("row_loop", "w = []\nfor r in df.itertuples():\n    word = r.s.upper()\n    w.append(word)"),
    ("row_apply", "df['c'] = df.apply(lambda row: row['a'] + row['b'], axis=1)"),
    ("row_apply", "c = df.apply(lambda row: 'hi' if row['b'] > 1 else 'lo', axis=1)"),
    ("row_apply", "def f(row):\n    return abs(row['a'] - 3)\n\ndf['c'] = df.apply(f, axis='columns')"),
    ("growth", "all = pd.DataFrame()\nfor n in range(3):\n    all = pd.concat([all, df], ignore_index=True)"),
    ("growth", "x = np.zeros(1)\nfor n in range(4):\n    if n:\n        x = np.append(x, [n, n])"),
    ("growth", "text = ''\nfor n in range(3):\n    for m in range(2):\n        text += str(n)"),
    ("growth", "many = []\nfor n in range(3):\n    many = many + [n]"),
    ("sorted_top", "best = df.sort_values('b', ascending=False).head(2)"),
    ("sorted_top", "least = df['b'].sort_values().iloc[:2]"),
    ("python_sum", "total = sum(df['b'] * df['a'])"),
    ("python_sum", "x = df['b'].to_numpy()\ntotal = sum(v for v in x)"),
    ("needless_copy", "c = df.copy().sort_values('a')"),
    ("regroup", "m = df.groupby('k')['a'].sum()\nv = df.groupby('k')['b'].mean()"),
]


def spots(hint: str, source: str, **around: Any) -> list[Spot]:
    held = around.pop("held", {"df": FRAME})
    return [spot for kind, spot in find_spots(case_of(source, held, **around)) if kind.name == hint]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, pd.DataFrame | pd.Series):
        try:
            getattr(pd.testing, f"assert_{'frame' if isinstance(left, pd.DataFrame) else 'series'}_equal")(
                left, right
            )
        except AssertionError:
            return False
        return True
    if isinstance(left, np.ndarray):
        return bool(np.array_equal(left, right))
    return type(left) is type(right) and bool(left == right or left == pytest.approx(right, nan_ok=True))


def holds(source: str, rewritten: str, held: dict[str, Any]) -> bool:
    """Whether all that a new text leaves is as the old one leaves it."""
    before, after = run(source, held), run(rewritten, held)
    return all(
        same(before[name], after[name]) for name in before if name in after and not callable(before[name])
    )


@pytest.mark.parametrize(("hint", "source"), SEEN)
def test_a_pattern_is_seen_and_one_of_its_rewrites_does_the_same_without_it(hint: str, source: str) -> None:
    (spot,) = spots(hint, source)
    assert any(holds(source, rewrite.source, {"df": FRAME}) for rewrite in spot.rewrites), spot.rewrites
    for rewrite in spot.rewrites:
        assert not spots(hint, rewrite.source)


NOT_REWRITTEN = {
    "a row's number is used later": "for i, row in df.iterrows():\n    df.loc[i, 'c'] = row['b']\nprint(i)",
    "what is added depends on what was added": "t = 0\nfor _, r in df.iterrows():\n    t += r['a'] * t",
    "a column is read that the loop writes": "for i, r in df.iterrows():\n    df.at[i, 'b'] = df.at[i, 'b'] + r['b']",
    "something else happens for each row": "t = 0\nfor _, r in df.iterrows():\n    print(r['a'])\n    t += r['a']",
    "an unknown function is called": "t = 0\nfor _, r in df.iterrows():\n    t += hash(r['a'])",
    "the loop has an end of its own": "t = 0\nfor _, r in df.iterrows():\n    t += r['a']\nelse:\n    t = 1",
    "it may stop early": "t = 0\nfor _, r in df.iterrows():\n    if t > 3:\n        break\n    t += r['a']",
}


@pytest.mark.parametrize("source", NOT_REWRITTEN.values(), ids=NOT_REWRITTEN)
def test_a_loop_that_is_not_understood_is_told_and_stays(source: str) -> None:
    (spot,) = spots("row_loop", source)
    assert not spot.rewrites


def test_rows_with_labels_that_repeat_are_not_filled_at_once() -> None:
    frame = FRAME.set_index(pd.Index([0, 0, 1, 2]))
    (spot,) = spots("row_loop", "for i, r in df.iterrows():\n    df.loc[i, 'c'] = r['b']", held={"df": frame})
    assert not spot.rewrites


def test_a_name_that_a_cell_below_uses_keeps_its_loop() -> None:
    source = "t = 0\nfor _, row in df.iterrows():\n    t += row['a']"
    assert spots("row_loop", source)[0].rewrites
    assert not spots("row_loop", source, below=("row['s']",))[0].rewrites


GROWN_AND_USED = "text = ''\nfor n in range(3):\n    text += str(len(text))"


def test_what_is_looked_at_while_it_grows_is_not_collected() -> None:
    (spot,) = spots("growth", GROWN_AND_USED)
    assert not spot.rewrites


def test_a_file_that_is_read_again_is_copied_only_if_nothing_can_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("d.csv", index=False)
    read, again = "first = pd.read_csv('d.csv')", "second = pd.read_csv('d.csv')"
    held = {"first": FRAME}
    (spot,) = spots("reread", again, held=held, above=(read,))
    assert spot.rewrites[0].source == "second = first.copy()"
    for between in (
        "first['n'] = 1",
        "first = 2",
        "other = first",
        "change(first)",
        "open('d.csv', 'w').close()",
    ):
        (spot,) = spots("reread", again, held=held, above=(read, between))
        assert not spot.rewrites, between
    (spot,) = spots("reread", "for n in range(2):\n    x = pd.read_csv('d.csv')", held={})
    assert spot.repeats


def test_only_columns_that_every_use_names_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("d.csv", index=False)
    read = "df = pd.read_csv('d.csv')"
    (spot,) = spots("unused_columns", read, held={}, below=("df['a'].sum()", "df.groupby('k')['a'].max()"))
    (rewrite,) = spot.rewrites
    assert rewrite.source == "df = pd.read_csv('d.csv', usecols=['a', 'k'])"
    assert rewrite.narrowed == {"df": ("a", "k")}
    for use in ("df", "df.head()", "show(df)", "df['a'] = 1", "df[name]"):
        assert not spots("unused_columns", read, held={}, below=("df['a'].sum()", use)), use


def test_lines_of_magics_stay_and_cells_with_them_are_rewritten_elsewhere() -> None:
    case = case_of("t = sum(df['b'])", {"df": FRAME})
    magic = replace(case, page=page("%matplotlib inline\n%time t = sum(df['b'])\nu = sum(df['b'])"))
    timed, plain = [spot for kind, spot in find_spots(magic) if kind.name == "python_sum"]
    assert not timed.rewrites
    assert plain.rewrites[0].source.splitlines()[:2] == magic.page.source.splitlines()[:2]
    whole = replace(case, page=replace(page("%%time\nt = sum(df['b'])"), plain=False))
    assert not find_spots(whole)


# Small enough for the product of five in 64 bits. A loop over rows computes with Python's integers, which have no end, a
# column with its own; a rewrite that overflows gives something else when it is tried, and is not offered for that.
numbers = st.one_of(
    st.lists(st.integers(-2_000, 2_000), min_size=1, max_size=8),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8),
)
arithmetic = st.recursive(
    st.sampled_from(["row['a']", "row['b']", "2", "0.5", "rate"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=3,
)
expressions = st.recursive(
    st.sampled_from(["row['a']", "row['b']", "2", "0.5", "rate"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("abs({} + row['a'])".format, inner),
        st.builds("(row['a'] if row['b'] {} {} else {})".format, st.sampled_from(["<", ">="]), inner, inner),
    ),
    max_leaves=4,
)
LOOP = """out = []
total = 0
count = 0
for label, row in df.iterrows():
    value = {0}
    out.append(value + row['b'])
    if {1} > row['a'] or row['s'] != 'x':
        total += value * row['a']
        count += 1
    df.loc[label, 'c'] = value - row['b']
"""


@settings(max_examples=25, deadline=None)
@given(numbers, st.data(), expressions, arithmetic)
def test_a_rewritten_loop_gives_what_the_loop_gave_on_any_frame(
    first: list[float], data: st.DataObject, value: str, limit: str
) -> None:
    others = st.lists(st.floats(-1e6, 1e6, width=32), min_size=len(first), max_size=len(first))
    texts = st.lists(st.sampled_from("xyz"), min_size=len(first), max_size=len(first))
    frame = pd.DataFrame({"a": first, "b": data.draw(others), "s": data.draw(texts)})
    held = {"df": frame, "rate": 1.5}
    source = LOOP.format(value, limit)
    (spot,) = spots("row_loop", source, held=held)
    if "row" not in value:
        return  # the same for every row: what it fills a column with is not this test's business
    assert spot.rewrites
    before = run(source, held)
    plain = run(spot.rewrites[0].source, held)
    assert plain["count"] == before["count"]
    assert plain["out"] == pytest.approx(before["out"])
    scale = sum(abs(one) for one in before["df"]["a"]) * max(map(abs, before["out"])) + 1
    assert plain["total"] == pytest.approx(before["total"], abs=1e-9 * scale)
    assert list(plain["df"]["c"]) == pytest.approx(list(before["df"]["c"]))
