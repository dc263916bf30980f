"""A page of the web as Markdown that says what a person would read on it: its title, its main part first, the rest.

Pure. The page is somebody else's words: what a person would not see of it (hidden text, invisible characters) is left
out and counted, so that nobody is told anything behind a person's back. How HTML is read is ``formats.markup``'s.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from cellwright.formats.markup import (
    MAX_CHARACTERS,
    Element,
    HtmlRow,
    Node,
    elements,
    parse_html,
    rows_of,
    text_in,
)

__all__ = ["Page", "read_page", "visible_text"]
_NOISE = frozenset(
    {
        "button",
        "canvas",
        "datalist",
        "dialog",
        "head",
        "input",
        "link",
        "meta",
        "nav",
        "noscript",
        "object",
        "script",
        "select",
        "style",
        "svg",
        "template",
        "textarea",
        "title",
    }
)

_NOISE_ROLES = frozenset(
    {"navigation", "search", "menu", "menubar", "banner", "contentinfo", "alert", "dialog"}
)

_LEAST_MAIN = 200
"""A main part with fewer characters than this is no main part."""

_MAX_TITLE = 300


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says."""

    title: str
    markdown: str
    hidden: int
    """Passages that a person would not see."""
    cut: bool
    """Whether it was too long to be read to its end."""


def read_page(html: str, url: str) -> Page:
    """A page from its text and its address, from which its links are meant."""
    root = parse_html(html)
    base = _base(root, url)
    visibility = Visibility(root)
    _tidy(root, visibility, within_main=False)
    title = _title(html)
    main = _main(root)
    writer = Writer(base)
    text = writer.write(main)
    if main is not root:
        # What stands beside the main part may be what was looked for: a price, a date, a name.
        _without(root, main)
        if rest := writer.write(root):
            text = f"{text}\n\n---\n\n{rest}" if text else rest
    return Page(title, text, visibility.hidden, len(html) > MAX_CHARACTERS)


def _title(html: str) -> str:
    match = re.search(r"<title[^>]{0,300}>(.{0,2000}?)</title", html[:200_000], re.IGNORECASE | re.DOTALL)
    return " ".join(visible_text(text_in(parse_html(match[1]))).split())[:_MAX_TITLE] if match else ""


def _base(root: Element, url: str) -> str:
    for element in _walk(root):
        if element.tag == "base" and element.attributes.get("href"):
            return _joined(url, element.attributes["href"])
        if element.tag == "body":
            break
    return url


def _joined(base: str, href: str) -> str:
    try:
        return urljoin(base, href.strip())
    except ValueError:
        return base


def _tidy(node: Element, visibility: Visibility, *, within_main: bool) -> None:
    """Take out what nobody reads."""
    kept: list[Element | str] = []
    for child in node.children:
        if isinstance(child, str):
            kept.append(visible_text(child))
        elif not _is_noise(child) and visibility.shows(child):
            inside = within_main or child.tag in {"main", "article"}
            # Around the page these lead elsewhere; within an article they belong to it.
            if child.tag in {"header", "footer"} and not inside and _is_all_links(child):
                continue
            _tidy(child, visibility, within_main=inside)
            kept.append(child)
    node.children = kept


def _is_noise(element: Element) -> bool:
    return element.tag in _NOISE or element.attributes.get("role", "").lower() in _NOISE_ROLES


def _is_all_links(element: Element) -> bool:
    whole = len("".join(text_in(element).split()))
    linked = sum(len("".join(text_in(link).split())) for link in _walk(element) if link.tag == "a")
    return whole == 0 or linked * 2 >= whole or element.tag == "footer"


