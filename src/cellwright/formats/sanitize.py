"""HTML outputs written anew from what a page may hold: no script, no form, nothing that is fetched, nothing left open.

Not a filter: every tag and attribute that comes out was built here from a list, and every text was escaped. A style
sheet that an output brings along is kept and shut in with it, in a shadow root. The page's content security policy
stands behind all this.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from cellwright.formats.display_data import svg_text
from cellwright.formats.markup import VOID, Element, Node, elements, parse_html, text_in

__all__ = ["Clean", "StyleAttributes", "clean_fragment", "safe_link"]

StyleAttributes: TypeAlias = Literal["inline", "sheet", "none"]
"""Where an element's own style goes: it stays; into a style sheet, for pages whose policy forbids it to; nowhere."""

_ALLOWED = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup", "dd",
    "del", "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "font", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "i", "img", "input", "ins", "kbd", "label", "li", "mark", "meter", "ol", "p", "pre", "progress", "q", "rp",
    "rt", "ruby", "s", "samp", "section", "small", "span", "strike", "strong", "sub", "summary", "sup", "table", "tbody",
    "td", "tfoot", "th", "thead", "time", "tr", "tt", "u", "ul", "var", "wbr",
})  # fmt: skip
_DROPPED = frozenset({
    "script", "style", "template", "noscript", "iframe", "frame", "frameset", "noframes", "object", "embed", "applet",
    "svg", "math", "textarea", "select", "button", "title", "audio", "video", "canvas", "dialog", "portal", "plaintext",
    "xmp", "noembed", "marquee", "base", "link", "meta",
})  # fmt: skip
_ATTRIBUTES: dict[str, frozenset[str]] = {
    "": frozenset(
        {
            "class",
            "dir",
            "lang",
            "title",
            "role",
            "align",
            "valign",
            "width",
            "height",
            "aria-label",
            "tabindex",
        }
    ),
    "td": frozenset({"colspan", "rowspan", "headers", "scope"}),
    "th": frozenset({"colspan", "rowspan", "headers", "scope"}),
    "ol": frozenset({"start", "type", "reversed"}),
    "li": frozenset({"value"}),
    "details": frozenset({"open"}),
    "meter": frozenset({"value", "min", "max", "low", "high", "optimum"}),
    "progress": frozenset({"value", "max"}),
    "time": frozenset({"datetime"}),
    "font": frozenset({"color"}),
    "img": frozenset({"alt"}),
}
_PROPERTIES = re.compile(
    r"(?:background(?:-color)?|border(?:-[a-z-]+)?|color|display|font(?:-[a-z]+)?|height|line-height|list-style(?:-type)?"
    r"|margin(?:-[a-z]+)?|max-height|max-width|min-height|min-width|opacity|overflow(?:-[xy])?|padding(?:-[a-z]+)?"
    r"|text-(?:align|decoration|transform)|vertical-align|white-space|width|word-break|overflow-wrap|flex(?:-[a-z]+)?|gap"
    r"|align-items|justify-content|grid(?:-[a-z-]+)?)"
)
_LOADING = re.compile(r"url\s*\(|image(?:-set)?\s*\(|@import|expression\s*\(|\\|</|<!--", re.IGNORECASE)
_DATA_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]+")
_SVG = re.compile(r"<svg\b.*?</svg\s*>", re.IGNORECASE | re.DOTALL)
_COLOURED = re.compile(r"(?:^|[;{\s])(?:background(?:-color)?|color)\s*:", re.IGNORECASE)
# pandas puts the same few rules in front of every frame: the page's own tables look better.
_PANDAS = re.compile(r"\s*(?:\.dataframe (?:tbody tr th(?::only-of-type)?|thead (?:tr )?th)\s*\{[^}]*\}\s*)+")
_SCHEME = "prefers-color-scheme"
_CLASS = re.compile(r"[\w -]*")
# With these a caller marks places in texts (see ``prose``); in an attribute they would be filled with tags.
_MARKS = re.compile("[\ufdd0\ufdd1]")


@dataclass(slots=True)
class Clean:
    """What is left of a piece of HTML, and what had to go."""

    html: str = ""
    styles: list[str] = field(default_factory=list)
    """Style sheets that it brought along."""
    coloured: bool = False
    """Whether it sets colours of its own, which were chosen for a light page."""
    dropped: set[str] = field(default_factory=set)
    """Tags whose content is not shown, other than style sheets."""
    visible: bool = False
    """Whether there is anything to see."""


def clean_fragment(
    source: str, *, keep_styles: bool = False, attributes: StyleAttributes = "inline"
) -> Clean:
    """A fragment as it may stand in a page: balanced, without scripts, and without anything to be fetched."""
    pictures: list[str] = []

    def taken(match: re.Match[str]) -> str:
        pictures.append(match[0])
        return f'<img data-svg="{len(pictures) - 1}">'

    root = parse_html(_SVG.sub(taken, source))
    clean = Clean()
    if keep_styles:
        sheets = [
            "".join(child for child in one.children if isinstance(child, str))
            for one in elements(root, "style")
        ]
        clean.styles = [css for css in sheets if not _PANDAS.fullmatch(css) and not _LOADING.search(css)]
        # Who asks for the reader's scheme has colours for both.
        clean.coloured = any(_COLOURED.search(css) and _SCHEME not in css for css in clean.styles)
    writer = _Writer(clean, pictures, attributes, ids=bool(clean.styles))
    clean.html = "".join(writer.nodes(root.children))
    clean.styles += [f"{_place(number)}{{{style}}}" for style, number in writer.sheet.items()]
    clean.visible = bool(text_in(root)) or "<img" in clean.html or "<input" in clean.html
    return clean


