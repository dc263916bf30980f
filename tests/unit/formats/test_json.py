"""JSON: what is written is what the schema says, and comes back whole."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings

from cellwright.errors import NotebookFormatError, TooManyCells
from cellwright.formats import export, read
from cellwright.notebook import Document, OutputsSet
from tests.support.formats.books import book, cells_of, documents, texts_of

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "docs/reference/json-format.schema.json").read_text())
)


@settings(deadline=None, max_examples=50)
@given(documents())
def test_json_gives_back_the_same_notebook(document: Document) -> None:
    content = export(document, name="n", format="json").content
    SCHEMA.validate(json.loads(content))
    again = read(content, name="x.json")
    assert again.title == "n"
    assert cells_of(again.document) == cells_of(document)
    assert json.loads(again.document.to_bytes()) == json.loads(document.to_bytes())


def test_outputs_come_back_with_their_cells() -> None:
    document = book(("code", "1"))
    outputs = [{"output_type": "stream", "name": "stdout", "text": "half a pair: \ud83d"}]
    document.apply(OutputsSet(document.cells[0].id, outputs, 7))
    content = export(document, name="n", format="json").content
    SCHEMA.validate(json.loads(content))
    again = read(content, name="x.json").document.cells[0]
    assert (list(again.outputs), again.execution_count) == (outputs, 7)
    bare = json.loads(export(document, name="n", format="json", include_outputs=False).content)
    assert "outputs" not in bare["cells"][0]


def test_a_list_of_cells_and_jupyters_words_are_understood() -> None:
    found = read(
        b'[{"cell_type": "code", "source": ["a\\n", "b"]}, {"type": "markdown", "content": "t"}]', name="x"
    )
    assert texts_of(found.document) == [("code", "a\nb"), ("markdown", "t")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"cells": [\n{"content": 1}]}', "cell 1 is not a cell"),
        (b'{"cells": [\n{"content": "a",}]}', "line 2: this is not JSON"),
        (b'{"cells": 3}', "has no list of cells"),
        (b'{"cells": [{"content": "", "tags": "x"}]}', "cell 1: tags is not a list"),
        (b'{"cells": [{"content": "", "metadata": 3}]}', "cell 1: metadata is not an object"),
        (
            b'{"cells": [{"content": "", "outputs": [{"x": 1}]}]}',
            "cell 1 is not as Jupyter has it: outputs.0: ",
        ),
        (
            b'{"cells": [{"content": "", "tags": ["a,b"]}]}',
            "cell 1 is not as Jupyter has it: metadata.tags.0: ",
        ),
        (b"[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_broken_json_says_where_and_why(content: bytes, complaint: str) -> None:
    with pytest.raises(NotebookFormatError, match=complaint):
        read(content, name="x.json")


def test_more_cells_than_allowed_are_refused() -> None:
    with pytest.raises(TooManyCells, match="3 cells"):
        read(b'[{"content": ""}, {"content": ""}, {"content": ""}]', name="x.json", max_cells=2)
