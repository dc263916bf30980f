"""HTML that somebody's code put out, as a tree of elements and texts. Pure, and patient with broken markup.

Says nothing about what may be shown (see ``sanitize``). Bounded: what is nested deeper than a page needs is flattened,
what is longer than a page bears is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import TypeAlias

__all__ = [
    "MAX_CHARACTERS",
    "VOID",
    "Element",
    "HtmlCell",
    "HtmlRow",
    "Node",
    "elements",
    "markdown_table",
    "parse_html",
    "rows_in",
    "rows_of",
    "text_in",
    "text_of_html",
]
MAX_CHARACTERS = 3_000_000

VOID = frozenset(
    {"br", "col", "hr", "img", "input", "wbr", "area", "base", "embed", "link", "meta", "source", "track"}
)

_MAX_DEPTH = 60

_UNSEEN = frozenset({"script", "style", "template", "head", "title"})

_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "dd", "details", "div", "dl", "dt", "figcaption", "figure", "footer",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul",
})  # fmt: skip

# What a start tag ends without saying so, and what it does not look beyond.
_ENDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "td": (frozenset({"td", "th"}), frozenset({"table", "tr"})),
    "th": (frozenset({"td", "th"}), frozenset({"table", "tr"})),
    "tr": (frozenset({"tr", "td", "th"}), frozenset({"table"})),
    "thead": (frozenset({"thead", "tbody", "tfoot", "tr", "td", "th"}), frozenset({"table"})),
    "tbody": (frozenset({"thead", "tbody", "tfoot", "tr", "td", "th"}), frozenset({"table"})),
    "tfoot": (frozenset({"thead", "tbody", "tfoot", "tr", "td", "th"}), frozenset({"table"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
}

_OPENED = re.compile(r"<[a-zA-Z/!?]")

_spaces = re.compile(r"\s+")


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)


Node: TypeAlias = Element | str


def parse_html(source: str) -> Element:
    """The tree of a fragment, below a root without a tag."""
    reader = _Reader()
    reader.feed(_closed(source[:MAX_CHARACTERS]))
    reader.close()
    return reader.root


def _closed(source: str) -> str:
    """A text without what opens behind the last that closes, which browsers leave out too.

    ``html.parser`` looks on to the end from each, which takes time with the square of how many there are.
    """
    for opening, closing in (("<!--", "-->"), ("<![", "]>")):
        behind = source.rfind(closing) + 1
        if (opened := source.find(opening, behind)) >= 0:
            source = source[:opened]
    tag = _OPENED.search(source, source.rfind(">") + 1)
    return source[: tag.start()] if tag is not None else source


def elements(node: Element, *tags: str) -> Iterator[Element]:
    """All elements of these tags below a node, in order; not those within each other."""
    for child in node.children:
        if isinstance(child, Element):
            if child.tag in tags:
                yield child
            else:
                yield from elements(child, *tags)


def text_in(node: Node) -> str:
    """What a reader would see of a node, as text: blocks on lines of their own."""
    pieces: list[str] = []
    _gather(node, pieces, preformatted=False)
    text = (
        re.sub(r"[ \t]*\n[ \t]*", "\n", "".join(pieces)) if "\x00" not in "".join(pieces) else "".join(pieces)
    )
    return re.sub(r"\n{3,}", "\n\n", text.replace("\x00", "")).strip()


def text_of_html(source: str) -> str:
    """What of a page can be read as text, without its empty lines."""
    lines = (" ".join(line.split()) for line in text_in(parse_html(source)).splitlines())
    return "\n".join(line for line in lines if line)


def _gather(node: Node, pieces: list[str], *, preformatted: bool) -> None:
    if isinstance(node, str):
        pieces.append(node if preformatted else _spaces.sub(" ", node))
        return
    if node.tag in _UNSEEN:
        return
    block = node.tag in _BLOCKS or node.tag == "br"
    if block:
        pieces.append("\n")
    if node.tag == "pre":
        pieces.append("\x00")  # keep this text's own spaces
    for child in node.children:
        _gather(child, pieces, preformatted=preformatted or node.tag == "pre")
    if node.tag in {"td", "th"}:
        pieces.append("\t")
    if block and node.tag != "br":
        pieces.append("\n")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        ended, fence = _ENDS.get(tag, (frozenset(), frozenset()))
        for place in range(len(self._open) - 1, 0, -1):
            if self._open[place].tag in fence:
                break
            if self._open[place].tag in ended:
                del self._open[place:]
        if tag in _BLOCKS and self._open[-1].tag == "p":
            self._open.pop()
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID and len(self._open) < _MAX_DEPTH:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In HTML a slash before the end means nothing: `<div/>` opens a box.
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self._open) - 1, 0, -1):
            if self._open[place].tag == tag:
                del self._open[place:]
                return
            if self._open[place].tag == "table" and tag not in {"div", "section"}:
                return

    def handle_data(self, data: str) -> None:
        if data:
            self._open[-1].children.append(data)


# Tables in HTML as rows of texts, cells that span several resolved; and as tables of Markdown. Pure.

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
