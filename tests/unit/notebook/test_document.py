"""A document keeps the bytes of what nobody touched, and writes the rest as nbformat does."""

from __future__ import annotations

import json

import nbformat
import pytest

from cellwright.errors import NotebookError, UnknownCell
from cellwright.notebook import (
    CellAdded,
    CellDeleted,
    CellMetadataSet,
    CellMoved,
    Document,
    DocumentReplaced,
    NotebookMetadataSet,
    OutputsSet,
    SourceChanged,
)

# Nothing here is as nbformat would write it: spacing, order of keys, numbers, escapes.
ODD = rb"""
{ "nbformat":4,"nbformat_minor" : 5, "unknown": [1.10, 1e400, NaN, 123456789012345678901234567890],
  "cells":[
    {"source":"x = 1", "cell_type":"code","id":"one","outputs":[ {"output_type":"new","v": 1.0e2} ], "metadata":{},
     "execution_count":null, "later": -Infinity},

    {"id":"two","cell_type":"markdown","metadata":{"k":"\ud800 \u00e9"},"source":["# a\n","b"]} , {"id":"three",
     "cell_type":"raw","metadata":{}, "source":""}
  ],"metadata" :{"b":1,"a":2}}

"""


def odd() -> Document:
    return Document.from_bytes(ODD, name="odd.ipynb")


def as_nbformat_writes(data: bytes) -> str:
    text: str = nbformat.writes(nbformat.reads(data.decode(), as_version=4))
    return text + "\n"


def test_new_notebook_is_valid_and_as_nbformat_writes_it() -> None:
    data = Document.new().to_bytes()
    nbformat.validate(json.loads(data))
    assert data.decode() == as_nbformat_writes(data)
    assert Document.new().metadata["kernelspec"]["name"] == "python3"


def test_new_notebook_of_another_language_names_it() -> None:
    document = Document.new(language="typescript")
    nbformat.validate(json.loads(document.to_bytes()))
    assert document.metadata["language_info"] == {"name": "typescript"}


def test_what_is_added_is_written_as_nbformat_writes_it() -> None:
    document = Document.new()
    bundle = {"text/plain": "a\nb", "image/svg+xml": "<svg>\n</svg>", "application/json": ["x\n", {"é": 1}]}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "1\n2\r\n\u2028x"},
        {
            "output_type": "display_data",
            "metadata": {"z": {}, "a": []},
            "data": {**bundle, "image/png": "aGk=\n"},
        },
        {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["a\nb"]},
    ]
    document.apply(CellAdded("c", "code", "x = 1\n\nprint(x)\n", 0, {"tags": ["b", "a"]}))
    document.apply(CellAdded("m", "markdown", "", 1))
    document.apply(CellAdded("r", "raw", "π\tω", 2))
    document.apply(OutputsSet("c", outputs, 4))
    data = document.to_bytes()
    nbformat.validate(json.loads(data))
    assert data.decode() == as_nbformat_writes(data)


def test_unchanged_document_is_written_as_it_was_read() -> None:
    assert odd().to_bytes() == ODD
    assert odd().copy().to_bytes() == ODD


def test_source_edit_changes_nothing_but_the_source() -> None:
    document = odd()
    document.apply(SourceChanged("one", "x = 2\ny"))
    expected = ODD.replace(b'"x = 1"', b'[\n    "x = 2\\n",\n    "y"\n   ]').replace(b" , {", b",\n\n    {")
    assert document.to_bytes() == expected


def test_metadata_edit_changes_nothing_but_the_metadata() -> None:
    document = odd()
    document.apply(CellMetadataSet("three", {"z": 1}))
    document.apply(NotebookMetadataSet({}))
    expected = ODD.replace(b'"metadata":{}, "source":""', b'"metadata":{\n    "z": 1\n   }, "source":""')
    expected = expected.replace(b'{"b":1,"a":2}', b"{}").replace(b" , {", b",\n\n    {")
    assert document.to_bytes() == expected


