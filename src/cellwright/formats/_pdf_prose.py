"""Markdown's tokens as data for print (see ``templates/notebook.typ``). Pure but for drawing formulas."""

from __future__ import annotations

import functools
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

from cellwright.formats.markup import Element, HtmlCell, elements, parse_html, rows_of, text_in
from cellwright.formats.prose import Token, parse_prose, readable_latex, text_of
from cellwright.formats.sanitize import safe_link

__all__ = ["Node", "ProseSetter", "formula_node", "grid_of", "reads_from_right", "set_grid"]
Node: TypeAlias = dict[str, Any]

TEXT_SIZE = 10.5

_TABLE_SIZE = 9.0

_TAG = re.compile(r"<\s*(/?)\s*([a-zA-Z][a-zA-Z0-9]*)")

_MARKS = {"strong": "strong", "emphasis": "emph", "strikethrough": "strike"}


def reads_from_right(text: str) -> bool:
    """Whether a text's first letter belongs to a script that is written from right to left."""
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in {"R", "AL"}:
            return True
        if kind == "L":
            return False
    return False


def formula_node(latex: str, *, display: bool, size: float = TEXT_SIZE) -> Node:
    """A formula as a picture, or its source where it cannot be read."""
    drawn = draw_formula(latex, display=display, size=size)
    if drawn is None:
        return {"t": "code", "v": latex, "lang": "latex"} if display else {"t": "code", "v": f"${latex}$"}
    return {"t": "formula", "svg": drawn.svg, "width": drawn.width, "depth": drawn.depth, "alt": latex}


