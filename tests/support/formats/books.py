"""Notebooks for the tests of formats: made by hand from a line a cell, or by hypothesis from anything."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import strategies as st

from cellwright.formats.model import Draft, DraftCell, document_of
from cellwright.notebook import Cell, CellKind, Document

ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
# What people paste, and what a format that is not careful takes for its own marks.
NASTY = st.sampled_from(
    [
        "",
        "\n",
        "a\n\n\n",
        "\n\na",
        "   ",
        "\t",
        "a\r\nb\r\n",
        "a\rb",
        "```",
        "```python\nx = 1\n```",
        "~~~\nnever closed",
        "````\n```\n````",
        "`" * 12,
        "---",
        "---\ntitle: x\n---\n\ntext",
        "+++",
        "<!-- cell -->",
        "<!-- cell:code -->",
        '<!-- cell:markdown {"id":"x"} -->',
        "<!-- cell:output -->\n<!-- cell:end -->",
        "<!-- cell2:code -->",
        "<!-- never closed",
        "-->",
        '<!-- cellwright:notebook {"version":1} -->',
        "# %% [markdown]",
        "# %%",
        "// %%",
        "-- %%",
        "%%time\nx",
        "%matplotlib inline",
        "!ls",
        "# Title",
        "Title\n=====",
        "###### a.ts",
        "###### a.ts\n\n```typescript\n1\n```",
        "    indented",
        "- list\n\n  ```\n  inside\n  ```",
        "$$x^2$$",
        '"""',
        "'''",
        "*/",
        "\x0b\x0c\x1c\x85\u2028\u2029",
        "\u202eright to left",
        "👩‍🔬",
    ]
)
LANGUAGES = ("python", "typescript", "javascript", "sql", "r", "bash", "klingon")
sources = st.one_of(
    ANY_TEXT, NASTY, st.lists(st.one_of(NASTY, ANY_TEXT), min_size=2, max_size=4).map("\n".join)
)
ids = st.text("abcdefXYZ0123456789_-", min_size=1, max_size=12)
any_tag = ANY_TEXT.filter(lambda text: text and "," not in text and "\n" not in text)
tags = st.lists(
    st.one_of(st.sampled_from(["parameters", "skip-execution", "-->"]), any_tag), max_size=2, unique=True
)
metadata = st.dictionaries(
    st.sampled_from(["jupyter", "custom", "raw_mimetype", "--"]),
    st.one_of(st.booleans(), st.integers(), ANY_TEXT, st.lists(ANY_TEXT, max_size=2)),
    max_size=2,
).filter(lambda found: "jupyter" not in found)


@st.composite
def draft_cells(draw: st.DrawFn, *, languages: tuple[str, ...] = LANGUAGES) -> DraftCell:
    kind = cast("CellKind", draw(st.sampled_from(["code", "code", "markdown", "markdown", "raw"])))
    is_code = kind == "code"
    filename = st.none() | st.sampled_from(["a.ts", "b c.py", "-->.js", "é/x.sql"])
    return DraftCell(
        kind,
        draw(sources),
        language=draw(st.none() | st.sampled_from(languages)) if is_code else None,
        filename=draw(filename) if is_code else None,
        tags=tuple(draw(tags)),
        metadata=draw(metadata),
    )


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Any notebook, without outputs."""
    cells = draw(st.lists(draft_cells(), max_size=6))
    named = draw(st.lists(ids, unique=True, min_size=len(cells), max_size=len(cells)))
    with_ids = tuple(
        DraftCell(cell.kind, cell.source, cell_id, cell.language, cell.filename, cell.tags, cell.metadata)
        for cell_id, cell in zip(named, cells, strict=True)
    )
    language = draw(st.sampled_from(LANGUAGES))
    own: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {}, optional={"tsconfig": st.just({"x": "-->"}), "package": st.just({"y": [1]})}
        )
    )
    return document_of(
        Draft(with_ids, language=language, metadata={"cellwright": own} if own else {}), max_cells=100
    )


def book(*cells: tuple[str, str] | DraftCell, language: str = "python") -> Document:
    """A notebook of these cells: kind and source, or more."""
    made = tuple(
        cell if isinstance(cell, DraftCell) else DraftCell(cast("CellKind", cell[0]), cell[1])
        for cell in cells
    )
    return document_of(Draft(made, language=language), max_cells=1_000)


def told(document: Document, cell: Cell) -> tuple[Any, ...]:
    """What of a cell a format must not lose."""
    language = document.language_of(cell) if cell.kind == "code" else None
    return cell.id, cell.kind, cell.source, language, cell.filename, cell.tags


def cells_of(document: Document) -> list[tuple[Any, ...]]:
    return [told(document, cell) for cell in document.cells]


def texts_of(document: Document) -> list[tuple[str, str]]:
    return [(cell.kind, cell.source) for cell in document.cells]
