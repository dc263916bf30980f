"""What panels say, decided without a browser: which lines stand beside each other, what is named, what is touched."""

from __future__ import annotations

import json
import time

from cellwright.engine import Event, Execution
from cellwright.engine._executions import cell_completed
from cellwright.engine.records import CheckpointRecord, ExecutionRecord, Requester, Span
from cellwright.engine.timeline import cell_words, moments_of
from cellwright.notebook import Cell, CellAdded, Document
from cellwright.notebook.cells import RunTimes, run_times
from cellwright.web._notebook import CELLS, touched_by
from cellwright.web._templates import moment, period
from cellwright.web.panels.branches import line_rows, paired
from cellwright.web.panels.environment import rules_in_words
from cellwright.web.panels.files import picture_type
from cellwright.web.panels.history import history_page, remarks_on, shown_outputs

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def cell(cell_id: str, source: str = "", *printed: str) -> Cell:
    outputs = tuple({"output_type": "stream", "name": "stdout", "text": text} for text in printed)
    return Cell(cell_id, "code", source, 1, {}, outputs, None, None)


def ran(number: int, cell_id: str | None = "a", **more: object) -> ExecutionRecord:
    about = {"generation": 1, "attempt": 1, "source": "", "queued_at": 0.0, "state": "ok", "started_at": 0.0}
    return ExecutionRecord(
        id=f"e{number}",
        session_id="s",
        cell_id=cell_id,
        number=number,
        **(about | more),  # type: ignore[arg-type]  # words of the test
    )


def event(kind: str, **data: object) -> Event:
    return Event(1, 0.0, kind, "s", 1, data=data)  # type: ignore[arg-type]  # a word of the test


def test_lines_that_differ_stand_beside_each_other_and_long_equal_stretches_are_left_out() -> None:
    same = [f"line {number}" for number in range(20)]
    rows = line_rows("\n".join([*same, "old", "gone"]), "\n".join([*same, "new"]))
    assert [row.kind for row in rows] == ["gap", "same", "same", "same", "changed", "changed"]
    assert rows[0].hidden == 17
    changed = rows[4]
    assert changed.left is not None
    assert changed.right is not None
    assert (changed.left.number, changed.left.text, changed.right.text) == (21, "old", "new")
    assert rows[5].right is None


def test_a_cell_says_in_its_file_and_on_the_page_when_its_run_began_and_ended() -> None:
    document = Document.new()
    document.apply(CellAdded("a", "code", "1", 0))
    cell_completed(document, ran(1, started_at=1_000.5, ended_at=1_002.0, seconds=1.5), [])
    (told,) = json.loads(document.to_bytes())["cells"]
    assert told["metadata"]["execution"] == {
        "iopub.execute_input": "1970-01-01T00:16:40.500000Z",
        "iopub.status.busy": "1970-01-01T00:16:40.500000Z",
        "iopub.status.idle": "1970-01-01T00:16:42.000000Z",
        "shell.execute_reply": "1970-01-01T00:16:42.000000Z",
    }
    times = run_times(document.cell("a").metadata)
    assert times == RunTimes(1_000.5, 1_002.0)
    assert period(times) == moment(1_000.5), "once where it is the same minute of another day"
    now = time.time()
    assert period(RunTimes(now, now + 2)) == f"{moment(now)} \u2013 {moment(now + 2)}"
    assert run_times({"execution": {"iopub.status.busy": 7, "iopub.status.idle": "soon"}}) == RunTimes()
    assert run_times({"execution": "now"}) == RunTimes()


def test_texts_that_are_the_same_are_shown_whole() -> None:
    assert [row.kind for row in line_rows("a\n" * 20, "a\n" * 20)] == ["same"] * 20


def test_what_came_after_a_cells_end_is_shown_with_its_outputs() -> None:
    kinds = ("notebook.cell.output", "notebook.cell.late_output")
    assert {touched_by(Event(1, 0.0, kind, "s", 1, "a")) for kind in kinds} == {frozenset({"out-a"})}  # type: ignore[arg-type]  # words of the test


def test_cells_are_paired_by_id_and_what_only_one_side_has_stands_where_it_was() -> None:
    pairs = paired(
        [cell("a", "x"), cell("b", "y", "1\n"), cell("c")], [cell("a", "x"), cell("c"), cell("d", "z")]
    )
    assert [(pair.left_place, pair.right_place) for pair in pairs] == [(1, 1), (2, None), (3, 2), (None, 3)]
    assert [pair.is_same for pair in pairs] == [True, False, True, False]
    assert [pair.verdict for pair in pairs if not pair.is_same] == ["only left", "only right"]


