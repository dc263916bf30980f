"""What holds for every document, change and merge, whatever they contain."""

from __future__ import annotations

import json
from typing import Any

import nbformat
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.notebook import (
    CellAdded,
    CellDeleted,
    CellMetadataSet,
    CellMoved,
    Change,
    Document,
    DocumentReplaced,
    NotebookMetadataSet,
    OutputsSet,
    SourceChanged,
    decode_change,
    encode_change,
    merge,
)

moderate = settings(max_examples=12, deadline=None)

any_text = st.text(st.characters(), max_size=12)  # surrogates too: notebooks hold them
numbers = st.integers() | st.floats(allow_nan=False) | st.sampled_from([float("nan"), 10**30])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
    max_leaves=4,
)
metadata = st.dictionaries(st.sampled_from(["x", "y", "é"]) | any_text, json_values, max_size=3).filter(
    lambda found: not found.keys() & {"jupyter", "tags", "name", "kernelspec", "language_info"}
)
outputs = st.lists(
    st.one_of(
        st.builds(lambda text: {"output_type": "stream", "name": "stdout", "text": text}, any_text),
        st.builds(
            lambda text, value: {
                "output_type": "display_data",
                "metadata": {},
                "data": {"text/plain": text, "application/json": value},
            },
            any_text,
            json_values,
        ),
    ),
    max_size=2,
)


@st.composite
def edited(draw: st.DrawFn, document: Document, side: str, most: int = 5) -> list[Change]:
    """Changes that fit the document, which is left as it is; new ids and texts carry the side's name."""
    working = document.copy()
    changes: list[Change] = []
    for number in range(draw(st.integers(0, most))):
        change = draw(_change(working, f"{side}{number}"))
        working.apply(change)
        changes.append(change)
    return changes


def _change(document: Document, name: str) -> st.SearchStrategy[Change]:
    size = len(document)
    source = any_text.map(lambda text: f"{name} {text}")
    kinds = st.sampled_from(["code", "markdown", "raw"])
    options: list[st.SearchStrategy[Any]] = [
        st.builds(CellAdded, st.just(name), kinds, source, st.integers(0, size), metadata),
        st.builds(NotebookMetadataSet, metadata),
    ]
    if size:
        ids = st.sampled_from([cell.id for cell in document.cells])
        options += [
            st.builds(SourceChanged, ids, source),
            st.builds(CellDeleted, ids),
            st.builds(CellMoved, ids, st.integers(0, size - 1)),
            st.builds(CellMetadataSet, ids, metadata),
        ]
    code = [cell.id for cell in document.cells if cell.kind == "code"]
    if code:
        options.append(st.builds(OutputsSet, st.sampled_from(code), outputs, st.none() | st.integers(0, 9)))
    return st.one_of(options)


def applied(document: Document, changes: list[Change]) -> Document:
    result = document.copy()
    for change in changes:
        result.apply(change)
    return result


@st.composite
def documents(draw: st.DrawFn, side: str = "base") -> Document:
    document = applied(Document.new(), draw(edited(Document.new(), side)))
    indent = draw(st.sampled_from(["as ours", None, 4]))
    if indent != "as ours":
        # As some other program would have written it.
        content = json.dumps(json.loads(document.to_bytes()), indent=indent)
        document = Document.from_bytes(content.encode(), name="generated")
    return document


@st.composite
def three_sides(draw: st.DrawFn) -> tuple[Document, Document, Document]:
    base = draw(documents())
    return base, applied(base, draw(edited(base, "ours"))), applied(base, draw(edited(base, "theirs")))


def seen(document: Document) -> Any:
    """Everything a document says, in a form that tells NaN, 1 and true apart."""
    cells = [record.fields for record in document.records]
    return json.dumps([document.metadata, cells, document.versions], sort_keys=True)


def contents(document: Document) -> Any:
    cells = [{**record.fields, "id": None} for record in document.records]
    return json.dumps([document.metadata, cells], sort_keys=True)


@moderate
@given(documents())
def test_saving_then_loading_changes_nothing(document: Document) -> None:
    data = document.to_bytes()
    again = Document.from_bytes(data, name="again")
    assert again.repairs == ()
    again.restore_versions(document.versions)
    assert seen(again) == seen(document)
    assert again.to_bytes() == data


