"""Edits of several cells at once, and the steps that take them back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import NotebookError, TooManyCells
from cellwright.notebook import Change, Document, SourceChanged
from cellwright.notebook.cell_edits import (
    CellCopy,
    change_kinds,
    copy_cells,
    decode_step,
    delete_cells,
    encode_step,
    fold_cells,
    merge_cells,
    move_cells,
    paste_cells,
    reversing,
    split_cell,
)
from cellwright.notebook.document import CellAdded, OutputsSet

OUTPUT: dict[str, Any] = {"output_type": "stream", "name": "stdout", "text": "1\n"}


def book() -> Document:
    document = Document.new()
    for position, name in enumerate("abcde"):
        kind: Any = "markdown" if name == "c" else "code"
        document.apply(CellAdded(name, kind, f"{name} = 1\n{name}", position, {"tags": [name]}))
    document.apply(OutputsSet("b", [OUTPUT], 7))
    return document


def made(document: Document, changes: list[Change]) -> Document:
    copy = document.copy()
    for change in changes:
        copy.apply(change)
    return copy


def order(document: Document) -> str:
    return "".join(cell.id for cell in document.cells)


@given(st.sets(st.sampled_from("abcde"), min_size=1), st.sampled_from([*"abcde", None]))
def test_moved_cells_keep_their_order_and_stand_before_the_one_that_is_named(
    ids: set[str], before: str | None
) -> None:
    document = book()
    after = made(document, move_cells(document, sorted(ids), before))
    if before in ids:
        assert order(after) == "abcde"
        return
    rest = [name for name in "abcde" if name not in ids]
    place = len(rest) if before is None else rest.index(before)
    assert order(after) == "".join([*rest[:place], *sorted(ids), *rest[place:]])


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: delete_cells(document, ["b", "d", "gone"]),
        lambda document: move_cells(document, ["a", "b"], None),
        lambda document: change_kinds(document, ["b", "c"], "markdown"),
        lambda document: split_cell(document, "b", 5),
        lambda document: merge_cells(document, ["b", "a"]),
        lambda document: fold_cells(document, ["a", "b"], "outputs"),
        lambda document: paste_cells(document, copy_cells(document, ["b"]), 1, max_cells=9),
        lambda document: [SourceChanged("a", "other")],
    ],
)
def test_every_edit_can_be_taken_back_made_again_and_taken_back(edit: Any) -> None:
    document = book()
    whole, changes = document.to_bytes(), edit(document)
    there = made(document, changes)
    back = decode_step(encode_step(reversing(document, changes)))
    here = made(there, back.fitting(there))
    assert here.to_bytes() == whole
    again = reversing(there, back.fitting(there))
    assert made(here, again.fitting(here)).to_bytes() == there.to_bytes()


def test_what_somebody_else_changed_is_not_lost_by_taking_back_an_edit() -> None:
    document = book()
    changes: list[Change] = [SourceChanged("a", "mine")]
    step = reversing(document, changes)
    theirs = made(document, [*changes, SourceChanged("a", "theirs")])
    with pytest.raises(NotebookError, match="Somebody changed"):
        step.fitting(theirs)


def test_a_deleted_cell_comes_back_where_there_is_still_room_for_it() -> None:
    document = book()
    changes = delete_cells(document, ["e"])
    shorter = made(document, [*changes, *delete_cells(document, ["a", "b", "c"])])
    assert order(made(shorter, reversing(document, changes).fitting(shorter))) == "de"


def test_a_source_is_split_at_a_line_and_merged_again() -> None:
    document = book()
    halves = made(document, split_cell(document, "a", 5))
    assert [cell.source for cell in halves.cells[:2]] == ["a = 1", "a"]
    ids = [cell.id for cell in halves.cells[:2]]
    assert made(halves, merge_cells(halves, ids)).cell("a").source == "a = 1\na"
    for wrong in ["a"], ["b", "c"]:
        with pytest.raises(NotebookError):
            merge_cells(document, wrong)
    with pytest.raises(NotebookError):
        split_cell(document, "a", 99)


def test_all_are_folded_unless_all_are_folded() -> None:
    document = made(book(), fold_cells(book(), ["a"], "source"))
    both = made(document, fold_cells(document, ["a", "b"], "source"))
    assert both.cell("b").metadata["jupyter"] == {"source_hidden": True}
    none = made(both, fold_cells(both, ["a", "b"], "source"))
    assert none.to_bytes() == book().to_bytes()


def test_no_more_cells_are_pasted_than_a_notebook_may_have() -> None:
    with pytest.raises(TooManyCells):
        paste_cells(book(), [CellCopy("code", "x")] * 2, 0, max_cells=6)
