"""Shared documents: they say what they are told to, and several writers' edits come together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook
from pycrdt import Doc, Map

from cellwright.jupyter._document_merge import Sheet, SheetCell
from cellwright.jupyter._shared_document import SharedNotebook
from tests.support.livedocs.sheetmaking import exchange, metadata, shared, sheets, sources, twin


def cell(cell_id: str, source: str, outputs: list[dict[str, Any]] | None = None) -> SheetCell:
    return SheetCell(cell_id, "code", source, {}, {}, outputs or [], None)


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


@given(sheets(), sheets())
@settings(max_examples=40)
def test_any_notebook_becomes_any_other(before: Sheet, after: Sheet) -> None:
    notebook = shared(before)
    assert notebook.read() == before
    notebook.become(after)
    assert notebook.read() == after
    assert twin(notebook).read() == after


@given(sheets(), sheets(), sheets())
@settings(max_examples=40)
def test_two_clients_that_edit_at_once_end_with_the_same_notebook(
    base: Sheet, first: Sheet, second: Sheet
) -> None:
    ours = shared(base)
    theirs = twin(ours)
    ours.become(first)
    theirs.become(second)
    exchange(ours, theirs)
    ours.read()
    exchange(ours, theirs)
    assert ours.read() == theirs.read()


@given(sources, sources, sources)
@settings(max_examples=40)
def test_what_two_people_write_in_one_cell_is_all_there(base: str, mine: str, other: str) -> None:
    ours = shared(Sheet((cell("a", base),), {}))
    theirs = twin(ours)
    ours.become(Sheet((cell("a", f"{mine}<{base}"),), {}))
    theirs.become(Sheet((cell("a", f"{base}>{other}"),), {}))
    exchange(ours, theirs)
    (merged,) = ours.read().cells
    assert ours.read() == theirs.read()
    assert merged.source.count("<") >= 1
    assert sorted(merged.source) == sorted(f"{mine}<{base}>{other}")


def test_another_cell_is_left_alone_by_an_edit() -> None:
    ours = shared(Sheet((cell("a", "x"), cell("b", "y")), {}))
    theirs = twin(ours)
    ours.become(Sheet((cell("new", "first"), cell("a", "x"), cell("b", "y + 1")), {}))
    theirs.become(Sheet((cell("a", "their x"), cell("b", "y")), {}))
    exchange(ours, theirs)
    assert [(one.id, one.source) for one in theirs.read().cells] == [
        ("new", "first"),
        ("a", "their x"),
        ("b", "y + 1"),
    ]


def test_a_stream_that_grows_costs_what_was_added() -> None:
    text = "line\n" * 10_000
    notebook = shared(Sheet((cell("a", "x", [stream(text)]),), {}))
    state = notebook.doc.get_state()
    notebook.become(Sheet((cell("a", "x", [stream(text + "last\n")]),), {}))
    assert len(notebook.doc.get_update(state)) < 200


def test_moving_a_cell_leaves_the_others_in_place() -> None:
    names = "abcde"
    ours = shared(Sheet(tuple(cell(name, name) for name in names), {}))
    theirs = twin(ours)
    ours.become(Sheet(tuple(cell(name, name) for name in "bcdea"), {}))
    theirs.become(Sheet(tuple(cell(name, name * 2 if name != "a" else name) for name in names), {}))
    exchange(ours, theirs)
    assert [one.source for one in ours.read().cells] == ["bb", "cc", "dd", "ee", "a"]


def test_a_cell_that_two_people_moved_at_once_stands_once() -> None:
    ours = shared(Sheet(tuple(cell(name, name) for name in "abc"), {}))
    theirs = twin(ours)
    for client in (ours, theirs):
        client.become(Sheet(tuple(cell(name, name) for name in "bca"), {}))
    exchange(ours, theirs)
    assert ours.read().ids == ["b", "c", "a"]


def test_cells_of_one_id_that_differ_are_both_kept() -> None:
    ours = shared(Sheet(tuple(cell(name, name) for name in "abc"), {}))
    theirs = twin(ours)
    ours.become(Sheet(tuple(cell(name, name) for name in "bca"), {}))
    theirs.become(Sheet((cell("b", "b"), cell("c", "c"), cell("a", "changed")), {}))
    theirs.become(Sheet((cell("c", "c"), cell("a", "changed"), cell("b", "b")), {}))
    exchange(ours, theirs)
    assert sorted(one.source for one in ours.read().cells) == sorted(
        one.source for one in theirs.read().cells
    )
    assert len(set(ours.read().ids)) == len(ours.read().cells)


@given(sheets())
@settings(max_examples=40)
def test_jupyters_own_programs_read_what_we_write(sheet: Sheet) -> None:
    document = YNotebook(shared(sheet).doc)
    told = document.get()
    assert [one["id"] for one in told["cells"]] == sheet.ids
    assert [SheetCell.of(one) for one in told["cells"]] == list(sheet.cells)


@given(sheets())
@settings(max_examples=40)
def test_we_read_what_jupyters_own_programs_write(sheet: Sheet) -> None:
    document = YNotebook(Doc())
    fields = [_fields(one) for one in sheet.cells]
    document.set(
        {"cells": fields, "metadata": dict(sheet.metadata or {}), "nbformat": 4, "nbformat_minor": 5}
    )
    from cellwright.jupyter._shared_document import SharedNotebook

    if sheet.cells:  # Jupyter gives an empty notebook a cell
        assert SharedNotebook(document.ydoc).read() == sheet


@given(metadata)
@settings(max_examples=40)
def test_whether_outputs_are_trusted_stays_the_persons(extra: dict[str, Any]) -> None:
    document = YNotebook(Doc())
    trusted = {**_fields(cell("a", "x")), "metadata": {"trusted": True}}
    document.set(
        {"cells": [trusted, _fields(cell("b", "y"))], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )
    from cellwright.jupyter._shared_document import SharedNotebook

    notebook = SharedNotebook(document.ydoc)
    first, second = notebook.read().cells
    assert first.metadata == {}
    notebook.become(Sheet((second, replace(first, metadata=extra)), {}))
    notebook.become(Sheet((replace(first, metadata=extra), second), {}))
    told = {one["id"]: one["metadata"] for one in document.get()["cells"]}
    assert told["a"] == {**extra, "trusted": True}


@given(st.integers(2**53, 2**70), st.sampled_from(["\ud800", "\udfff x"]))
def test_values_that_no_shared_document_holds_are_made_to_fit(number: int, text: str) -> None:
    fields = {"id": "a", "cell_type": "code", "source": text, "metadata": {"n": number, "bad": float("nan")}}
    sheet = Sheet((SheetCell.of(fields),), {})
    assert twin(shared(sheet)).read() == sheet


@pytest.mark.parametrize("path", [7.0, ["a"], "../../else.ipynb", "a/./b.ipynb"])
def test_what_is_no_path_on_a_server_is_not_taken_for_one(path: Any) -> None:
    doc: Doc[Any] = Doc()
    notebook = SharedNotebook(doc)
    state = doc.get("state", type=Map)
    state["path"] = "a/moved.ipynb"
    assert notebook.path == "a/moved.ipynb"
    state["path"] = path
    assert notebook.path is None


def _fields(one: SheetCell) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": one.id,
        "cell_type": one.kind,
        "source": one.source,
        "metadata": dict(one.metadata),
    }
    if one.kind == "code":
        fields |= {"outputs": list(one.outputs), "execution_count": one.execution_count}
    elif one.attachments:
        fields["attachments"] = dict(one.attachments)
    return fields
