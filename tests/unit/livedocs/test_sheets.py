"""Sheets of documents, three of them becoming one, and the changes that take one into a document."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings

from cellwright.jupyter._document_merge import Sheet, SheetCell, agreed, revisions, sheet_of
from cellwright.notebook import CellMoved, Document, SourceChanged, decode_change, encode_change
from tests.support.livedocs.sheetmaking import shared, sheets, twin


def document_of(sheet: Sheet) -> Document:
    cells = []
    for one in sheet.cells:
        fields: dict[str, Any] = {
            "id": one.id,
            "cell_type": one.kind,
            "source": one.source,
            "metadata": dict(one.metadata),
        }
        if one.kind == "code":
            fields |= {"outputs": list(one.outputs), "execution_count": one.execution_count}
        if one.attachments:
            fields["attachments"] = dict(one.attachments)
        cells.append(fields)
    whole = {"cells": cells, "metadata": dict(sheet.metadata or {}), "nbformat": 4, "nbformat_minor": 5}
    return Document.from_bytes(json.dumps(whole).encode(), name="the notebook")


def cell(cell_id: str, source: str) -> SheetCell:
    return SheetCell(cell_id, "code", source, {}, {}, [], None)


def sheet(**sources: str) -> Sheet:
    return Sheet(tuple(cell(cell_id, source) for cell_id, source in sources.items()), {})


@given(sheets())
def test_a_document_has_the_sheet_it_was_made_of(one: Sheet) -> None:
    assert sheet_of(document_of(one)) == one


@given(sheets(), sheets())
@settings(max_examples=40)
def test_changes_bring_any_document_to_any_sheet(before: Sheet, after: Sheet) -> None:
    document = document_of(before)
    changes = revisions(document, before, after)
    for change in changes:
        document.apply(decode_change(encode_change(change)))
    assert sheet_of(document) == after


@given(sheets(), sheets())
@settings(max_examples=40)
def test_a_persons_edits_of_the_shared_document_reach_ours(before: Sheet, after: Sheet) -> None:
    document, ours = document_of(before), shared(before)
    theirs = twin(ours)
    theirs.become(after)
    ours.doc.apply_update(theirs.doc.get_update(ours.doc.get_state()))
    mine = sheet_of(document)
    for change in revisions(document, mine, agreed(before, mine, ours.read())):
        document.apply(change)
    assert sheet_of(document) == after


@given(sheets(), sheets())
@settings(max_examples=40)
def test_where_one_side_did_nothing_the_other_stands(base: Sheet, side: Sheet) -> None:
    assert agreed(base, side, base) == side
    assert agreed(base, base, side) == side
    assert agreed(base, side, side) == side


def test_one_typed_line_is_one_change() -> None:
    before, after = sheet(a="x", b="y"), sheet(a="x", b="y\nz")
    assert revisions(document_of(before), before, after) == [SourceChanged("b", "y\nz")]


def test_one_moved_cell_is_one_change() -> None:
    before, after = sheet(a="", b="", c=""), sheet(b="", c="", a="")
    assert revisions(document_of(before), before, after) == [CellMoved("a", 2)]


def test_both_sides_edits_of_one_cell_are_in_it() -> None:
    together = agreed(sheet(a="x = 1\ny = 2\n"), sheet(a="x = 10\ny = 2\n"), sheet(a="x = 1\ny = 2\nz = 3\n"))
    assert together.cells[0].source == "x = 10\ny = 2\nz = 3\n"


def test_a_cell_that_was_edited_here_and_deleted_there_is_kept() -> None:
    assert agreed(sheet(a="x", b="y"), sheet(a="x", b="y!"), sheet(a="x")).ids == ["a", "b"]
    assert agreed(sheet(a="x", b="y"), sheet(a="x", b="y"), sheet(a="x")).ids == ["a"]


def test_cells_that_both_sides_added_are_all_there() -> None:
    assert agreed(sheet(a=""), sheet(a="", mine=""), sheet(a="", their="")).ids == ["a", "mine", "their"]


def test_outputs_of_a_cell_that_runs_here_are_ours() -> None:
    base = sheet(a="x")
    theirs = Sheet((replace(base.cells[0], execution_count=7),), {})
    assert agreed(base, base, theirs).cells[0].execution_count == 7
    assert agreed(base, base, theirs, running={"a"}).cells[0].execution_count is None


def test_what_a_sheet_cannot_say_stays_in_the_document() -> None:
    raw = {
        "cells": [
            {
                "id": "a",
                "cell_type": "code",
                "source": "x",
                "metadata": {"big": 2**60, "half": 1.0},
                "outputs": [],
                "execution_count": None,
                "from_elsewhere": 1,
            }
        ],
        "metadata": {"n": 2**60},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    document = Document.from_bytes(json.dumps(raw).encode(), name="the notebook")
    before = sheet_of(document)
    edited = replace(before.cells[0], source="y", metadata={**before.cells[0].metadata, "new": True})
    for change in revisions(document, before, Sheet((edited,), {**(before.metadata or {}), "k": 1})):
        document.apply(change)
    told = json.loads(document.to_bytes())
    assert told["cells"][0]["metadata"] == {"big": 2**60, "half": 1.0, "new": True}
    assert told["cells"][0]["from_elsewhere"] == 1
    assert told["metadata"] == {"n": 2**60, "k": 1}


def test_what_is_no_cell_in_a_shared_document_does_no_harm() -> None:
    odd: dict[str, Any] = {
        "id": "a",
        "cell_type": "code",
        "source": ["not", "a text"],
        "metadata": 7,
        "outputs": [
            "x",
            {"output_type": "stream", "name": "stdout"},
            {"output_type": "error", "traceback": [1]},
        ],
        "execution_count": "first",
        "attachments": [],
    }
    assert SheetCell.of(odd) == cell("a", "")
    assert SheetCell.of({"id": "b", "cell_type": "hologram"}).kind == "raw"


def test_a_notebook_is_the_same_one_whatever_order_its_server_writes_names_in() -> None:
    ours = {"language_info": {"version": "3", "name": "python"}, "kernelspec": {"name": "python3"}}
    # As Jupyter's server writes files; one that never seems to have what was written is written again and again.
    theirs = json.loads(json.dumps(ours, sort_keys=True))
    assert Sheet((), ours).to_bytes() == Sheet((), theirs).to_bytes()