def test_a_pair_says_whether_its_source_or_its_outputs_differ() -> None:
    [both, outputs] = paired(
        [cell("a", "x", "1\n"), cell("b", "y", "2\n")], [cell("a", "z", "3\n"), cell("b", "y", "4\n")]
    )
    assert both.verdict == "source and outputs differ"
    assert outputs.verdict == "outputs differ"
    assert outputs.differences == ("stdout: 2 became 4",)


def test_an_output_is_its_picture_where_it_is_one_and_text_that_is_cut_where_it_is_long() -> None:
    picture = {"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure>"}}
    lie = {"output_type": "display_data", "data": {"image/png": "PHNjcmlwdD4="}}
    long = {"output_type": "stream", "name": "stdout", "text": "x" * 100_000}
    shown = shown_outputs([picture, lie, long])
    assert shown[0].picture == f"data:image/png;base64,{PNG}"
    assert (shown[1].picture, shown[1].text) == (None, "(image/png)")
    assert len(shown[2].text) < 30_000
    assert "left out" in shown[2].text


def test_cells_are_named_once_by_their_place_and_what_is_no_cell_is_said() -> None:
    places = {f"c{number}": number for number in range(1, 30)}
    assert cell_words([], places) == ""
    assert cell_words(["c3"], places) == "cell 3"
    assert cell_words(["c3", "c1", "c3"], places) == "cells 1 and 3"
    assert cell_words([None, "gone"], places) == "cells that are deleted and code in no cell"
    assert cell_words(places, places).endswith("11, 12 and 17 more")


def test_history_comes_in_pages_of_the_newest_first_and_is_filtered() -> None:
    runs = [Execution(ran(number, state="error" if number % 2 else "ok")) for number in range(1, 101)]
    first = history_page(runs, state=None, before=None)
    assert [run.record.number for run in first.runs[:2]] == [100, 99]
    rest = history_page(runs, state=None, before=first.older)
    assert rest.runs[0].record.number == first.runs[-1].record.number - 1
    failed = history_page(runs, state="error", before=20)
    assert [run.record.number for run in failed.runs] == list(range(19, 0, -2))
    assert failed.older is None


def test_a_run_is_remarked_on_only_where_there_is_something_to_say() -> None:
    assert remarks_on(ran(1)) == []
    lab = ran(2, attempt=3, undone=True, asker=Requester("JupyterLab", "r"), reason="it took too long")
    assert remarks_on(lab) == ["attempt 3", "undone", "by JupyterLab", "it took too long"]


def test_a_checkpoint_says_what_ran_since() -> None:
    kept = CheckpointRecord("k1", "early", 0.0, 1, (Span(1, upto=2),), files_left_out=("big.bin",))
    made = [ran(1, "a"), ran(2, "b"), ran(3, "c")]
    [one] = moments_of([kept], made, {"a": 1, "b": 2, "c": 3})
    assert (one.title, one.undone, one.cannot_return) == ("early", "cells 2 and 3", ("the file big.bin",))


def test_the_rules_of_the_network_are_said_in_words() -> None:
    assert rules_in_words("off", (), ()) == "The network is closed: code reaches nothing."
    assert rules_in_words("allow", ("a.org",), ("b.org",)) == "Code reaches only a.org, but never b.org."
    assert rules_in_words("open", (), ()) == "Code reaches every public host."


def test_a_file_is_shown_as_a_picture_only_where_its_content_is_one() -> None:
    assert picture_type("a.txt", b"\x89PNG\r\n\x1a\n") == "image/png"
    assert picture_type("a.svg", b"<svg/>") == "image/svg+xml"
    assert picture_type("a.png", b"<html><script>") is None
    assert picture_type("a.html", b"<html>") is None


def test_an_edit_touches_no_panel_that_asks_the_kernel() -> None:
    edit = event("notebook.state.changed", change={"change": "source_changed"})
    added = event("notebook.state.changed", change={"change": "cell_added"})
    started = event("notebook.state.changed", session="active")
    assert "@variables" not in touched_by(edit)
    assert "@history" not in touched_by(edit)
    assert touched_by(added) >= {CELLS, "@history", "@checkpoints"}
    assert touched_by(started) >= {"@variables", "@environment"}


def test_a_time_of_another_day_has_its_date() -> None:
    noon = 1_700_000_000.0
    assert len(moment(noon, noon + 1)) == len("12:00:00")
    assert moment(noon, noon + 5 * 86_400).startswith("2023-11-1")