def _main(root: Element) -> Element:
    named = [one for one in _walk(root) if one.tag == "main" or one.attributes.get("role") == "main"]
    articles = [one for one in _walk(root) if one.tag == "article"]
    if named:
        best = max(named, key=lambda one: len(text_in(one)))
    elif len(articles) == 1:
        best = articles[0]
    else:
        return root
    return best if len(text_in(best)) >= min(_LEAST_MAIN, len(text_in(root)) // 3) else root


def _without(root: Element, part: Element) -> None:
    for element in [root, *_walk(root)]:
        element.children = [child for child in element.children if child is not part]


def _walk(node: Element) -> list[Element]:
    """Every element below a node, in order."""
    found: list[Element] = []
    waiting = [child for child in reversed(node.children) if isinstance(child, Element)]
    while waiting:
        element = waiting.pop()
        found.append(element)
        waiting += [child for child in reversed(element.children) if isinstance(child, Element)]
    return found


# Elements of a page as Markdown: headings, lists, quotes, code, tables with their spans resolved, absolute
# links. Pure.

_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li",
        "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
        "frameset", "frame", "iframe",
    }
)  # fmt: skip

_HEADINGS = {f"h{level}": level for level in range(1, 7)}

_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}

_SCHEMES = ("http://", "https://", "mailto:", "tel:")

_MAX_LINK = 2_000

_space = re.compile(r"[ \t\r\n\f]+")

_SPECIAL = re.compile(r"([\\`*_\[\]])")

_LINE_START = re.compile(
    r"^(\s*)(#{1,6}(?=\s)|>|[-+](?=\s)|\d{1,9}[.)](?=\s)|={2,}|-{2,}|~{3,})", re.MULTILINE
)