def _place(number: int) -> str:
    """What selects the elements that had a style of their own, and outdoes every style sheet as that would have."""
    return f'[data-style="{number}"]:not(#\\_):not(#\\_)'


def safe_link(url: str) -> str | None:
    """A link's target, if it leads to a page, a mail address or a place in this page."""
    try:
        scheme = urlsplit(url.strip()).scheme.lower()
    except ValueError:
        return None
    return url.strip() if scheme in {"http", "https", "mailto"} or url.startswith("#") else None


class _Writer:
    """Writes nodes as HTML. Ids are kept only where they are shut in."""

    def __init__(self, clean: Clean, pictures: list[str], attributes: StyleAttributes, *, ids: bool) -> None:
        self._clean = clean
        self._pictures = pictures
        self._styles = attributes
        self.sheet: dict[str, int] = {}
        self._ids = ids

    def nodes(self, nodes: Iterable[Node]) -> Iterable[str]:
        for node in nodes:
            if isinstance(node, str):
                yield escape(node, quote=False)
            elif node.tag in _DROPPED:
                yield self._dropped(node)
            elif node.tag not in _ALLOWED:
                yield from self.nodes(node.children)
            else:
                yield from self._element(node)

    def _element(self, node: Element) -> Iterable[str]:
        if node.tag == "img":
            yield self._image(node)
            return
        if node.tag == "input" and node.attributes.get("type", "").lower() not in {"checkbox", "radio"}:
            return
        yield f"<{node.tag}{self._attributes(node)}>"
        if node.tag not in VOID:
            yield from self.nodes(node.children)
            yield f"</{node.tag}>"

    def _attributes(self, node: Element) -> str:
        allowed = _ATTRIBUTES[""] | _ATTRIBUTES.get(node.tag, frozenset())
        kept = {name: value for name, value in node.attributes.items() if name in allowed}
        if not _CLASS.fullmatch(kept.get("class", "")):
            del kept["class"]
        if self._ids:
            kept |= {name: value for name, value in node.attributes.items() if name in {"id", "for"}}
        if style := self._style(node.attributes.get("style", "")):
            kept |= self._placed(style)
        if node.tag == "input":
            kept |= {
                name: value for name, value in node.attributes.items() if name in {"type", "checked", "name"}
            }
        if node.tag == "a" and (target := safe_link(node.attributes.get("href", ""))) is not None:
            kept |= {"href": target, "rel": "noopener noreferrer"}
        if kept.get("tabindex", "0") != "0":
            del kept["tabindex"]
        return "".join(f' {name}="{escape(_MARKS.sub("", value))}"' for name, value in kept.items())

    def _placed(self, style: str) -> dict[str, str]:
        if self._styles == "inline":
            return {"style": style}
        if self._styles == "none" or "{" in style or "}" in style:
            return {}
        return {"data-style": str(self.sheet.setdefault(style, len(self.sheet)))}

    def _style(self, style: str) -> str:
        kept: list[str] = []
        for declaration in style.split(";"):
            name, _, value = (part.strip() for part in declaration.partition(":"))
            if _PROPERTIES.fullmatch(name.lower()) and value and not _LOADING.search(value):
                kept.append(f"{name}: {value}")
        declared = "; ".join(kept)
        self._clean.coloured |= bool(_COLOURED.search(declared))
        return declared

    def _image(self, node: Element) -> str:
        source, alt = node.attributes.get("src", ""), escape(_MARKS.sub("", node.attributes.get("alt", "")))
        number = node.attributes.get("data-svg", "")
        if number.isdigit() and int(number) < len(self._pictures):
            picture = svg_text(self._pictures[int(number)])
            encoded = base64.b64encode((picture or "").encode()).decode()
            return f'<img alt="{alt}" src="data:image/svg+xml;base64,{encoded}">' if picture else ""
        if _DATA_PICTURE.fullmatch(source):
            return f'<img src="{escape(source)}"{self._attributes(node)}>'
        self._clean.dropped.add("img")
        target = safe_link(source)
        words = alt or "a picture"
        if target is None:
            return f'<span class="absent">[{words}]</span>'
        return f'<a class="absent" rel="noopener noreferrer" href="{escape(target)}">[{words}]</a>'

    def _dropped(self, node: Element) -> str:
        if node.tag not in {"style", "link", "meta", "title", "base"}:
            self._clean.dropped.add(node.tag)
        target = (
            safe_link(node.attributes.get("src", "")) if node.tag in {"iframe", "video", "audio"} else None
        )
        if target is None:
            return ""
        return f'<a class="absent" rel="noopener noreferrer" href="{escape(target)}">{escape(target)}</a>'
