"""What a file may look like, what is mended on reading, and what is refused with a way out."""

from __future__ import annotations

import json
import shlex
from typing import Any

import nbformat
import pytest

from cellwright.errors import NotebookFormatError
from cellwright.notebook import Document, SourceChanged

CODE: dict[str, Any] = {
    "cell_type": "code",
    "metadata": {},
    "source": "1",
    "outputs": [],
    "execution_count": None,
}


def notebook(*cells: Any, minor: int | None = 5, **top: Any) -> bytes:
    content = {"cells": list(cells), "metadata": {}, "nbformat": 4, **top}
    if minor is not None:
        content["nbformat_minor"] = minor
    return json.dumps(content, indent=1).encode()


def read(data: bytes) -> Document:
    return Document.from_bytes(data, name="work/my notebook.ipynb")


def refusal(data: bytes) -> NotebookFormatError:
    with pytest.raises(NotebookFormatError) as caught:
        read(data)
    assert "my notebook.ipynb" in caught.value.message
    return caught.value


@pytest.mark.parametrize("minor", [0, 1, 2, 3, 4])
def test_older_minor_becomes_valid_4_5_with_ids_and_says_so(minor: int) -> None:
    document = read(notebook(CODE, {**CODE, "source": "2"}, minor=minor))
    written = json.loads(document.to_bytes())
    nbformat.validate(written)
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    assert len({cell.id for cell in document.cells}) == 2
    assert document.repairs == (
        f"Upgraded from nbformat 4.{minor} to 4.5",
        "2 cells had no id and were given one",
    )


def test_ids_that_were_missing_are_the_same_whenever_the_file_is_read() -> None:
    one, two = {**CODE, "source": "a"}, {**CODE, "source": "b"}
    before = [cell.id for cell in read(notebook(one, two, two, minor=4)).cells]
    with_another_on_top = [cell.id for cell in read(notebook(CODE, one, two, two, minor=4)).cells]
    assert before == with_another_on_top[1:]
    assert len(set(before)) == 3


def test_invalid_and_duplicate_ids_are_repaired_and_the_first_holder_keeps_its_own() -> None:
    cells = [{**CODE, "id": cell_id} for cell_id in ("same", "same", "no spaces", 7)]
    document = read(notebook(*cells))
    ids = [cell.id for cell in document.cells]
    assert ids[0] == "same"
    assert len(set(ids)) == 4
    assert [repair.split(", ")[0] for repair in document.repairs] == [
        "Cell 2 had the same id as an earlier cell",
        "Cell 3 had the invalid id",
        "Cell 4 had the invalid id",
    ]
    nbformat.validate(json.loads(document.to_bytes()))


def test_fields_that_nbformat_requires_are_added_and_told() -> None:
    document = read(notebook({"cell_type": "code", "id": "a"}, {"cell_type": "markdown", "id": "b"}))
    nbformat.validate(json.loads(document.to_bytes()))
    assert document.repairs == (
        "Cell 1 had no execution_count, metadata, outputs, source",
        "Cell 2 had no metadata, source",
    )


def test_missing_minor_and_metadata_are_added() -> None:
    document = read(b'{"cells": [], "nbformat": 4}')
    nbformat.validate(json.loads(document.to_bytes()))
    assert len(document.repairs) == 2


def test_valid_file_needs_no_repairs() -> None:
    assert read(notebook({**CODE, "id": "a"})).repairs == ()


def test_newer_minor_is_kept_with_its_unknown_cells_outputs_and_keys() -> None:
    future = {"cell_type": "sql", "id": "q", "metadata": {}, "source": ["select 1"], "dialect": "duckdb"}
    output = {"output_type": "hologram", "text": [1, 2]}
    data = notebook(future, {**CODE, "id": "c", "outputs": [output]}, minor=7, extension={"a": 1})
    document = read(data)
    assert document.cell("q").kind == "raw"
    assert document.to_bytes() == data
    document.apply(SourceChanged("q", "select 2"))
    document.apply(SourceChanged("c", "2"))
    written = json.loads(document.to_bytes())
    assert written["cells"][0] == {**future, "source": ["select 2"]}
    assert written["cells"][1]["outputs"] == [output]
    assert (written["nbformat_minor"], written["extension"]) == (7, {"a": 1})


