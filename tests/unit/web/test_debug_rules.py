"""Traces as a page shows them: bars over time, differences, which steps are wanted. Without a browser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.web._debug import (
    WIDTH,
    Span,
    StepFilter,
    attempts_in,
    chosen,
    messages_of,
    span_of,
    waterfall,
)
from cellwright.web._templates import diff_lines


def step(number: int, **about: Any) -> dict[str, Any]:
    return {
        "number": number,
        "kind": "call",
        "state": "ok",
        "began": float(number),
        "took": 1.0,
        "runs": [],
    } | about


def test_bars_follow_each_other_from_the_first_beginning_to_the_last_end() -> None:
    bars = waterfall([Span("b", "second", 12.0, 8.0), Span("a", "first", 10.0, 2.0)])
    assert [(bar.key, bar.after, bar.parts[0].x, bar.parts[0].width) for bar in bars] == [
        ("a", 0.0, 0.0, 200.0),
        ("b", 2.0, 200.0, 800.0),
    ]


def test_a_bar_says_what_its_time_was_spent_on_and_leaves_the_rest_to_other() -> None:
    (bar,) = waterfall([Span("a", "a", 0.0, 10.0, (("queue", 2.0), ("kernel", 5.0)))])
    assert [(part.spent, part.seconds) for part in bar.parts] == [
        ("queue", 2.0),
        ("kernel", 5.0),
        ("other", 3.0),
    ]


times = st.floats(0, 1e6)


@given(
    st.lists(
        st.tuples(times, times, st.lists(st.tuples(st.sampled_from(["model", "kernel"]), times), max_size=3))
    )
)
def test_no_bar_leaves_the_picture(spans: list[tuple[float, float, list[Any]]]) -> None:
    bars = waterfall(Span(str(n), "", began, took, spent) for n, (began, took, spent) in enumerate(spans))
    assert len(bars) == len(spans)
    for bar in bars:
        assert bar.parts
        assert all(0 <= part.x <= WIDTH and part.width >= 2 for part in bar.parts)


@given(st.text(), st.text())
def test_a_difference_holds_every_line_that_changed(before: str, after: str) -> None:
    lines = diff_lines(before, after)
    added = [line.text for line in lines if line.sign == "+"]
    removed = [line.text for line in lines if line.sign == "-"]
    assert bool(added or removed) == (before.splitlines() != after.splitlines())
    assert len(after.splitlines()) - len(before.splitlines()) == len(added) - len(removed)


def test_texts_that_are_too_long_to_compare_say_so() -> None:
    (line,) = diff_lines("a\n" * 3_000, "b\n" * 3_000)
    assert "too many" in line.text


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        (StepFilter(), [1, 2, 3]),
        (StepFilter(kind="request"), [1]),
        (StepFilter(branch="main.1"), [3]),
        (StepFilter(failed=True), [2]),
        (StepFilter(search="PRICE"), [2]),
        (StepFilter(search="price", kind="request"), []),
    ],
)
def test_steps_are_chosen_by_all_that_is_asked_for(choice: StepFilter, numbers: list[int]) -> None:
    steps = [
        step(1, kind="request"),
        step(2, state="failed", arguments={"content": ["df['price']"]}),
        step(3, branch="main.1"),
    ]
    assert [one["number"] for one in chosen(steps, choice)] == numbers


def test_each_attempt_shows_what_changed_since_the_one_before() -> None:
    runs = [{"cell_id": "a", "code": code, "state": "ok"} for code in ("x = 1", "x = 2", "x = 2")]
    attempts = attempts_in([step(n, runs=[run]) for n, run in enumerate(runs, 1)])["a"]
    assert [one.number for one in attempts] == [1, 2, 3]
    assert [[line.sign + line.text for line in one.changed] for one in attempts] == [
        [],
        ["-x = 1", "+x = 2"],
        [],
    ]


def test_a_step_that_goes_on_lasts_until_now() -> None:
    assert span_of(step(1, took=None, began=10.0), now=14.0).took == 4.0


def test_messages_come_as_pieces_with_their_roles() -> None:
    messages = [
        {"instructions": "Be brief.", "parts": [{"part_kind": "user-prompt", "content": "How many?"}]},
        {"parts": [{"part_kind": "tool-call", "tool_name": "answer", "args": {"code": "1"}}]},
        {
            "parts": [
                {"part_kind": "tool-return", "tool_name": "answer", "content": "1"},
                {"part_kind": "new", "content": 3},
            ]
        },
    ]
    assert [(one.role, one.name) for one in messages_of(messages)] == [
        ("system", ""),
        ("user", ""),
        ("call", "answer"),
        ("tool", "answer"),
        ("new", ""),
    ]