@dataclass(slots=True)
class ProseSetter:
    """Sets text cells of one print, and keeps what had to be left out. Tokens go to the methods named like them."""

    picture: Callable[[str, str], Node | None]
    """A data link and words for it as a picture's node."""
    notices: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    """Headings of the first level."""
    _attached: Mapping[str, str] = field(default_factory=dict)
    _size: float = TEXT_SIZE

    def blocks(self, source: str, attached: Mapping[str, str]) -> list[Node]:
        """A text's blocks; ``attached`` are data links by the name that an attachment has."""
        self._attached = attached
        return self._blocks(parse_prose(source))

    def _blocks(self, tokens: Iterable[Token]) -> list[Node]:
        return [node for token in tokens for node in self._block(token)]

    def _block(self, token: Token) -> list[Node]:
        kind = token["type"]
        write = _BLOCKS.get(kind)
        if write is not None:
            return write(self, token)
        if "children" in token:
            return self._blocks(token["children"])
        raw = str(token.get("raw", ""))
        return [{"t": "par", "body": [_words(raw)]}] if raw.strip() else []

    def paragraph(self, token: Token) -> list[Node]:
        """A paragraph, with pictures and set-off formulas on lines of their own."""
        kind = "par" if token["type"] == "paragraph" else "plain"
        rtl = reads_from_right(text_of(token["children"]))
        nodes: list[Node] = []
        for set_off, tokens in _runs(token["children"]):
            if not set_off:
                body = self._inline(tokens)
                nodes += [{"t": kind, "body": body, "rtl": rtl}] if body else []
            elif tokens[0]["type"] == "image":
                nodes.append(self._image(tokens[0]))
            else:
                nodes.append(formula_node(str(tokens[0]["raw"]), display=True))
        return nodes

    def heading(self, token: Token) -> list[Node]:
        level, text = int(token["attrs"]["level"]), text_of(token["children"])
        if level == 1 and text.strip():
            self.titles.append(text.strip())
        body = self._inline([one for one in token["children"] if one["type"] != "image"])
        return [{"t": "heading", "level": level, "body": body, "rtl": reads_from_right(text)}]

    def listing(self, token: Token) -> list[Node]:
        attributes = token.get("attrs") or {}
        items: list[Node] = []
        for item in token["children"]:
            about: Node = {"body": self._blocks(item.get("children") or ())}
            if item["type"] == "task_list_item":
                about["done"] = bool((item.get("attrs") or {}).get("checked"))
            items.append(about)
        start = attributes.get("start", 1)
        ordered = bool(attributes.get("ordered"))
        return [_listed(items, ordered=ordered, start=min(max(int(start), 0), 10**6))]

    def quote(self, token: Token) -> list[Node]:
        return [{"t": "quote", "body": self._blocks(token["children"])}]

    def code(self, token: Token) -> list[Node]:
        words = str((token.get("attrs") or {}).get("info") or "").split()
        language = words[0].strip("{}").lower() if words else ""
        return [{"t": "code", "v": str(token.get("raw", "")).rstrip("\n"), "lang": language or None}]

    def formula(self, token: Token) -> list[Node]:
        return [formula_node(str(token["raw"]), display=True)]

    def table(self, token: Token) -> list[Node]:
        rows = [row["children"] for part in token["children"] for row in _table_rows(part)]
        if not rows or not rows[0]:
            return []
        width = len(rows[0])
        self._size = _TABLE_SIZE
        cells = [[self._inline(cell["children"]) for cell in row][:width] for row in rows]
        self._size = TEXT_SIZE
        even = [row + [[] for _ in range(width - len(row))] for row in cells]
        node = table_node(even, 1, _TABLE_SIZE, [[""] * width for _ in rows])
        node["aligns"] = [(cell.get("attrs") or {}).get("align") or "left" for cell in rows[0]]
        return [node]

    def html(self, token: Token) -> list[Node]:
        root = parse_html(str(token.get("raw", "")))
        nodes: list[Node] = []
        for table in elements(root, "table"):
            if (grid := grid_of(table)) is not None:
                nodes += set_grid(grid)
        text = text_in(root) if not nodes else ""
        for image in elements(root, "img"):
            nodes.append(self._placed(image.attributes.get("src", ""), image.attributes.get("alt", "")))
        return [*([{"t": "par", "body": [_words(text)]}] if text else []), *nodes]

    def footnotes(self, token: Token) -> list[Node]:
        items = [{"body": self._blocks(item.get("children") or ())} for item in token["children"]]
        return [{"t": "rule"}, _listed(items, ordered=True, start=1)]

    def _image(self, token: Token) -> Node:
        return self._placed(str(token["attrs"].get("url", "")), text_of(token.get("children") or ()))

    def _placed(self, url: str, words: str) -> Node:
        link = (
            self._attached.get(url.removeprefix("attachment:"), url) if url.startswith("attachment:") else url
        )
        node = self.picture(link, words) if link.startswith("data:") else None
        if node is None:
            self.notices.append(f"The picture {url[:120]} is not part of the notebook, and not of the print")
            return {"t": "note", "v": f"[picture: {words or url[:120]}]"}
        return node

    def _inline(self, tokens: Iterable[Token]) -> list[Node]:
        return [node for token in tokens for node in self._span(token)]

    def _span(self, token: Token) -> list[Node]:
        kind = token["type"]
        if kind in _MARKS:
            return [{"t": _MARKS[kind], "body": self._inline(token["children"])}]
        if kind in {"inline_math", "block_math"}:
            return [formula_node(str(token["raw"]), display=False, size=self._size)]
        if kind == "link":
            body = self._inline(token["children"])
            target = safe_link(str(token["attrs"].get("url", "")))
            # A place in the notebook is none in the print.
            return [{"t": "link", "url": target, "body": body}] if target and target[0] != "#" else body
        if kind in _SPANS:
            return _SPANS[kind](token)
        if "children" in token:
            return self._inline(token["children"])
        return [_words(str(token.get("raw", "")))]


def _words(text: str) -> Node:
    return {"t": "text", "v": text}