def test_surrogates_infinities_and_large_numbers_survive_being_encoded_anew() -> None:
    document = odd()
    document.apply(CellMetadataSet("one", {"s": "\ud800é", "n": float("-inf"), "i": 10**40}))
    again = Document.from_bytes(document.to_bytes(), name="again")
    assert dict(again.cell("one").metadata) == {"s": "\ud800é", "n": float("-inf"), "i": 10**40}


def test_moving_and_deleting_keeps_the_bytes_of_every_cell() -> None:
    document = odd()
    raw = {record.id: record.raw for record in document.records}
    document.apply(CellMoved("three", 0))
    document.apply(CellDeleted("one"))
    data = document.to_bytes()
    assert [cell["id"] for cell in json.loads(data)["cells"]] == ["three", "two"]
    assert raw["three"] in data
    assert raw["two"] in data
    document.apply(CellDeleted("two"))
    document.apply(CellDeleted("three"))
    assert b'"cells":[],' in document.to_bytes()


def test_one_edit_encodes_one_cell() -> None:
    document = Document.new()
    output = {"output_type": "stream", "name": "stdout", "text": "0123456789\n"}
    for index in range(10):
        document.apply(CellAdded(f"c{index}", "code", f"x = {index}", index))
        document.apply(OutputsSet(f"c{index}", [output], index))
    document.to_bytes()
    raw = [record.raw for record in document.records]
    document.apply(SourceChanged("c5", "y"))
    document.to_bytes()
    kept = [old is new.raw for old, new in zip(raw, document.records, strict=True)]
    assert kept.count(False) == 1


def test_copy_is_independent() -> None:
    document = odd()
    twin = document.copy()
    twin.apply(CellDeleted("one"))
    twin.apply(SourceChanged("two", "new"))
    assert document.to_bytes() == ODD
    assert (document.cell("two").version, twin.cell("two").version) == (1, 2)


def test_version_rises_with_the_source_only() -> None:
    document = odd()
    document.apply(OutputsSet("one", [], 1))
    document.apply(CellMetadataSet("one", {}))
    document.apply(CellMoved("one", 2))
    document.apply(SourceChanged("one", document.cell("one").source))
    assert document.cell("one").version == 1
    cell = document.apply(SourceChanged("one", "else"))
    assert cell is not None
    assert cell.version == 2


def test_versions_can_be_kept_and_restored() -> None:
    document = odd()
    document.restore_versions({"one": 7, "gone": 3})
    assert document.versions == {"one": 7, "two": 1, "three": 1}


def test_unknown_cell_is_answered_with_the_nearest_ids() -> None:
    document = odd()
    with pytest.raises(UnknownCell, match="Did you mean three") as caught:
        document.cell("thre")
    assert caught.value.message == "No cell has the id 'thre'"
    with pytest.raises(UnknownCell, match="3 cells: one, two, three"):
        document.index("zzzzzz")
    with pytest.raises(UnknownCell, match="no cells"):
        Document.new().cell("x")


@pytest.mark.parametrize(
    "change",
    [
        SourceChanged("none", ""),
        CellDeleted("none"),
        CellMoved("none", 0),
        OutputsSet("none", [], None),
        CellMetadataSet("none", {}),
        CellMoved("one", 3),
        CellMoved("one", -1),
        CellAdded("one", "code", "", 0),
        CellAdded("new", "code", "", 4),
        OutputsSet("two", [], None),
    ],
)
def test_change_that_does_not_fit_is_refused_and_leaves_no_trace(change: SourceChanged) -> None:
    document = odd()
    with pytest.raises(NotebookError):
        document.apply(change)
    assert document.to_bytes() == ODD
    assert document.versions == {"one": 1, "two": 1, "three": 1}


def test_replacing_takes_over_content_and_versions() -> None:
    document = Document.new()
    assert document.apply(DocumentReplaced(ODD.decode(), {"two": 5})) is None
    assert document.to_bytes() == ODD
    assert document.versions == {"one": 1, "two": 5, "three": 1}


def test_cells_can_be_read_but_not_altered_through_a_view() -> None:
    cell = odd().cell("one")
    with pytest.raises(TypeError):
        cell.metadata["x"] = 1  # type: ignore[index]  # the point of the test
