"""The first table of an HTML output, as rows of text and as a Markdown table. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["markdown_table", "table_in"]

_MAX_HTML = 2_000_000
_MAX_SPAN = 100
_MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """Rows of texts, of which the first are heads; all of one width."""

    heads: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[str, ...], ...]


def table_in(html: str) -> HtmlTable | None:
    """The first table; none where there is none, or it is not to be read in a bounded time."""
    if "<table" not in html or len(html) > _MAX_HTML:
        return None
    reader = _Reader()
    reader.feed(html)
    width = max((len(row.cells) for row in reader.rows), default=0)
    if not width:
        return None
    padded = [(row.head, tuple(row.cells + [""] * (width - len(row.cells)))) for row in reader.rows]
    heads = tuple(cells for head, cells in padded if head)
    return HtmlTable(heads, tuple(cells for head, cells in padded if not head))


def markdown_table(table: HtmlTable) -> str:
    """A table as GitHub's Markdown has them: one line of heads, whose levels are joined."""
    width = len((table.heads or table.rows)[0])
    heads = [" ".join(filter(None, (row[column] for row in table.heads))) for column in range(width)]
    shown = table.rows[:_MAX_ROWS]
    lines = [_line(heads), "|" + "---|" * width, *(_line(row) for row in shown)]
    if len(table.rows) > len(shown):
        lines += ["", f"*{len(table.rows) - len(shown)} more rows*"]
    return "\n".join(lines)


def _line(cells: tuple[str, ...] | list[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(escaped)} |"


@dataclass(slots=True)
class _Row:
    head: bool
    cells: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[_Row] = []
        self._in_head = self._done = False
        self._cell: list[str] | None = None
        self._span = 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._done:
            return
        if tag == "thead":
            self._in_head = True
        elif tag == "tr":
            self.rows.append(_Row(self._in_head))
        elif tag in {"th", "td"} and self.rows:
            self._cell = []
            span = dict(attrs).get("colspan") or ""
            self._span = min(int(span), _MAX_SPAN) if span.isascii() and span.isdigit() else 1

    def handle_endtag(self, tag: str) -> None:
        if self._done:
            return
        if tag == "thead":
            self._in_head = False
        elif tag in {"th", "td"} and self._cell is not None:
            self.rows[-1].cells += [" ".join("".join(self._cell).split())] * self._span
            self._cell = None
        elif tag == "table":
            self._done = True

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)
