"""What is doubtful about a notebook, from its cells and what ran."""

from __future__ import annotations

import pytest

from cellwright.engine.records import ExecutionRecord
from cellwright.notebook import CellAdded, CellMetadataSet, Document, OutputsSet
from cellwright.verification._findings import Finding, find_problems


def notebook(*sources: str, counts: tuple[int | None, ...] = ()) -> Document:
    """Cells a, b, c, … with these sources, and these prompt numbers."""
    document = Document.new()
    for place, source in enumerate(sources):
        document.apply(CellAdded("abcdefgh"[place], "code", source, place))
    for place, count in enumerate(counts):
        if count is not None:
            document.apply(OutputsSet("abcdefgh"[place], [], count))
    return document


def ran(*runs: tuple[str | None, str], generation: int = 1) -> list[ExecutionRecord]:
    """These cells ran with these sources, in this order."""
    return [
        ExecutionRecord(
            f"x-{number}", "s", cell, number, generation, 1, source, 0.0, "ok", started_at=1.0, ended_at=2.0
        )
        for number, (cell, source) in enumerate(runs, 1)
    ]


def told(found: tuple[Finding, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.kind, one.cell_id, one.names) for one in found]


def test_a_notebook_that_ran_from_top_to_bottom_has_nothing_doubtful() -> None:
    sources = ("import math\nx = 2", "def f(y):\n    return math.sqrt(y * x)", "f(x)\nprint(len([x]))")
    assert find_problems(notebook(*sources), ran(*zip("abc", sources, strict=True))) == ()


def test_a_cell_edited_after_it_ran_is_stale_and_one_that_never_ran_is_said_so() -> None:
    found = find_problems(notebook("x = 2", "y = 1"), ran(("a", "x = 1")))
    assert told(found) == [("stale", "a", ()), ("never_run", "b", ())]


def test_a_cell_whose_run_was_undone_is_stale() -> None:
    document = notebook("x = 1", counts=(1,))
    document.apply(CellMetadataSet("a", {"cellwright": {"stale": True}}))
    assert told(find_problems(document)) == [("stale", "a", ())]


def test_a_name_that_only_a_deleted_cell_defined_is_hidden_state() -> None:
    (found,) = find_problems(notebook("x + 1"), ran(("gone", "x = 1"), ("a", "x + 1")))
    assert (found.kind, found.cell_id, found.names) == ("hidden", "a", ("x",))
    assert found.message == "uses `x`, which no cell above defines (cell gone, now deleted, did)"


def test_a_name_from_a_deleted_cell_is_hidden_also_where_another_cell_defines_it() -> None:
    history = ran(("a", "x = 1"), ("gone", "x = 2"), ("b", "x"))
    (found,) = find_problems(notebook("x = 1", "x"), history)
    assert (found.kind, found.message) == ("hidden", "took `x` from cell gone, which is deleted")


def test_a_name_from_code_in_no_cell_is_hidden_state() -> None:
    (found,) = find_problems(notebook("x + 1"), ran((None, "x = 1"), ("a", "x + 1")))
    assert "(code that is in no cell did)" in found.message
    (found,) = find_problems(notebook("x = 1", "x"), ran(("a", "x = 1"), (None, "x = 5"), ("b", "x")))
    assert (found.kind, found.cell_id) == ("hidden", "b")


def test_a_name_that_only_a_cell_below_defines_is_out_of_order() -> None:
    (found,) = find_problems(notebook("x", "x = 1"), ran(("b", "x = 1"), ("a", "x")))
    assert (found.kind, found.cell_id, found.message) == (
        "out_of_order",
        "a",
        "uses `x`, which only cell b below defines",
    )


def test_a_cell_that_ran_before_its_giver_ran_last_is_out_of_order() -> None:
    history = ran(("a", "x = 1"), ("b", "x"), ("a", "x = 1"))
    (found,) = find_problems(notebook("x = 1", "x"), history)
    assert (found.kind, found.cell_id) == ("out_of_order", "b")
    assert found.message == "ran before cell a, which defines `x`, ran last"


