"""A table that a cell put out, read from its HTML, and what of it somebody asked to see: sorted, filtered, a page of it. Pure."""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from cellwright.formats.markup import HtmlRow, elements, parse_html, rows_of, text_in

__all__ = ["Table", "TablePage", "TableView", "asked_by", "csv_text", "table_of", "table_page"]

ROWS_ON_A_PAGE = 20
_MAX_FILTER = 200
_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?\s*%?")


@dataclass(frozen=True, slots=True)
class Table:
    """A table's columns and rows as texts; the first ``labels`` columns say which row it is."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    numeric: tuple[bool, ...]
    note: str
    """What stands beside it: how many rows there were before it was printed."""

    @property
    def is_cut(self) -> bool:
        """Whether rows were left out where it was printed."""
        return any(set(row) <= {"...", "…"} for row in self.rows)


@dataclass(frozen=True, slots=True)
class TableView:
    """What somebody wants to see of it: ``sort`` is a column's number, counted from 1, below zero for the other way."""

    sort: int = 0
    page: int = 1
    filter: str = ""


@dataclass(frozen=True, slots=True)
class TablePage:
    """Rows as asked for, and the way to others."""

    table: Table
    asked: TableView
    rows: Sequence[tuple[str, ...]]
    found: int
    pages: int

    def query(self, **wanted: object) -> str:
        """What an address says to ask for something else."""
        now = {"sort": self.asked.sort, "page": self.asked.page, "filter": self.asked.filter}
        return urlencode({name: value for name, value in (now | wanted).items() if value})

    def order(self, column: int) -> str:
        """How a column's head is marked."""
        if abs(self.asked.sort) != column:
            return "none"
        return "ascending" if self.asked.sort > 0 else "descending"


def asked_by(query: Mapping[str, str]) -> TableView:
    """What an address asks for; what makes no sense is not asked for."""

    def number(name: str, otherwise: int) -> int:
        said = query.get(name, "")
        return int(said) if re.fullmatch(r"-?\d{1,6}", said) else otherwise

    return TableView(number("sort", 0), number("page", 1), query.get("filter", "")[:_MAX_FILTER])


@functools.lru_cache(maxsize=8)
def table_of(html: str) -> Table:
    """The first table of a text."""
    root = parse_html(html)
    rows = [row for table in list(elements(root, "table"))[:1] for row in rows_of(table)]
    body = [row for row in rows if not row.in_head]
    width = max((len(row.cells) for row in rows), default=0)
    heads = _heads([row for row in rows if row.in_head], width)
    filled = tuple((*row.texts, *[""] * (width - len(row.cells))) for row in body)
    note = " ".join(text_in(one) for one in elements(root, "p", "small"))
    numeric = tuple(
        all(_NUMBER.fullmatch(row[column]) or row[column] in {"", "NaN", "…", "..."} for row in filled)
        for column in range(width)
    )
    return Table(heads, filled, _labels(body), numeric, " ".join(note.split()))


def table_page(table: Table, asked: TableView) -> TablePage:
    """The rows that were asked for."""
    rows: Sequence[tuple[str, ...]] = table.rows
    if asked.filter:
        wanted = asked.filter.casefold()
        rows = [row for row in rows if any(wanted in cell.casefold() for cell in row)]
    column = abs(asked.sort) - 1
    if 0 <= column < len(table.heads):
        rows = _sorted(rows, column, down=asked.sort < 0)
    pages = max(-(-len(rows) // ROWS_ON_A_PAGE), 1)
    number = min(max(asked.page, 1), pages)
    first = (number - 1) * ROWS_ON_A_PAGE
    shown = TableView(asked.sort, number, asked.filter)
    return TablePage(table, shown, rows[first : first + ROWS_ON_A_PAGE], len(rows), pages)


def csv_text(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as a file that others read."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(heads)
    writer.writerows(rows)
    return file.getvalue()


def _heads(levels: list[HtmlRow], width: int) -> tuple[str, ...]:
    """One head for each column: its levels below each other, each said once."""
    named = [[*row.texts, *[""] * (width - len(row.cells))] for row in levels]
    return tuple(
        " ".join(dict.fromkeys(filter(None, (row[column] for row in named)))) for column in range(width)
    )


def _labels(body: list[HtmlRow]) -> int:
    """How many columns at the left are headings in every row."""
    counts = [
        next((at for at, cell in enumerate(row.cells) if not cell.is_heading), len(row.cells)) for row in body
    ]
    return min(counts, default=0)


def _sorted(rows: Sequence[tuple[str, ...]], column: int, *, down: bool) -> Sequence[tuple[str, ...]]:
    """Numbers by size before texts; what is empty comes last either way."""
    full = [row for row in rows if row[column]]
    return sorted(full, key=lambda row: _rank(row[column]), reverse=down) + [
        row for row in rows if not row[column]
    ]


def _rank(text: str) -> tuple[int, float, str]:
    if _NUMBER.fullmatch(text):
        return 0, float(text.replace(",", "").replace("\N{MINUS SIGN}", "-").rstrip("% ")), ""
    return 1, 0.0, text.casefold()
