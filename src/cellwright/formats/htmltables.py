"""Tables in HTML as rows of texts, cells that span several resolved; and as tables of Markdown. Pure.

How HTML is read is ``markup``'s. What a table means, a frame's digest or a print, is decided by whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cellwright.formats.markup import MAX_CHARACTERS, Element, elements, parse_html, text_in

__all__ = ["HtmlCell", "HtmlRow", "markdown_table", "rows_in", "rows_of"]

_MAX_SPAN = 100
_MAX_SPAN_DIGITS = 4
_MAX_COLUMNS = 1_000
_MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class HtmlCell:
    """One place of a table."""

    text: str
    is_heading: bool
    is_repeated: bool = False
    """Whether it is a further place of a cell that spans several."""


@dataclass(frozen=True, slots=True)
class HtmlRow:
    """A row; ``in_head`` where the table says that it is above the others."""

    in_head: bool
    cells: tuple[HtmlCell, ...]

    @property
    def texts(self) -> list[str]:
        """What stands at each place, in every place that a cell spans."""
        return [cell.text for cell in self.cells]


def rows_in(html: str) -> list[HtmlRow]:
    """The rows of the first table; none where there is none, or it is not to be read in a bounded time."""
    if "<table" not in html or len(html) > MAX_CHARACTERS:
        return []
    table = next(elements(parse_html(html), "table"), None)
    return list(rows_of(table)) if table is not None else []


def rows_of(table: Element) -> Iterator[HtmlRow]:
    """The rows of a table, one by one."""
    hanging: dict[int, tuple[int, HtmlCell]] = {}
    for row, in_head in _rows(table):
        cells, begun = _laid_out(row, hanging)
        yield HtmlRow(in_head, tuple(cells))
        hanging = {place: (left - 1, cell) for place, (left, cell) in hanging.items() if left > 1} | begun


def markdown_table(rows: Sequence[HtmlRow]) -> str:
    """A table as GitHub's Markdown has them: one line of heads, whose levels are joined; nothing for one without cells."""
    width = max((len(row.cells) for row in rows), default=0)
    if not width:
        return ""
    texts = [(row.in_head, row.texts + [""] * (width - len(row.cells))) for row in rows]
    levels = [cells for in_head, cells in texts if in_head]
    body = [cells for in_head, cells in texts if not in_head]
    heads = [" ".join(filter(None, (level[column] for level in levels))) for column in range(width)]
    lines = [_line(heads), "|" + "---|" * width, *(_line(cells) for cells in body[:_MAX_ROWS])]
    if len(body) > _MAX_ROWS:
        lines += ["", f"*{len(body) - _MAX_ROWS} more rows*"]
    return "\n".join(lines)


def _rows(table: Element) -> Iterator[tuple[Element, bool]]:
    for child in table.children:
        if not isinstance(child, Element):
            continue
        if child.tag == "tr":
            yield child, False
        elif child.tag in {"thead", "tbody", "tfoot"}:
            yield from ((row, child.tag == "thead") for row in elements(child, "tr"))


def _laid_out(
    row: Element, hanging: Mapping[int, tuple[int, HtmlCell]]
) -> tuple[list[HtmlCell], dict[int, tuple[int, HtmlCell]]]:
    """A row's places, of which some hang down from above, and what hangs down from it itself."""
    cells: list[HtmlCell] = []
    begun: dict[int, tuple[int, HtmlCell]] = {}
    for element in elements(row, "td", "th"):
        _fill(cells, hanging)
        if len(cells) >= _MAX_COLUMNS:
            break
        first = HtmlCell(" ".join(text_in(element).split()), element.tag == "th")
        again = replace(first, is_repeated=True)
        across, down = _span(element, "colspan"), _span(element, "rowspan")
        if down > 1:
            begun |= {len(cells) + beside: (down - 1, again) for beside in range(across)}
        cells += [first, *[again] * (across - 1)]
    _fill(cells, hanging)
    return cells, begun


def _fill(cells: list[HtmlCell], hanging: Mapping[int, tuple[int, HtmlCell]]) -> None:
    while len(cells) in hanging:
        cells.append(hanging[len(cells)][1])


def _span(cell: Element, name: str) -> int:
    value = cell.attributes.get(name, "").strip()
    is_count = value.isascii() and value.isdigit() and len(value) <= _MAX_SPAN_DIGITS
    return min(max(int(value), 1), _MAX_SPAN) if is_count else 1


def _line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(escaped)} |"
