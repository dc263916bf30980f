"""Wishes are checked before they become changes, and refused with what to do next."""

from __future__ import annotations

import pytest

from cellwright.errors import NotebookError, StaleEdit, TooManyCells, UnknownCell
from cellwright.notebook import (
    CellAdded,
    CellDeleted,
    CellMoved,
    Document,
    SourceChanged,
    add_cell,
    change_source,
    delete_cell,
    move_cell,
)


def three_cells() -> Document:
    document = Document.new()
    for index, cell_id in enumerate(["a", "b", "c"]):
        document.apply(CellAdded(cell_id, "code", f"{cell_id} = 1\n", index))
    return document


def test_deciding_alters_nothing() -> None:
    document = three_cells()
    before = document.to_bytes()
    add_cell(document, "code", "x", max_cells=10)
    change_source(document, "a", "x")
    delete_cell(document, "a")
    move_cell(document, "a", 2)
    assert document.to_bytes() == before


def test_cell_without_a_position_goes_to_the_end_under_a_new_id() -> None:
    document = three_cells()
    change = add_cell(document, "markdown", "# t", max_cells=10, metadata={"k": 1})
    assert (change.position, change.kind, change.metadata) == (3, "markdown", {"k": 1})
    assert change.cell_id not in document
    document.apply(change)
    assert document.cells[-1].source == "# t"


def test_position_and_id_can_be_chosen() -> None:
    document = three_cells()
    document.apply(add_cell(document, "raw", "x", max_cells=10, position=0, cell_id="mine"))
    assert [cell.id for cell in document.cells] == ["mine", "a", "b", "c"]


@pytest.mark.parametrize("position", [-1, 4])
def test_position_outside_the_notebook_is_refused_with_the_range(position: int) -> None:
    with pytest.raises(NotebookError, match="from 0 to 3"):
        add_cell(three_cells(), "code", "", max_cells=10, position=position)


@pytest.mark.parametrize("cell_id", ["a", "", "with space", "é", "x" * 65])
def test_id_that_is_taken_or_invalid_is_refused(cell_id: str) -> None:
    with pytest.raises(NotebookError):
        add_cell(three_cells(), "code", "", max_cells=10, cell_id=cell_id)


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(NotebookError, match="code, markdown or raw"):
        add_cell(three_cells(), "heading", "", max_cells=10)  # type: ignore[arg-type]  # callers may be untyped


def test_full_notebook_names_the_setting() -> None:
    document = three_cells()
    with pytest.raises(TooManyCells, match=r"max_cells allows 3.*CELLWRIGHT_MAX_CELLS"):
        add_cell(document, "code", "", max_cells=3)
    assert isinstance(add_cell(document, "code", "", max_cells=4), CellAdded)


def test_edit_of_the_expected_version_passes() -> None:
    document = three_cells()
    document.apply(change_source(document, "a", "2", expected_version=1))
    assert change_source(document, "a", "3", expected_version=2) == SourceChanged("a", "3")
    assert delete_cell(document, "a", expected_version=2) == CellDeleted("a")


def test_stale_edit_is_refused_with_a_diff_against_the_present_source() -> None:
    document = three_cells()
    document.apply(SourceChanged("a", "theirs\nsame\n"))
    with pytest.raises(StaleEdit, match="repeat the edit with version 2") as caught:
        change_source(document, "a", "mine\nsame\n", expected_version=1)
    assert caught.value.diff.splitlines() == [
        "--- a, version 2",
        "+++ your edit of version 1",
        "@@ -1,2 +1,2 @@",
        "-theirs",
        "+mine",
        " same",
    ]


def test_stale_edit_to_what_is_there_already_passes() -> None:
    document = three_cells()
    document.apply(SourceChanged("a", "2"))
    assert change_source(document, "a", "2", expected_version=1) == SourceChanged("a", "2")


def test_stale_deletion_shows_what_would_be_lost() -> None:
    document = three_cells()
    document.apply(SourceChanged("a", "precious"))
    with pytest.raises(StaleEdit) as caught:
        delete_cell(document, "a", expected_version=1)
    assert "-precious" in caught.value.diff


def test_move_names_the_place_after_the_move() -> None:
    document = three_cells()
    assert move_cell(document, "a", 2) == CellMoved("a", 2)
    document.apply(CellMoved("a", 2))
    assert [cell.id for cell in document.cells] == ["b", "c", "a"]
    document.apply(move_cell(document, "a", 1))
    assert [cell.id for cell in document.cells] == ["b", "a", "c"]
    document.apply(move_cell(document, "b", 1))
    assert [cell.id for cell in document.cells] == ["a", "b", "c"]
    with pytest.raises(NotebookError, match="from 0 to 2"):
        move_cell(document, "a", 3)


def test_edits_of_unknown_cells_are_refused() -> None:
    document = three_cells()
    with pytest.raises(UnknownCell):
        change_source(document, "x", "")
    with pytest.raises(UnknownCell):
        delete_cell(document, "x")
    with pytest.raises(UnknownCell):
        move_cell(document, "x", 0)
