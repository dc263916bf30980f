from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.engine.lineage import (
    Span,
    before,
    lost_with,
    new_lineage,
    returned,
    steps,
    steps_until,
    to_replay,
)
from cellwright.engine.records import ExecutionRecord, SessionRecord
from cellwright.errors import UnknownExecution


def ran(number: int, generation: int = 1, **changes: Any) -> ExecutionRecord:
    values: dict[str, Any] = {
        "id": f"x-{number}",
        "session_id": "s",
        "cell_id": f"c{number % 3}",
        "number": number,
        "generation": generation,
        "attempt": 1,
        "source": f"run({number})",
        "queued_at": 0.0,
        "state": "ok",
        "started_at": 1.0,
        "ended_at": 2.0,
        "seconds": 1.0,
        "timeout_s": 30.0,
    }
    return ExecutionRecord(**{**values, **changes})


def ids(found: list[Any]) -> list[str]:
    return [step.execution_id for step in found]


def session(**changes: Any) -> SessionRecord:
    return SessionRecord(id="s", name="s", path="s.ipynb", language="python", created_at=0.0, **changes)


records = st.lists(
    st.tuples(
        st.integers(1, 4), st.sampled_from(["ok", "error", "timeout", "interrupted", "died"]), st.booleans()
    ),
    max_size=30,
).map(
    lambda rows: [
        ran(number, generation, state=state, undone=undone)
        for number, (generation, state, undone) in enumerate(sorted(rows, key=lambda row: row[0]), 1)
    ]
)


@given(records, st.randoms())
def test_steps_are_those_of_the_lineage_in_the_order_they_ran_however_they_were_found(
    history: list[ExecutionRecord], random: Any
) -> None:
    lineage = (Span(1, 5), Span(3))
    shuffled = random.sample(history, len(history))
    expected = [
        record.id
        for record in history
        if ((record.generation == 1 and record.number < 5) or record.generation == 3)
        and record.state != "died"
        and not record.undone
    ]
    assert ids(steps(shuffled, lineage)) == expected


@given(records, st.data())
def test_going_back_before_a_step_leaves_exactly_the_steps_before_it(
    history: list[ExecutionRecord], data: st.DataObject
) -> None:
    lineage = (Span(1), Span(2), Span(3), Span(4))
    made = steps(history, lineage)
    if not made:
        return
    chosen = data.draw(st.sampled_from(made))
    record = next(each for each in history if each.id == chosen.execution_id)
    kept = before(lineage, record)
    assert steps(history, kept) == made[: made.index(chosen)]
    assert before(kept, record) == kept, "going back there again changes nothing"
    newer = [*history, ran(100, 9)]
    assert ids(steps(newer, returned(kept, 9))) == [*ids(made[: made.index(chosen)]), "x-100"]


@given(records, st.data())
def test_steps_until_a_cell_end_with_its_last_run(
    history: list[ExecutionRecord], data: st.DataObject
) -> None:
    made = steps(history, (Span(1), Span(2)))
    if not made:
        return
    chosen = data.draw(st.sampled_from(made))
    assert steps_until(made, chosen.execution_id)[-1] == chosen
    until = steps_until(made, chosen.cell_id)
    assert until[-1].cell_id == chosen.cell_id
    assert chosen.cell_id not in [step.cell_id for step in made[len(until) :]]
    assert steps_until(made, None) == made


def test_what_never_started_or_has_not_ended_is_no_step() -> None:
    history = [
        ran(1, started_at=None, state="interrupted"),
        ran(2, state="running", ended_at=None),
        ran(3, state="queued", started_at=None, ended_at=None),
        ran(4),
    ]
    assert ids(steps(history, new_lineage(1))) == ["x-4"]


def test_a_cell_that_ran_three_times_is_three_steps_with_the_source_of_each_time() -> None:
    history = [ran(number, cell_id="a", source=f"x += {number}") for number in (1, 2, 3)]
    assert [step.source for step in steps(history, new_lineage(1))] == ["x += 1", "x += 2", "x += 3"]


def test_without_a_lineage_the_newest_generation_that_ran_something_counts() -> None:
    assert ids(steps([ran(1), ran(2, 2), ran(3, 2)], ())) == ["x-2", "x-3"]
    assert steps([], ()) == []


def test_what_somebody_interrupted_may_run_no_longer_than_it_did() -> None:
    history = [
        ran(1, state="interrupted", seconds=4.5),
        ran(2, state="interrupted", seconds=0.01),
        ran(3, state="timeout", seconds=30.2),
        ran(4, timeout_s=None),
    ]
    assert [step.timeout_s for step in steps(history, new_lineage(1))] == [4.5, 1.0, 30.0, None]


def test_an_execution_of_another_lineage_has_nothing_before_it() -> None:
    assert before(new_lineage(2), ran(1, 1)) == ()
    assert before((Span(1, 5), Span(2)), ran(7, 1)) == (), "it ran after the point that was returned to"
    assert before((Span(1, 5), Span(2)), ran(5, 1)) == (Span(1, 5),)


def test_an_unknown_end_is_refused() -> None:
    with pytest.raises(UnknownExecution, match="'nothing' is among the 1"):
        steps_until(steps([ran(1)], ()), "nothing")


def test_what_was_lost_is_replayed_until_something_new_ran() -> None:
    lost = session(generation=2, lineage=new_lineage(2), former=new_lineage(1))
    assert (to_replay(lost), lost_with(lost)) == (new_lineage(1), new_lineage(1))
    went_on = session(generation=2, lineage=new_lineage(2))
    assert (to_replay(went_on), lost_with(went_on)) == (new_lineage(2), new_lineage(2))
    assert lost_with(session()) == ()
    assert lost_with(session(generation=3)) == new_lineage(3), "of an older journal"
