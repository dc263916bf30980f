"""Both sides' work survives a merge; what both changed is told."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest

from cellwright.notebook import (
    CellAdded,
    CellDeleted,
    CellMetadataSet,
    CellMoved,
    Change,
    Document,
    Merge,
    NotebookMetadataSet,
    OutputsSet,
    SourceChanged,
    merge,
)


def base() -> Document:
    document = Document.new()
    for index, cell_id in enumerate("abcd"):
        document.apply(
            CellAdded(cell_id, "code", f"{cell_id} = {index}", index, {"tags": ["t"], "deep": {"x": 1}})
        )
    return Document.from_bytes(document.to_bytes(), name="base")


def after(*changes: Change) -> Document:
    document = base()
    for change in changes:
        document.apply(change)
    return document


def merged(ours: Document, theirs: Document) -> Merge:
    result = merge(base(), ours, theirs)
    nbformat.validate(json.loads(result.document.to_bytes()))
    return result


def ids(document: Document) -> str:
    return " ".join(cell.id for cell in document.cells)


def test_the_times_of_one_run_that_two_programs_wrote_down_are_no_conflict() -> None:
    ours, theirs = (
        after(CellMetadataSet("a", {"execution": {"iopub.status.busy": at}})) for at in ("now", "then")
    )
    result = merged(ours, theirs)
    assert result.conflicts == ()
    assert result.document.cell("a").metadata["execution"] == {"iopub.status.busy": "now"}


def printed(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": text}]


def without_ids(document: Document) -> Document:
    """What a program makes of the file that knows only nbformat 4.4."""
    content = json.loads(document.to_bytes())
    for cell in content["cells"]:
        del cell["id"]
    content["nbformat_minor"] = 4
    return Document.from_bytes(json.dumps(content).encode(), name="theirs")


def test_edits_of_different_cells_come_together() -> None:
    result = merged(after(SourceChanged("a", "ours")), after(SourceChanged("c", "theirs")))
    assert [cell.source for cell in result.document.cells] == ["ours", "b = 1", "theirs", "d = 3"]
    assert result.conflicts == ()
    assert result.changed


def test_nothing_new_from_them_is_no_change() -> None:
    ours = after(SourceChanged("a", "ours"))
    result = merged(ours, base())
    assert not result.changed
    assert result.document.to_bytes() == ours.to_bytes()


def test_same_edit_on_both_sides_is_no_conflict() -> None:
    result = merged(after(SourceChanged("a", "x")), after(SourceChanged("a", "x")))
    assert result.conflicts == ()
    assert not result.changed


def test_two_edits_of_one_cell_keep_ours_and_add_theirs_behind_it() -> None:
    result = merged(after(SourceChanged("b", "ours")), after(SourceChanged("b", "theirs")))
    [conflict] = result.conflicts
    assert conflict.cell_id == "b"
    assert conflict.copy_id is not None
    assert conflict.copy_id in conflict.description
    assert ids(result.document) == f"a b {conflict.copy_id} c d"
    assert result.document.cell("b").source == "ours"
    copy = result.document.cell(conflict.copy_id)
    assert copy.source == "theirs"
    assert copy.metadata["cellwright"] == {"conflict_with": "b"}
    assert copy.metadata["tags"] == ["t"]


def test_merging_twice_gives_the_same_ids() -> None:
    sides = after(SourceChanged("b", "ours")), after(SourceChanged("b", "theirs"))
    assert merged(*sides).document.to_bytes() == merged(*sides).document.to_bytes()


def test_versions_follow_the_text() -> None:
    ours = after(SourceChanged("a", "1"), SourceChanged("a", "2"))
    result = merged(ours, after(SourceChanged("b", "theirs"), CellAdded("new", "code", "", 0)))
    assert result.document.versions == {"a": 3, "b": 2, "c": 1, "d": 1, "new": 1}


def test_outputs_of_ours_win_where_both_ran_the_cell() -> None:
    ours = after(OutputsSet("a", printed("ours"), 5), SourceChanged("b", "x"))
    theirs = after(OutputsSet("a", printed("theirs"), 9), OutputsSet("b", printed("theirs"), 10))
    result = merged(ours, theirs)
    first, second = result.document.cells[:2]
    assert (first.outputs[0]["text"], first.execution_count) == ("ours", 5)
    assert (second.source, second.outputs[0]["text"], second.execution_count) == ("x", "theirs", 10)
    assert result.conflicts == ()


def test_their_text_and_our_outputs_of_one_cell_both_stay() -> None:
    result = merged(after(OutputsSet("a", printed("ours"), 5)), after(SourceChanged("a", "theirs")))
    cell = result.document.cell("a")
    assert (cell.source, cell.outputs[0]["text"]) == ("theirs", "ours")


@pytest.mark.parametrize("editor", ["ours", "theirs"])
def test_edited_cell_survives_the_other_sides_deletion(editor: str) -> None:
    sides = [after(SourceChanged("b", "edited")), after(CellDeleted("b"))]
    result = merged(*(sides if editor == "ours" else reversed(sides)))
    assert ids(result.document) == "a b c d"
    assert result.document.cell("b").source == "edited"
    [conflict] = result.conflicts
    assert (conflict.cell_id, conflict.copy_id) == ("b", None)


def test_cell_that_was_only_run_stays_deleted() -> None:
    result = merged(after(OutputsSet("b", printed("x"), 1)), after(CellDeleted("b")))
    assert ids(result.document) == "a c d"
    assert result.conflicts == ()


def test_deletions_of_both_sides_happen() -> None:
    assert ids(merged(after(CellDeleted("a")), after(CellDeleted("a"), CellDeleted("d"))).document) == "b c"


def test_additions_of_both_sides_stay_where_they_were_made_ours_first() -> None:
    ours = after(CellAdded("o1", "code", "o1", 1), CellAdded("o2", "code", "o2", 5))
    theirs = after(
        CellAdded("t0", "code", "t0", 0), CellAdded("t1", "code", "t1", 2), CellAdded("t2", "code", "t2", 6)
    )
    assert ids(merged(ours, theirs).document) == "t0 a o1 t1 b c d o2 t2"


def test_addition_finds_its_place_when_its_neighbour_is_gone() -> None:
    ours = after(CellDeleted("b"), CellDeleted("a"))
    assert ids(merged(ours, after(CellAdded("t", "code", "t", 2))).document) == "t c d"


def test_same_id_added_on_both_sides_with_other_text_keeps_both() -> None:
    result = merged(after(CellAdded("n", "code", "ours", 4)), after(CellAdded("n", "code", "theirs", 4)))
    assert [cell.source for cell in result.document.cells[4:]] == ["ours", "theirs"]


def test_moves_of_both_sides_are_respected() -> None:
    assert ids(merged(base(), after(CellMoved("d", 0))).document) == "d a b c"
    assert ids(merged(after(CellMoved("d", 0)), base()).document) == "d a b c"
    assert ids(merged(after(CellMoved("a", 3)), after(CellMoved("d", 0))).document) == "d b c a"


def test_cell_that_both_moved_stands_where_we_put_it() -> None:
    assert ids(merged(after(CellMoved("a", 3)), after(CellMoved("a", 1))).document) == "b c d a"


def test_moved_and_edited_is_both() -> None:
    result = merged(after(SourceChanged("d", "ours")), after(CellMoved("d", 0)))
    assert ids(result.document) == "d a b c"
    assert result.document.cell("d").source == "ours"


def test_metadata_is_merged_key_by_key() -> None:
    ours = after(CellMetadataSet("a", {"tags": ["o"], "deep": {"x": 1, "o": 1}}))
    theirs = after(CellMetadataSet("a", {"tags": ["th"], "deep": {"x": 2}, "new": 1}))
    result = merged(ours, theirs)
    assert dict(result.document.cell("a").metadata) == {"tags": ["o"], "deep": {"x": 2, "o": 1}, "new": 1}
    [conflict] = result.conflicts
    assert (conflict.cell_id, conflict.copy_id) == ("a", None)
    assert "metadata.tags" in conflict.description


def test_metadata_key_deleted_by_one_side_is_gone() -> None:
    result = merged(
        after(CellMetadataSet("a", {"deep": {"x": 1}, "o": 1})),
        after(CellMetadataSet("a", {"tags": ["t"], "t": 1})),
    )
    assert dict(result.document.cell("a").metadata) == {"o": 1, "t": 1}


def test_true_and_one_are_different_values() -> None:
    theirs = after(CellMetadataSet("a", {"tags": ["t"], "deep": {"x": True}}))
    metadata = merged(base(), theirs).document.cell("a").metadata
    assert metadata["deep"]["x"] is True


def test_notebook_metadata_is_merged_and_its_conflict_concerns_no_cell() -> None:
    ours = after(NotebookMetadataSet({**base().metadata, "title": "ours", "o": 1}))
    theirs = after(NotebookMetadataSet({**base().metadata, "title": "theirs", "t": 1}))
    result = merged(ours, theirs)
    assert result.document.metadata == {**base().metadata, "title": "ours", "o": 1, "t": 1}
    assert [(conflict.cell_id, "title" in conflict.description) for conflict in result.conflicts] == [
        (None, True)
    ]


def test_file_saved_again_in_another_layout_is_no_conflict() -> None:
    theirs = Document.from_bytes(json.dumps(json.loads(base().to_bytes())).encode(), name="compact")
    result = merged(after(SourceChanged("a", "ours"), CellMetadataSet("b", {})), theirs)
    assert result.conflicts == ()
    assert result.document.cell("a").source == "ours"
    assert dict(result.document.cell("b").metadata) == {}


def test_cell_changed_from_code_to_markdown_loses_its_outputs_and_stays_valid() -> None:
    content = json.loads(base().to_bytes())
    del content["cells"][0]["outputs"], content["cells"][0]["execution_count"]
    content["cells"][0]["cell_type"] = "markdown"
    theirs = Document.from_bytes(json.dumps(content).encode(), name="theirs")
    result = merged(after(OutputsSet("a", printed("x"), 1), CellMetadataSet("a", {})), theirs)
    assert {cell.kind for cell in result.document.cells if cell.source == "a = 0"} == {"code", "markdown"}


def test_cells_whose_ids_were_dropped_are_known_by_their_content() -> None:
    theirs = without_ids(
        after(SourceChanged("b", "b = 1  # theirs"), CellAdded("new", "code", "quite another", 4))
    )
    result = merged(after(SourceChanged("d", "ours")), theirs)
    sources = {cell.id: cell.source for cell in result.document.cells}
    assert list(sources)[:4] == ["a", "b", "c", "d"]
    assert list(sources.values()) == ["a = 0", "b = 1  # theirs", "c = 2", "ours", "quite another"]
    assert result.conflicts == ()


def test_edited_cells_among_others_that_are_new_are_known_by_their_likeness() -> None:
    edits = (
        SourceChanged("b", "b = 11"),
        SourceChanged("c", "c = 22"),
        CellAdded("new", "code", "quite another", 2),
    )
    result = merged(after(SourceChanged("d", "ours")), without_ids(after(*edits)))
    new = result.document.cells[2].id
    assert ids(result.document) == f"a b {new} c d"
    assert [cell.source for cell in result.document.cells] == [
        "a = 0",
        "b = 11",
        "quite another",
        "c = 22",
        "ours",
    ]


def test_cut_and_pasted_cell_is_the_same_cell_moved() -> None:
    theirs = after(CellDeleted("a"), CellAdded("fresh", "code", "a = 0", 3))
    result = merged(after(OutputsSet("a", printed("ours"), 1)), theirs)
    assert ids(result.document) == "b c d a"
    assert result.document.cell("a").outputs


def test_new_cell_that_resembles_a_deleted_one_stays_new_where_ids_are_kept() -> None:
    theirs = after(CellDeleted("a"), CellAdded("fresh", "code", "a = 00", 0))
    assert ids(merged(base(), theirs).document) == "fresh b c d"


def test_none_of_the_three_is_altered() -> None:
    sides = base(), after(SourceChanged("a", "ours")), after(SourceChanged("a", "theirs"), CellMoved("a", 2))
    before = [side.to_bytes() for side in sides]
    merge(*sides)
    assert [side.to_bytes() for side in sides] == before