@moderate
@given(documents())
def test_everything_written_is_valid_and_reads_the_same_with_nbformat(document: Document) -> None:
    data = document.to_bytes()
    nbformat.validate(json.loads(data))
    theirs = nbformat.reads(data.decode(), as_version=4)
    assert [cell.source for cell in theirs.cells] == [cell.source for cell in document.cells]
    assert [cell.id for cell in theirs.cells] == [cell.id for cell in document.cells]


@moderate
@given(st.data(), documents())
def test_untouched_cells_keep_their_bytes(data: st.DataObject, document: Document) -> None:
    before = {record.id: record.raw for record in document.records}
    changes = data.draw(edited(document, "new"))
    after = applied(document, changes)
    touched = {
        change.cell_id for change in changes if not isinstance(change, NotebookMetadataSet | DocumentReplaced)
    }
    written = after.to_bytes()
    for record in after.records:
        assert record.raw in written
        if record.id not in touched:
            assert record.raw == before[record.id]


@moderate
@given(st.data())
def test_change_survives_the_journal_unchanged(data: st.DataObject) -> None:
    for change in data.draw(edited(Document.new(), "new", most=8)):
        line = encode_change(change)
        assert b"\n" not in line
        again = decode_change(line)
        assert type(again) is type(change)
        assert encode_change(again) == line


def test_replacement_survives_the_journal() -> None:
    change = DocumentReplaced(Document.new().to_bytes().decode(), {"a": 2})
    assert decode_change(encode_change(change)) == change


@moderate
@given(st.data(), documents())
def test_replaying_the_journal_gives_an_identical_document(data: st.DataObject, start: Document) -> None:
    changes = data.draw(edited(start, "new", most=8))
    replayed = applied(start, [decode_change(encode_change(change)) for change in changes])
    direct = applied(start, changes)
    assert replayed.to_bytes() == direct.to_bytes()
    assert replayed.versions == direct.versions


@moderate
@given(three_sides())
def test_merge_with_one_idle_side_is_the_other_side(sides: tuple[Document, Document, Document]) -> None:
    base, ours, theirs = sides
    for result, expected in ((merge(base, base, theirs), theirs), (merge(base, ours, base), ours)):
        assert contents(result.document) == contents(expected)
        # Where not one id is left, cells are matched by likeness and keep the ids that we know them by.
        if not len(base) or any(cell.id in expected for cell in base.cells):
            assert result.document.to_bytes() == expected.to_bytes()
        assert result.conflicts == ()
    assert not merge(base, ours, base).changed


@moderate
@given(three_sides())
def test_merge_of_one_document_with_itself_is_that_document(
    sides: tuple[Document, Document, Document],
) -> None:
    base, ours, _ = sides
    result = merge(base, ours, ours.copy())
    assert result.document.to_bytes() == ours.to_bytes()
    assert result.document.versions == ours.versions
    assert (result.conflicts, result.changed) == ((), False)


@settings(max_examples=20, deadline=None)
@given(three_sides())
def test_no_text_that_a_side_wrote_is_lost(sides: tuple[Document, Document, Document]) -> None:
    base, ours, theirs = sides
    result = merge(base, ours, theirs)
    nbformat.validate(json.loads(result.document.to_bytes()))
    kept = {cell.source for cell in result.document.cells}
    known = {cell.source for cell in base.cells}
    for side in (ours, theirs):
        assert {cell.source for cell in side.cells} - known <= kept
    for conflict in result.conflicts:
        assert conflict.cell_id is None or conflict.cell_id in result.document


@moderate
@given(three_sides())
def test_merge_can_be_journalled_and_replayed(sides: tuple[Document, Document, Document]) -> None:
    _, ours, _ = sides
    result = merge(*sides).document
    replacement = DocumentReplaced(result.to_bytes().decode(), result.versions)
    replayed = applied(ours, [decode_change(encode_change(replacement))])
    assert replayed.to_bytes() == result.to_bytes()
    assert seen(replayed) == seen(result)
