"""Strategies for notebooks as people leave them, and shared documents between two writers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pycrdt import Doc

from cellwright.jupyter._document_merge import Sheet, SheetCell
from cellwright.jupyter._shared_document import SharedNotebook

words = st.sampled_from(["x", "print", "(", ")", " ", "\n", "= 1", "é", "😀", "the", "data", "  "])
sources = st.lists(words, max_size=8).map("".join) | st.text(
    alphabet=st.characters(exclude_categories=["Cs"]), max_size=12
)
scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "é", ""]) | st.just(1.5)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["p", "q"]), inner, max_size=2)
    ),
    max_leaves=2,
)
metadata = st.dictionaries(st.sampled_from(["tags", "cellwright", "m"]), values, max_size=3)


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def _result(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


outputs = st.lists(sources.map(_stream) | sources.map(_result), max_size=3)


@st.composite
def cells(draw: st.DrawFn, cell_id: str) -> SheetCell:
    kind = draw(st.sampled_from(["code", "code", "markdown", "raw"]))
    code = kind == "code"
    return SheetCell(
        id=cell_id,
        kind=kind,
        source=draw(sources),
        metadata=draw(metadata),
        attachments={} if code else draw(st.sampled_from([{}, {}, {"a.png": {"image/png": "aGk="}}])),
        outputs=draw(outputs) if code else [],
        execution_count=draw(st.none() | st.integers(1, 9)) if code else None,
    )


@st.composite
def sheets(draw: st.DrawFn, ids: str = "abcd") -> Sheet:
    chosen = draw(st.lists(st.sampled_from(ids), unique=True, max_size=len(ids)))
    return Sheet(tuple(draw(cells(f"cell-{one}")) for one in chosen), draw(metadata))


def shared(sheet: Sheet) -> SharedNotebook:
    """A shared document that says this."""
    notebook = SharedNotebook(Doc())
    notebook.become(sheet)
    return notebook


def twin(notebook: SharedNotebook) -> SharedNotebook:
    """The same document at another client."""
    doc: Doc[Any] = Doc()
    doc.apply_update(notebook.doc.get_update())
    return SharedNotebook(doc)


def exchange(left: SharedNotebook, right: SharedNotebook) -> None:
    """Let both have what the other did."""
    ours, theirs = left.doc.get_update(right.doc.get_state()), right.doc.get_update(left.doc.get_state())
    left.doc.apply_update(theirs)
    right.doc.apply_update(ours)
