"""Tables of notebooks that never ran here: a data frame's HTML, read back into a table and told as any other.

Pure. What a live frame is told as, its kernel says itself (see ``cellwright_kernel.displays``); both are written by
``cellwright_kernel.tabledigests``.
"""

from __future__ import annotations

import math
import re

from cellwright.formats.markup import HtmlRow, rows_in
from cellwright_kernel.tabledigests import table_digest
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

__all__ = ["frame_digest", "table_of_html"]

_shape = re.compile(r"(\d[\d,]*) rows? \u00d7 (\d[\d,]*) columns?|shape: \((\d[\d_]*), (\d[\d_]*)\)")
_number = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_moment = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d.*)?")
_type_of_r = re.compile(r"<\w+>")
_GAP = "..."
_MISSING = frozenset({"NaN", "None", "NaT", "<NA>", "nan", "null", ""})


def frame_digest(html: str) -> str | None:
    """A data frame's digest; none for any other HTML."""
    found = table_of_html(html)
    return table_digest(found[0], columns=found[1]) if found is not None else None


def table_of_html(html: str) -> tuple[Table, int] | None:
    """The table that a data frame shows of itself, and how many columns the frame has."""
    if 'class="dataframe' not in html:
        return None
    found = rows_in(html)
    body = [row for row in found if not row.in_head]
    heads = [row for row in found if row.in_head]
    if not heads or not body:
        return None
    width = max(len(row.cells) for row in body)
    texts = [row.texts for row in body]
    rows = [cells for cells in texts if len(cells) == width and not set(cells) <= {_GAP, "\u2026"}]
    indices = sum(1 for cell in body[0].cells if cell.is_heading)
    labels, dtypes = _heads(heads, width)
    shown = [
        number
        for number in range(width)
        if labels[number] != _GAP and not (number < indices and _is_numbering(labels[number], rows, number))
    ]
    columns = [_column(labels[number], dtypes[number], [row[number] for row in rows]) for number in shown]
    shape = _shape.search(html)
    total, wide = _counts(shape) if shape else (len(rows), width - indices)
    held = tuple(zip(*(values for _, values in columns), strict=True)) if columns else ()
    named = len([number for number in shown if number < indices])
    return Table(tuple(column for column, _ in columns), held, total), wide + named


def _counts(found: re.Match[str]) -> tuple[int, int]:
    rows, columns = (text for text in found.groups() if text is not None)
    return int(re.sub(r"\D", "", rows)), int(re.sub(r"\D", "", columns))


def _heads(heads: list[HtmlRow], width: int) -> tuple[list[str], list[str]]:
    """A label and a type for each column; the levels of a many-levelled header are joined."""
    typed = [row for row in heads if not any(cell.is_heading for cell in row.cells) or _are_types(row.texts)]
    named = [row.texts for row in heads if row not in typed]
    rows = [cells + [""] * (width - len(cells)) for cells in named]
    labels = []
    for column in range(width):
        levels = [row[column] for row in rows if row[column]]
        labels.append(_GAP if _GAP in levels or "\u2026" in levels else ".".join(levels))
    told = typed[0].texts if typed else []
    return labels, told if len(told) == width else [""] * width


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
