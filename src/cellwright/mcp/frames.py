"""Tables for readers who pay by the token: a data frame's HTML becomes its shape and a line a column.

Pure, and made from the output alone, so that it costs the kernel nothing and works for a notebook that never ran here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from cellwright.notebook.readable import text_of_html

__all__ = ["frame_digest", "text_of_html"]

_shape = re.compile(r"(\d[\d,]*) rows? \u00d7 (\d[\d,]*) columns?")
_SAMPLES = 3
_MAX_COLUMNS = 40
_MAX_VALUE = 40
_MAX_HTML = 2_000_000


def frame_digest(html: str) -> str | None:
    """A data frame's shape, and for each column its kind and its first three values; none for any other HTML."""
    if 'class="dataframe' not in html or len(html) > _MAX_HTML:
        return None
    table = _Table()
    table.feed(html)
    body = [row for row in table.rows if not row.head]
    heads = [row for row in table.rows if row.head]
    if not heads or not body:
        return None
    found = _shape.search(html)
    width = max(len(row.cells) for row in body)
    labels = _labels(heads, width)
    indices = sum(1 for cell in body[0].is_index if cell)
    shape = (
        f"{found[1]} rows \u00d7 {found[2]} columns"
        if found
        else f"{len(body)} rows \u00d7 {width - indices} columns"
    )
    lines = [
        f"{label}: {_kind(values)} {', '.join(_cut(value) for value in values[:_SAMPLES])}"
        for label, values in zip(labels, _columns(body, width), strict=True)
        if label != "..."
    ]
    # Only columns of data: the index of a plain frame says nothing that the order does not.
    shown = lines[indices : indices + _MAX_COLUMNS]
    total = int(found[2].replace(",", "")) if found else width - indices
    rest = [f"… {total - len(shown)} more columns"] if total > len(shown) else []
    return "\n".join([f"table of {shape}; columns with their first values:", *shown, *rest])


@dataclass(slots=True)
class _Row:
    head: bool
    cells: list[str] = field(default_factory=list)
    is_index: list[bool] = field(default_factory=list)


class _Table(HTMLParser):
    """Collects the first table's rows."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[_Row] = []
        self._in_head = False
        self._cell: list[str] | None = None
        self._span = 1
        self._done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._done:
            return
        match tag:
            case "thead":
                self._in_head = True
            case "tr":
                self.rows.append(_Row(self._in_head))
            case "th" | "td" if self.rows:
                self._cell = []
                span = dict(attrs).get("colspan")
                self._span = int(span) if span and span.isdigit() else 1
                self.rows[-1].is_index.append(tag == "th")
            case _:
                pass

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "thead":
                self._in_head = False
            case "th" | "td" if self._cell is not None and self.rows:
                self.rows[-1].cells += [" ".join("".join(self._cell).split())] * min(self._span, 1_000)
                self._cell = None
            case "table":
                self._done = True
            case _:
                pass

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def _labels(heads: list[_Row], width: int) -> list[str]:
    """One label a column; the levels of a many-levelled header are joined."""
    rows = [row.cells + [""] * (width - len(row.cells)) for row in heads]
    labels = []
    for column in range(width):
        levels = [row[column] for row in rows if row[column]]
        labels.append("..." if "..." in levels else ".".join(levels) or "index")
    return labels


def _columns(body: list[_Row], width: int) -> list[list[str]]:
    rows = [row.cells for row in body if len(row.cells) == width and set(row.cells) != {"..."}]
    return [[row[column] for row in rows] for column in range(width)]


def _kind(values: list[str]) -> str:
    said = [value for value in values if value not in {"NaN", "None", "NaT", "<NA>", "...", ""}]
    if said and all(_is_number(value) for value in said):
        return "number"
    return "bool" if said and set(said) <= {"True", "False"} else "text"


def _is_number(value: str) -> bool:
    try:
        float(value.replace(",", ""))
    except ValueError:
        return False
    return True


def _cut(value: str) -> str:
    return value if len(value) <= _MAX_VALUE else value[: _MAX_VALUE - 1] + "…"