@pytest.mark.parametrize("major", [1, 2, 3])
def test_older_major_is_refused_with_the_command_that_converts_it(major: int) -> None:
    error = refusal(json.dumps({"nbformat": major, "worksheets": []}).encode())
    assert f"nbformat {major}" in error.message
    assert error.hint is not None
    command = shlex.split(error.hint.partition("`")[2].rstrip("`"))
    # Run by hand with nbconvert 7.17 and a version 3 file: it writes the output beside the input.
    assert command == [
        *("jupyter", "nbconvert", "--to", "notebook"),
        *("work/my notebook.ipynb", "--output", "my notebook_v4.ipynb"),
    ]


def test_newer_major_is_refused() -> None:
    assert "nbformat 5" in refusal(b'{"nbformat": 5, "nbformat_minor": 0}').message


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b"import numpy", "is not a notebook"),
        (b"[]", "is not a notebook"),
        (b"{}", "names no nbformat"),
        (b'{"nbformat": "4"}', "names no nbformat"),
        (b'{"nbformat": 4, "nbformat_minor": 5}', "no list of cells"),
        (b'{"nbformat": 4, "cells": {}}', "no list of cells"),
        (b'{"cells": [\n {"a": 1}, ', "line 2, column"),
        (b'{"cells": [{"a" 1}]}', "line 1, column"),
        (b'{"cells": [], }', "not valid JSON"),
        (b'{"cells": [] "x": 1}', "not valid JSON"),
        (b"{1: 2}", "not valid JSON"),
        (b'{"nbformat": 4, "cells": []} x', "Extra data"),
        (b'{"a": ' + b"[" * 100_000, "cannot be read"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "cannot be read"),
        (b'{"nbformat": 4, "cells": ["\xff"]}', "byte 27 is 0xff"),
        (notebook(1), "cell 1 is malformed, it is not an object"),
        (notebook(CODE, {"source": ""}), "cell 2 is malformed, it has no cell_type"),
        (notebook({**CODE, "source": 3}), "its source is not text"),
        (notebook({**CODE, "source": ["a", 3]}), "its source is not text"),
        (notebook({**CODE, "metadata": []}), "its metadata not an object"),
        (notebook({**CODE, "outputs": {}}), "its outputs are not a list of objects"),
        (notebook({**CODE, "outputs": ["x"]}), "its outputs are not a list of objects"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_reason(data: bytes, problem: str) -> None:
    assert problem in refusal(data).message


def test_byte_order_mark_is_dropped() -> None:
    data = notebook({**CODE, "id": "a"})
    assert read(b"\xef\xbb\xbf" + data).to_bytes() == data


def test_text_in_lines_is_joined_as_nbformat_joins_it() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["a\n", "b"]},
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {"text/html": ["<p>\n", "</p>"], "application/json": ["x", "y"], "image/png": "aGk="},
        },
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t", "u"]},
    ]
    picture = {"a.png": {"image/png": ["aG", "k="]}}
    markdown = {"cell_type": "markdown", "id": "m", "metadata": {}, "source": ["![a]\n", "x"]}
    data = notebook({**CODE, "id": "c", "outputs": outputs}, {**markdown, "attachments": picture})
    expected = nbformat.reads(data.decode(), as_version=4)
    document = read(data)
    assert list(document.cell("c").outputs) == expected.cells[0].outputs
    assert document.cell("m").source == expected.cells[1].source
    assert document.records[1].fields["attachments"] == expected.cells[1].attachments


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({}, None),
        ({"vscode": {"languageId": "sql"}, "cellwright": {"language": "r"}}, "sql"),
        ({"cellwright": {"language": "r"}}, "r"),
        ({"polyglot_notebook": {"kernelName": "fsharp"}}, "fsharp"),
        ({"dotnet_interactive": {"language": "csharp"}}, "csharp"),
        ({"kernel": "SoS"}, "SoS"),
        ({"vscode": "odd", "kernel": 3}, None),
    ],
)
def test_language_of_a_cell_is_found_in_every_convention(
    metadata: dict[str, Any], language: str | None
) -> None:
    document = read(notebook({**CODE, "id": "a", "metadata": metadata}))
    assert document.cell("a").language == language
