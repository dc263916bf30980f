"""A page of the web as Markdown that says what a person would read on it: its title, its main part first, the rest.

Pure. The page is somebody else's words: what a person would not see of it (hidden text, invisible characters) is left
out and counted, so that nobody is told anything behind a person's back. How HTML is read is ``formats.markup``'s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urljoin

from cellwright.formats.markup import MAX_CHARACTERS, Element, parse_html, text_in
from cellwright.tools.web.markdown import Writer
from cellwright.tools.web.visibility import Visibility, visible_text

__all__ = ["Page", "read_page"]

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
