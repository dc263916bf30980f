"""A table as people read it: HTML with pages, bounded, of one piece.

Paging is radio buttons and CSS, so that it works where scripts are forbidden; where styles are as well, all rows stand
below each other. It takes a ``Table`` and writes text: what a table is made of is ``frames``'s business.
"""

from __future__ import annotations

import hashlib
import html
import re

from cellwright_kernel.tables import Column, Table, Value

__all__ = ["html_table"]

PAGE_ROWS = 20
MAX_PAGES = 25
MAX_COLUMNS = 60
MAX_TEXT = 300
_DIGITS = 6

_unprintable = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def html_table(table: Table, *, title: str | None = None, page_rows: int = PAGE_ROWS) -> str:
    """A table with its columns' types, in pages of so many rows, and what is left out said below it."""
    columns = table.columns[:MAX_COLUMNS]
    rows = table.rows[: page_rows * MAX_PAGES]
    pages = [rows[start : start + page_rows] for start in range(0, len(rows), page_rows)] or [()]
    body = "".join(f"<tbody>{''.join(_row(row, columns) for row in page)}</tbody>" for page in pages)
    head = "".join(_head(column) for column in columns)
    caption = f"<caption>{_text(title)}</caption>" if title else ""
    said = "".join(f"<li>{_text(notice)}</li>" for notice in _notices(table, len(columns), len(rows)))
    return (
        f'<div class="cw-table"><style>{_style(len(pages))}</style>'
        f"{_pager(pages, page_rows, f'{title}{head}{body}')}"
        f'<div class="cw-scroll"><table>{caption}<thead><tr>{head}</tr></thead>{body}</table></div>'
        f"<p>{_shape(table)}</p>{f'<ul>{said}</ul>' if said else ''}</div>"
    )


def _shape(table: Table) -> str:
    rows, columns = table.total_rows, len(table.columns)
    return f"{rows:,} row{'s' * (rows != 1)} \u00d7 {columns:,} column{'s' * (columns != 1)}"


def _notices(table: Table, columns: int, rows: int) -> list[str]:
    notices = list(table.notices)
    if columns < len(table.columns):
        notices.append(f"the first {columns:,} of {len(table.columns):,} columns are shown")
    if rows < len(table.rows):
        notices.append(f"the first {rows:,} of {len(table.rows):,} rows are shown")
    return notices


def _pager(pages: list[tuple[tuple[Value, ...], ...]], page_rows: int, content: str) -> str:
    if len(pages) == 1:
        return ""
    # Several tables share a page: each needs a name of its own, and the same one whenever it is written again.
    name = f"cw-{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:12]}"
    buttons = []
    for number, page in enumerate(pages):
        first = number * page_rows + 1
        checked = " checked" if number == 0 else ""
        buttons.append(
            f'<input type="radio" name="{name}" id="{name}-{number}"{checked}>'
            f'<label for="{name}-{number}">{first}\u2013{first + len(page) - 1}</label>'
        )
    return "".join(buttons)


def _head(column: Column) -> str:
    kind = ' class="cw-number"' if column.kind == "number" else ""
    about = [column.dtype or column.kind]
    if column.missing:
        about.append(f"{column.missing:,} missing")
    return (
        f'<th scope="col"{kind}><bdi>{_text(column.name)}</bdi> <small>{_text(", ".join(about))}</small></th>'
    )


def _row(row: tuple[Value, ...], columns: tuple[Column, ...]) -> str:
    return f"<tr>{''.join(_cell(value, column) for value, column in zip(row, columns, strict=False))}</tr>"


def _cell(value: Value, column: Column) -> str:
    kind = ' class="cw-number"' if column.kind == "number" else ""
    if value is None:
        return f"<td{kind}><em>missing</em></td>"
    if isinstance(value, float):
        text, whole = f"{value:.{_DIGITS}g}", repr(value)
        about = f' title="{whole}"' if float(text) != value else ""
        return f"<td{kind}{about}>{text}</td>"
    if isinstance(value, str):
        return f"<td{kind}><bdi>{_text(value)}</bdi></td>"
    return f"<td{kind}>{_text(str(value))}</td>"


def _text(value: str) -> str:
    text = value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "\u2026"
    return html.escape(_unprintable.sub("\ufffd", text), quote=True)


_BASE_STYLE = (
    ".cw-table{--paper:#fff;--ink:#1f2328;--faint:#59636e;--line:#d1d9e0;--stripe:#f6f8fa;--mark:#0969da;"
    "font:13px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:100%}"
    "@media(prefers-color-scheme:dark){.cw-table{--paper:#0d1117;--ink:#e6edf3;--faint:#9198a1;--line:#3d444d;--stripe:#151b23;"
    "--mark:#4493f8}}"
    ".cw-table .cw-scroll{overflow-x:auto}"
    ".cw-table table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0}"
    ".cw-table caption{text-align:start;font-weight:600;padding:.3em 0}"
    ".cw-table th,.cw-table td{padding:.25em .7em;text-align:start;vertical-align:top;border:0;"
    "border-bottom:1px solid var(--line);max-width:32em;overflow-wrap:anywhere;white-space:pre-wrap}"
    ".cw-table th{white-space:normal}"
    ".cw-table th small{display:block;font-weight:400;color:var(--faint)}"
    ".cw-table tbody tr:nth-child(even){background:var(--stripe)}"
    ".cw-table th.cw-number,.cw-table td.cw-number{text-align:end}"
    ".cw-table td em,.cw-table p,.cw-table ul{color:var(--faint)}"
    ".cw-table p,.cw-table ul{margin:.2em 0}"
    ".cw-table>input{position:absolute;opacity:0}"
    ".cw-table>label{display:inline-block;padding:.1em .5em;margin:0 .2em .2em 0;border:1px solid var(--line);"
    "border-radius:4px;cursor:pointer;color:var(--faint)}"
    ".cw-table>input:checked+label{border-color:var(--mark);color:var(--mark)}"
    ".cw-table>input:focus-visible+label{outline:2px solid var(--mark)}"
)


def _style(pages: int) -> str:
    if pages == 1:
        return _BASE_STYLE
    shown = ",".join(
        f".cw-table>input:nth-of-type({number}):checked~.cw-scroll tbody:nth-of-type({number})"
        for number in range(1, pages + 1)
    )
    # On paper there is nothing to press.
    return (
        f"{_BASE_STYLE}@media screen{{.cw-table>input~.cw-scroll tbody{{display:none}}"
        f"{shown}{{display:table-row-group}}}}"
        "@media print{.cw-table>input,.cw-table>label{display:none}}"
    )