def _listed(items: list[Node], *, ordered: bool, start: int) -> Node:
    tasks = any("done" in item for item in items)
    return {"t": "list", "ordered": ordered, "start": start, "tasks": tasks, "items": items}


def _runs(tokens: Iterable[Token]) -> list[tuple[bool, list[Token]]]:
    """Tokens in runs: those that stand on lines of their own, each alone, and what is between them."""
    runs: list[tuple[bool, list[Token]]] = []
    for token in tokens:
        if token["type"] in {"image", "block_math"}:
            runs.append((True, [token]))
        elif runs and not runs[-1][0]:
            runs[-1][1].append(token)
        else:
            runs.append((False, [token]))
    return runs


def _table_rows(part: Token) -> Iterable[Token]:
    return [part] if part["type"] == "table_head" else part["children"]


def _tag(token: Token) -> list[Node]:
    match = _TAG.match(str(token.get("raw", "")))
    return [{"t": "break"}] if match and match[2].lower() == "br" else []


_SPANS: Mapping[str, Callable[[Token], list[Node]]] = {
    "codespan": lambda token: [{"t": "code", "v": str(token["raw"])}],
    "softbreak": lambda _token: [_words(" ")],
    "linebreak": lambda _token: [{"t": "break"}],
    "inline_html": _tag,
    "image": lambda token: [_words(f"[picture: {text_of(token.get('children') or ())}]")],
    "footnote_ref": lambda token: [{"t": "sup", "body": [_words(str(token["attrs"]["index"]))]}],
}

_BLOCKS: Mapping[str, Callable[[ProseSetter, Token], list[Node]]] = {
    "paragraph": ProseSetter.paragraph,
    "block_text": ProseSetter.paragraph,
    "heading": ProseSetter.heading,
    "list": ProseSetter.listing,
    "block_quote": ProseSetter.quote,
    "block_code": ProseSetter.code,
    "block_math": ProseSetter.formula,
    "table": ProseSetter.table,
    "block_html": ProseSetter.html,
    "footnotes": ProseSetter.footnotes,
    "thematic_break": lambda _self, _token: [{"t": "rule"}],
    "blank_line": lambda _self, _token: [],
}


# Tables for print: a grid of cells from HTML or Markdown, cut to what a page holds. Pure.

MAX_ROWS = 60

_MAX_COLUMNS = 120

_CELL_CHARACTERS = 200

_SIZE, _LEAST_SIZE = 8.5, 6.0

# What fits on a line of the page, in characters at the usual size, and what a cell takes besides its text.
_ROOM, _PADDING = 120, 3

_WIDEST = 34

_NUMBER = re.compile(r"[-+\u2212$€£]*[\d.,]+(?:e[-+]?\d+)?\s?%?|NaN|nan|-?inf|None|NaT|<NA>|null")


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of equal length; the first ``head`` of them are headings."""

    rows: list[list[str]]
    head: int
    left_out: str = ""


def grid_of(table: Element) -> Grid | None:
    """An HTML table as a grid; cells that span several stand in the first of them."""
    found = list(rows_of(table))
    rows = [[_shown(cell) for cell in row.cells[:_MAX_COLUMNS]] for row in found[: MAX_ROWS * 4]]
    if not any(any(row) for row in rows):
        return None
    head = sum(1 for _ in takewhile(lambda row: row.in_head, found[: MAX_ROWS * 4]))
    width = max(len(row) for row in rows)
    even = [row + [""] * (width - len(row)) for row in rows]
    body = len(found) - head
    left_out = f"… {body - MAX_ROWS:,} of {body:,} rows are left out" if body > MAX_ROWS else ""
    return Grid(even[: head + MAX_ROWS], head, left_out)


def _shown(cell: HtmlCell) -> str:
    if cell.is_repeated:
        return ""
    return cell.text if len(cell.text) <= _CELL_CHARACTERS else f"{cell.text[: _CELL_CHARACTERS - 1]}…"


def set_grid(grid: Grid) -> list[dict[str, Any]]:
    """A grid as one table, or as several below each other where it is too wide for the page."""
    groups = _groups([_width(column) for column in zip(*grid.rows, strict=True)])
    set_tables: list[dict[str, Any]] = []
    for columns, size in groups:
        rows = [[row[column] for column in columns] for row in grid.rows]
        set_tables.append(
            table_node([[[_cell_words(cell)] for cell in row] for row in rows], grid.head, size, rows)
        )
    if grid.left_out:
        set_tables.append({"t": "note", "v": grid.left_out})
    return set_tables


def table_node(
    cells: list[list[list[dict[str, Any]]]], head: int, size: float, texts: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """A table's data: cells of inline nodes; columns of numbers are set to the right."""
    aligns = ["right" if _numbers(column[head:]) else "left" for column in zip(*texts, strict=True)]
    rows = [[{"body": cell} for cell in row] for row in cells]
    return {"t": "table", "columns": len(aligns), "head": head, "size": size, "aligns": aligns, "rows": rows}


