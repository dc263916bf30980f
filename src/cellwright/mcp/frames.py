"""Tables of notebooks that never ran here: a data frame's HTML, read back into a table and told as any other.

Pure. What a live frame is told as, its kernel says itself (see ``cellwright_kernel.displays``); both are written by
``cellwright_kernel.tabledigests``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from cellwright.notebook.readable import text_of_html
from cellwright_kernel.tabledigests import table_digest
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

__all__ = ["frame_digest", "table_of_html", "text_of_html"]

_shape = re.compile(r"(\d[\d,]*) rows? \u00d7 (\d[\d,]*) columns?|shape: \((\d[\d_]*), (\d[\d_]*)\)")
_number = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_moment = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d.*)?")
_type_of_r = re.compile(r"<\w+>")
_GAP = "..."
_MISSING = frozenset({"NaN", "None", "NaT", "<NA>", "nan", "null", ""})
_MAX_HTML = 2_000_000


def frame_digest(html: str) -> str | None:
    """A data frame's digest; none for any other HTML."""
    found = table_of_html(html)
    return table_digest(found[0], columns=found[1]) if found is not None else None


def table_of_html(html: str) -> tuple[Table, int] | None:
    """The table that a data frame shows of itself, and how many columns the frame has."""
    if 'class="dataframe' not in html or len(html) > _MAX_HTML:
        return None
    page = _Page()
    page.feed(html)
    body = [row for row in page.rows if not row.head]
    heads = [row for row in page.rows if row.head]
    if not heads or not body:
        return None
    width = max(len(row.cells) for row in body)
    rows = [row.cells for row in body if len(row.cells) == width and not set(row.cells) <= {_GAP, "\u2026"}]
    indices = sum(1 for is_index in body[0].is_index if is_index)
    labels, dtypes = _heads(heads, width)
    shown = [
        number
        for number in range(width)
        if labels[number] != _GAP and not (number < indices and _is_numbering(labels[number], rows, number))
    ]
    columns = [_column(labels[number], dtypes[number], [row[number] for row in rows]) for number in shown]
    found = _shape.search(html)
    total, wide = _counts(found) if found else (len(rows), width - indices)
    held = tuple(zip(*(values for _, values in columns), strict=True)) if columns else ()
    named = len([number for number in shown if number < indices])
    return Table(tuple(column for column, _ in columns), held, total), wide + named


def _counts(found: re.Match[str]) -> tuple[int, int]:
    rows, columns = (text for text in found.groups() if text is not None)
    return int(re.sub(r"\D", "", rows)), int(re.sub(r"\D", "", columns))


def _heads(heads: list[_Row], width: int) -> tuple[list[str], list[str]]:
    """A label and a type for each column; the levels of a many-levelled header are joined."""
    typed = [row for row in heads if not any(row.is_index) or _are_types(row.cells)]
    named = [row for row in heads if row not in typed]
    rows = [row.cells + [""] * (width - len(row.cells)) for row in named]
    labels = []
    for column in range(width):
        levels = [row[column] for row in rows if row[column]]
        labels.append(_GAP if _GAP in levels or "\u2026" in levels else ".".join(levels))
    types = typed[0].cells if typed and len(typed[0].cells) == width else [""] * width
    return labels, types


def _are_types(cells: list[str]) -> bool:
    """Whether a row of a header tells types, as R has it: ``<int>``, ``<dbl>``."""
    said = [cell for cell in cells if cell]
    return bool(said) and all(_type_of_r.fullmatch(cell) for cell in said)


def _is_numbering(label: str, rows: list[list[str]], column: int) -> bool:
    """Whether an index says nothing that the order of the rows does not."""
    return not label and all(row[column].isdigit() or row[column] == _GAP for row in rows)


def _column(label: str, dtype: str, texts: list[str]) -> tuple[Column, list[Value]]:
    said = [text for text in texts if text not in _MISSING]
    kind: ColumnKind = "text"
    if said and set(said) <= {"True", "False", "true", "false"}:
        kind = "bool"
    elif said and all(_number.fullmatch(text) for text in said):
        kind = "number"
    elif said and all(_moment.fullmatch(text) for text in said):
        kind = "time"
    values = [None if text in _MISSING else _value(text, kind) for text in texts]
    return Column(label or "index", kind, dtype, sum(1 for value in values if value is None)), values


def _value(text: str, kind: ColumnKind) -> Value:
    if kind == "bool":
        return text in {"True", "true"}
    if kind == "number":
        number = float(text.replace(",", ""))
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() and text.lstrip("-+").isdigit() else number
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1] if quoted else text


@dataclass(slots=True)
class _Row:
    head: bool
    cells: list[str] = field(default_factory=list)
    is_index: list[bool] = field(default_factory=list)


class _Page(HTMLParser):
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