class Writer:
    """Writes one page; links are meant from ``base``."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._forms: dict[str, Callable[[Element], list[str]]] = {
            **dict.fromkeys(_HEADINGS, self._heading),
            **dict.fromkeys(("ul", "ol", "menu"), lambda element: [self._list(element)]),
            **dict.fromkeys(("iframe", "frame"), self._frame),
            "blockquote": self._quote,
            "dt": self._term,
            "hr": lambda _: ["---"],
            "pre": lambda element: [_fenced(_raw(element))],
            "table": self._table,
        }
        self._words: dict[str, Callable[[Element], str]] = {
            **dict.fromkeys(("code", "kbd", "samp", "tt"), _code),
            "a": self._link,
            "br": lambda _: "\n",
            "img": self._image,
            "wbr": lambda _: "",
        }

    def write(self, root: Element) -> str:
        """All that is below an element."""
        return "\n\n".join(self._blocks(root)).strip()

    def _blocks(self, element: Element) -> list[str]:
        """The blocks below an element; what flows between them are paragraphs."""
        found: list[str] = []
        flowing: list[Node] = []

        def end_paragraph() -> None:
            if text := _at_line_start(self._inline_of(flowing).strip()):
                found.append(text)
            flowing.clear()

        for child in element.children:
            if isinstance(child, Element) and _is_block(child):
                end_paragraph()
                found += self._block(child)
            else:
                flowing.append(child)
        end_paragraph()
        return found

    def _block(self, element: Element) -> list[str]:
        write = self._forms.get(element.tag)
        if write is None:
            return self._blocks(element)
        return [text for text in write(element) if text]

    def _heading(self, element: Element) -> list[str]:
        text = " ".join(self._inline_of(element.children).split())
        return [f"{'#' * _HEADINGS[element.tag]} {text}"] if text else []

    def _quote(self, element: Element) -> list[str]:
        inner = "\n\n".join(self._blocks(element))
        return ["\n".join(f"> {line}".rstrip() for line in inner.splitlines())]

    def _term(self, element: Element) -> list[str]:
        text = self._inline_of(element.children).strip()
        return [f"**{text}**"] if text else []

    def _list(self, element: Element) -> str:
        lines: list[str] = []
        number = _count(element.attributes.get("start", "1"))
        for child in element.children:
            if not isinstance(child, Element):
                continue
            blocks = self._blocks(child) if child.tag == "li" else self._block(child)
            if not blocks:
                continue
            mark = f"{number}. " if element.tag == "ol" else "- "
            number += 1
            # Blocks of one item stay together: an empty line would make a loose list of all.
            inner = "\n".join(blocks).splitlines()
            lines.append(mark + inner[0])
            lines += [" " * len(mark) + line for line in inner[1:]]
        return "\n".join(lines)

    def _frame(self, element: Element) -> list[str]:
        target = self._address(element.attributes.get("src", ""))
        name = element.attributes.get("title") or element.attributes.get("name") or "frame"
        link = [f"[{_escaped(name)} (frame)]({target})"] if target else []
        # Frames end nowhere: what follows one lies in it.
        return [*link, *self._blocks(element)]

    def _table(self, element: Element) -> list[str]:
        if _is_layout(element):
            return self._blocks(element)
        captions = [self._inline_of(one.children).strip() for one in elements(element, "caption")]
        for cell in elements(element, "td", "th"):
            # Links and marks are written now; how cells lie in rows is for whoever resolves their spans.
            cell.children = [" ".join(self._cell(cell).split())]
        rows = [row for row in rows_of(element) if any(cell.text for cell in row.cells)]
        table = _table_of(rows)
        return [text for text in (*(f"**{one}**" for one in captions if one), table) if text]

    def _cell(self, cell: Element) -> str:
        return " ".join(block.replace("\n", " ") for block in self._blocks(cell))

    def _inline_of(self, nodes: list[Node]) -> str:
        text = "".join(self._inline(node) for node in nodes)
        return re.sub(r" *\n *", "\n", re.sub(r" {2,}", " ", text))

    def _inline(self, node: Node) -> str:
        if isinstance(node, str):
            return _escaped(_space.sub(" ", node))
        if (write := self._words.get(node.tag)) is not None:
            return write(node)
        inner = self._inline_of(node.children) if node.tag not in _BLOCKS else f" {self._cell(node)} "
        mark = _MARKS.get(node.tag)
        return _marked(inner, mark) if mark else inner

    def _link(self, link: Element) -> str:
        text = " ".join(self._inline_of(link.children).split())
        target = self._address(link.attributes.get("href", ""))
        if not target or not text:
            return text
        return f"[{text}]({target})"

    def _image(self, image: Element) -> str:
        text = " ".join(image.attributes.get("alt", "").split())
        target = self._address(image.attributes.get("src", ""))
        if not text:
            return ""
        return f"![{_escaped(text)}]({target})" if target else _escaped(text)

    def _address(self, href: str) -> str | None:
        """An absolute address that a reader can use; none for scripts, data, and places on the same page."""
        href = href.strip()
        if not href or href.startswith("#") or len(href) > _MAX_LINK:
            return None
        try:
            target = urljoin(self._base, href)
        except ValueError:
            return None
        if not target.lower().startswith(_SCHEMES):
            return None
        return quote(target, safe="%/:=&?~#+!$,;'@*[]")


def _is_block(element: Element) -> bool:
    if element.tag in _BLOCKS:
        return True
    # An element that flows, with blocks in it, is a block itself: a card that is a link as a whole is left to flow.
    return element.tag != "a" and any(isinstance(one, Element) and _is_block(one) for one in element.children)


def _is_layout(table: Element) -> bool:
    """Whether a table only puts things beside each other: it holds others, or has one place in each row."""
    if any(True for cell in elements(table, "td", "th") for _ in elements(cell, "table")):
        return True
    rows = list(elements(table, "tr"))
    return all(sum(1 for _ in elements(row, "td", "th")) <= 1 for row in rows)


def _table_of(rows: list[HtmlRow]) -> str:
    width = max((len(row.cells) for row in rows), default=0)
    if not width:
        return ""
    heads = [row for row in rows if row.in_head]
    if not heads and all(cell.is_heading for cell in rows[0].cells):
        heads = rows[:1]
    body = [row for row in rows if row not in heads]
    columns = [
        " ".join(dict.fromkeys(filter(None, (_at(row, column) for row in heads)))) for column in range(width)
    ]
    lines = [_row(columns), "|" + " --- |" * width]
    lines += [_row([_at(row, column) for column in range(width)]) for row in body]
    return "\n".join(lines)


def _at(row: HtmlRow, column: int) -> str:
    return row.cells[column].text if column < len(row.cells) else ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _raw(element: Element) -> str:
    """Text as it stands, spaces and all."""
    pieces: list[str] = []
    for child in element.children:
        if isinstance(child, str):
            pieces.append(child)
        else:
            pieces.append("\n" if child.tag == "br" else _raw(child))
    return "".join(pieces)


def _code(element: Element) -> str:
    text = " ".join(_raw(element).split())
    return f"`{text}`" if text and "`" not in text else _escaped(text)


def _fenced(code: str) -> str:
    if not code.strip():
        return ""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}\n{code.strip(chr(10)).rstrip()}\n{fence}"


def _marked(inner: str, mark: str) -> str:
    text = inner.strip()
    if not text or "\n" in text:
        return inner
    before = " " if inner[:1].isspace() else ""
    after = " " if inner[-1:].isspace() else ""
    return f"{before}{mark}{text}{mark}{after}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("<", "&lt;")


def _at_line_start(text: str) -> str:
    """A paragraph of which no line is taken for a heading, a quote, a list or a fence."""
    return _LINE_START.sub(r"\1\\\2", text)


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= len("999999") else 1


# What a person would see of a page, as far as its own words tell. Pure.

_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:[;!]|$)"
    r"|font-size\s*:\s*0(?:px|em|rem|pt|%)?\s*(?:[;!]|$)|(?:left|top|text-indent)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect\(\s*0|transform\s*:\s*scale\(\s*0\s*\)",
    re.IGNORECASE,
)

_RULE = re.compile(r"([^{}]{1,500})\{([^{}]{0,2000})\}")

_SIMPLE = re.compile(r"([.#])([A-Za-z_][\w-]{0,100})")

_COMMENT = re.compile(r"/\*.{0,5000}?\*/", re.DOTALL)

_COLOUR = re.compile(r"(?<![-\w])(background-color|background|color)\s*:\s*([^;!]{1,60})", re.IGNORECASE)

# Tags, and selectors of variants beyond the usual sixteen, spell out texts that nobody sees.
_UNSEEN = range(0xE0000, 0xE1000)

_MAX_SHEET = 200_000


class Visibility:
    """Decides which elements of one page a person sees, and counts those with text that are not."""

    def __init__(self, root: Element) -> None:
        self.hidden = 0
        self._classes: set[str] = set()
        self._ids: set[str] = set()
        for sheet in _sheets(root):
            self._learn(_COMMENT.sub("", sheet))

    def shows(self, element: Element) -> bool:
        """Whether a person sees it."""
        if not self._is_hidden(element):
            return True
        if text_in(element):
            self.hidden += 1
        return False

    def _is_hidden(self, element: Element) -> bool:
        attributes = element.attributes
        if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
            return True
        style = attributes.get("style", "")
        if style and (_HIDING.search(style) or _is_unreadable(style)):
            return True
        classes = attributes.get("class", "").split()
        return not self._classes.isdisjoint(classes) or attributes.get("id", "") in self._ids

    def _learn(self, sheet: str) -> None:
        for selectors, body in _RULE.findall(sheet[:_MAX_SHEET]):
            if not _HIDING.search(body):
                continue
            for selector in selectors.split(","):
                # Only a class or an id alone: what a longer selector means depends on the rest of the page.
                if match := _SIMPLE.fullmatch(selector.strip()):
                    (self._classes if match[1] == "." else self._ids).add(match[2])


def visible_text(text: str) -> str:
    """A text without characters that show nothing, turn lines round or carry a second text."""
    if text.isascii():
        return text
    return "".join(character for character in text if not _is_invisible(character))


def _is_invisible(character: str) -> bool:
    if character.isascii():
        return False
    if ord(character) in _UNSEEN:
        return True
    return unicodedata.category(character) == "Cf" and character not in "\u200c\u200d\u00ad"


def _is_unreadable(style: str) -> bool:
    """Whether text has the colour of what lies behind it."""
    colours = {name.lower(): " ".join(value.lower().split()) for name, value in _COLOUR.findall(style)}
    behind = colours.get("background-color", colours.get("background"))
    return colours.get("color") == "transparent" or (behind is not None and colours.get("color") == behind)


def _sheets(root: Element) -> list[str]:
    found: list[str] = []
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element.tag == "style":
            found.append("".join(child for child in element.children if isinstance(child, str)))
        waiting += [child for child in element.children if isinstance(child, Element)]
    return found