def _cell_words(text: str) -> dict[str, Any]:
    return {"t": "text", "v": text}


def _width(column: Sequence[str]) -> int:
    return min(max(len(cell) for cell in column), _WIDEST) + _PADDING


def _groups(widths: list[int]) -> list[tuple[list[int], float]]:
    """Which columns stand beside each other, and the size of their letters."""
    shrunk = _SIZE * _ROOM / max(sum(widths), 1)
    if shrunk >= _LEAST_SIZE:
        return [(list(range(len(widths))), round(min(_SIZE, shrunk), 2))]
    room = _ROOM * _SIZE / _LEAST_SIZE
    fewest = len(_packed(widths, room))
    # As many groups as there must be, and all about as wide: nothing is gained by a last one of a single column.
    even = next(
        width
        for width in range(sum(widths) // fewest, sum(widths) + 1)
        if len(_packed(widths, width)) <= fewest
    )
    return [(group, _LEAST_SIZE) for group in _packed(widths, min(even, room))]


def _packed(widths: list[int], room: float) -> list[list[int]]:
    """Columns in groups that begin with the first column and fit; a group has at least one more."""
    groups: list[list[int]] = [[0]]
    used = widths[0]
    for column in range(1, len(widths)):
        if used + widths[column] > room and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0]
        groups[-1].append(column)
        used += widths[column]
    return groups


def _numbers(cells: Sequence[str]) -> bool:
    shown = [cell for cell in cells if cell]
    return bool(shown) and all(_NUMBER.fullmatch(cell) for cell in shown)


# Formulas in LaTeX as small vector pictures for print, with what is needed to set them on the line. Pure.

_MAX_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Formula:
    """An SVG picture, its width, and how far it goes below the line, in points."""

    svg: str
    width: float
    depth: float


@functools.lru_cache(maxsize=512)
def draw_formula(latex: str, *, display: bool, size: float) -> Formula | None:
    """A formula as a picture; None where it cannot be read."""
    drawer = _drawer()
    readable = readable_latex(latex)
    if not readable or len(readable) > _MAX_CHARACTERS:
        return None
    try:
        drawn = drawer(readable, size=size, inline=not display)
        svg = drawn.svg()
        width, height = (float(svg.split(f'{name}="', 1)[1].split('"', 1)[0]) for name in ("width", "height"))
        top = float(svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[1])
    except Exception:  # noqa: BLE001  # boundary: the drawer fails in many ways, and the source is readable
        return None
    # The line is at 0 of the picture's own coordinates.
    return Formula(svg, width, height + top) if width > 0 and height > 0 else None


@functools.cache
def _drawer() -> Any:
    with warnings.catch_warnings():
        # It finds its font in a way that newer Pythons advise against.
        warnings.simplefilter("ignore", DeprecationWarning)
        from ziamath.zmath import Latex  # an extra
    return Latex
