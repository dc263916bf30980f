"""Notebooks to begin with: the cells that a new one has below its title. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cellwright.notebook.cells import CellKind
from cellwright.notebook.document import Change, Document, add_cell

__all__ = ["TEMPLATES", "Template", "template_changes"]


@dataclass(frozen=True, slots=True)
class Template:
    """A beginning for notebooks of one language."""

    label: str
    """What a person chooses it by."""
    language: str
    cells: tuple[tuple[CellKind, str], ...]


_TABLE = Template(
    "Look into a table (pandas)",
    "python",
    (
        (
            "markdown",
            "## Data\n\nPut the file beside this notebook, or drop it on the page, and name it here.",
        ),
        ("code", 'import pandas as pd\n\ndata = pd.read_csv("data.csv")\ndata.head()'),
        ("markdown", "## What is in it"),
        ("code", 'data.describe(include="all")'),
        ("code", "data.isna().sum()"),
        ("code", "data.corr(numeric_only=True)"),
        ("markdown", "## What it says"),
    ),
)
_QUERY = Template(
    "Ask files in SQL (DuckDB)",
    "sql",
    (
        ("markdown", "## Data\n\nA file in quotes is a table: CSV, Parquet and JSON are read as they are."),
        ("code", "-- result: data\nSELECT * FROM 'data.csv' LIMIT 1000"),
        ("code", "SUMMARIZE data"),
        ("markdown", "## Answers"),
        ("code", "SELECT count(*) AS rows FROM data"),
    ),
)
_REPORT = Template(
    "Report",
    "python",
    (
        ("markdown", "## Question"),
        ("markdown", "## Method"),
        ("code", ""),
        ("markdown", "## Result"),
        ("code", ""),
        ("markdown", "## Conclusion"),
    ),
)

TEMPLATES: Mapping[str, Template] = MappingProxyType({"table": _TABLE, "query": _QUERY, "report": _REPORT})


def template_changes(document: Document, template: Template, *, max_cells: int) -> list[Change]:
    """The changes that append a template's cells to a document."""
    filled, made = document.copy(), []
    for kind, source in template.cells:
        change = add_cell(filled, kind, source, max_cells=max_cells)
        filled.apply(change)
        made.append(change)
    return list(made)