def test_a_value_from_a_cell_below_is_out_of_order() -> None:
    history = ran(("a", "x = 1"), ("c", "x = 2"), ("b", "x"))
    (found,) = find_problems(notebook("x = 1", "x", "x = 2"), history)
    assert (found.kind, found.message) == ("out_of_order", "took `x` from cell c, which stands below it")


def test_a_cell_that_counts_on_itself_twice_is_out_of_order() -> None:
    history = ran(("a", "n = 0"), ("b", "n = n + 1"), ("b", "n = n + 1"))
    (found,) = find_problems(notebook("n = 0", "n = n + 1"), history)
    assert "its own earlier run" in found.message


def test_a_run_that_was_undone_gave_nothing() -> None:
    history = ran(("a", "x = 1"), ("b", "x"), ("a", "x = 1"))
    undone = [
        *history[:2],
        ExecutionRecord("x-3", "s", "a", 3, 1, 2, "x = 1", 0.0, "ok", 1.0, 2.0, undone=True),
    ]
    assert find_problems(notebook("x = 1", "x"), undone) == ()


def test_a_later_kernel_that_ran_everything_again_is_in_order() -> None:
    first = ran(("b", "x = 1"), ("a", "y = 1"))
    again = [
        ExecutionRecord(f"x-{number}", "s", cell, number, 2, 2, source, 0.0, "ok", 1.0, 2.0)
        for number, (cell, source) in enumerate((("a", "y = 1"), ("b", "x = y")), 3)
    ]
    assert find_problems(notebook("y = 1", "x = y"), [*first, *again]) == ()


def test_a_kernel_takes_nothing_from_another() -> None:
    earlier = ran(("a", "x = 1"), ("c", "x = 2"))
    later = [ExecutionRecord("x-3", "s", "b", 3, 2, 1, "x", 0.0, "ok", 1.0, 2.0)]
    assert find_problems(notebook("x = 1", "x", "x = 2"), [*earlier, *later]) == ()


@pytest.mark.parametrize(
    "sources",
    [
        ("from math import *", "sin(1)"),
        ("%run other.py", "made_there"),
        ("display(1), get_ipython(), _, _1, __name__, print, In",),
        ("def f():\n    return later", "later = 1", "f()"),
        ("[n for n in range(3)]\n{k: v for k, v in {}.items()}",),
    ],
)
def test_what_cannot_be_known_is_not_doubted(sources: tuple[str, ...]) -> None:
    assert find_problems(notebook(*sources), ran(*zip("abc", sources, strict=False))) == ()


def test_a_function_that_is_called_before_its_names_are_there_is_out_of_order() -> None:
    sources = ("def f():\n    return later\nf()", "later = 1")
    (found,) = find_problems(notebook(*sources), ran(("b", sources[1]), ("a", sources[0])))
    assert (found.kind, found.names) == ("out_of_order", ("later",))


def test_a_name_that_a_cell_above_deletes_is_not_there() -> None:
    (found,) = find_problems(notebook("x = 1", "del x", "x"), ran(("a", "x = 1"), ("c", "x"), ("b", "del x")))
    assert (found.kind, found.cell_id) == ("hidden", "c")


def test_without_a_history_the_numbers_in_the_notebook_say_the_order() -> None:
    (found,) = find_problems(notebook("x = 1", "x", counts=(5, 2)))
    assert (found.kind, found.cell_id) == ("out_of_order", "b")
    assert find_problems(notebook("x = 1", "x", counts=(1, 2))) == ()


def test_of_other_languages_only_runs_are_known() -> None:
    document = notebook("x <- 1", "y + undefined")
    assert told(find_problems(document, ran(("a", "x <- 2")), language="r")) == [
        ("stale", "a", ()),
        ("never_run", "b", ()),
    ]


def test_a_query_gives_its_result_to_the_cells_below_it() -> None:
    document = notebook("-- result: total\nSELECT 1", "total + 1")
    document.apply(CellMetadataSet("a", {"cellwright": {"language": "sql"}}))
    assert told(find_problems(document)) == [("never_run", "a", ()), ("never_run", "b", ())]
