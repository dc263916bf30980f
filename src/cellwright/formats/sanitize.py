"""HTML outputs as a page may hold them: no script, no form, nothing that is fetched, nothing left open.

nh3 reads them as browsers do and writes them anew from lists of tags and attributes; what an attribute may say is
decided here, and so is what stands in place of a picture, frame or film that is elsewhere. A style sheet that an output
brings along is kept and shut in with it, in a shadow root. The page's content security policy stands behind all this.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from html import escape, unescape
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from cellwright.formats.display_data import svg_text
from cellwright.formats.markup import MAX_CHARACTERS

__all__ = ["Clean", "StyleAttributes", "clean_fragment", "safe_link"]

StyleAttributes: TypeAlias = Literal["inline", "sheet", "none"]
"""Where an element's own style goes: it stays; into a style sheet, for pages whose policy forbids it to; nowhere."""

_ALLOWED = {
    "a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup", "dd",
    "del", "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "font", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "i", "img", "input", "ins", "kbd", "label", "li", "mark", "meter", "ol", "p", "pre", "progress", "q", "rp",
    "rt", "ruby", "s", "samp", "section", "small", "span", "strike", "strong", "sub", "summary", "sup", "table", "tbody",
    "td", "tfoot", "th", "thead", "time", "tr", "tt", "u", "ul", "var", "wbr",
}  # fmt: skip
_DROPPED = {
    "script", "style", "template", "noscript", "iframe", "frame", "frameset", "noframes", "object", "embed", "applet",
    "svg", "math", "textarea", "select", "button", "title", "audio", "video", "canvas", "dialog", "portal", "plaintext",
    "xmp", "noembed", "marquee", "base", "link", "meta",
}  # fmt: skip
_ATTRIBUTES: dict[str, set[str]] = {
    "*": {
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
        "style",
        "id",
        "for",
    },
    "td": {"colspan", "rowspan", "headers", "scope"},
    "th": {"colspan", "rowspan", "headers", "scope"},
    "ol": {"start", "type", "reversed"},
    "li": {"value"},
    "details": {"open"},
    "meter": {"value", "min", "max", "low", "high", "optimum"},
    "progress": {"value", "max"},
    "time": {"datetime"},
    "font": {"color"},
    "a": {"href"},
    "input": {"type", "checked", "name"},
    "img": {"alt", "src"},
}
_PROPERTIES = re.compile(
    r"(?:background(?:-color)?|border(?:-[a-z-]+)?|color|display|font(?:-[a-z]+)?|height|line-height|list-style(?:-type)?"
    r"|margin(?:-[a-z]+)?|max-height|max-width|min-height|min-width|opacity|overflow(?:-[xy])?|padding(?:-[a-z]+)?"
    r"|text-(?:align|decoration|transform)|vertical-align|white-space|width|word-break|overflow-wrap|flex(?:-[a-z]+)?|gap"
    r"|align-items|justify-content|grid(?:-[a-z-]+)?)"
)
_LOADING = re.compile(r"url\s*\(|image(?:-set)?\s*\(|@import|expression\s*\(|\\|</|<!--", re.IGNORECASE)
_DATA_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]+")
_COLOURED = re.compile(r"(?:^|[;{\s])(?:background(?:-color)?|color)\s*:", re.IGNORECASE)
# pandas puts the same few rules in front of every frame: the page's own tables look better.
_PANDAS = re.compile(r"\s*(?:\.dataframe (?:tbody tr th(?::only-of-type)?|thead (?:tr )?th)\s*\{[^}]*\}\s*)+")
_SCHEME = "prefers-color-scheme"
_UNSHOWN = re.compile(
    rf"<({'|'.join(sorted(_DROPPED - {'style', 'link', 'meta', 'title', 'base', 'svg'}))})\b", re.IGNORECASE
)
_FRAMES = re.compile(
    r"""<(iframe|video|audio)\b[^<>]*?\ssrc\s*=\s*["']?(https?://[^\s"'<>]+)""", re.IGNORECASE
)
_SHEET = re.compile(r"<style\b", re.IGNORECASE), re.compile(r"</style\b", re.IGNORECASE)
_SVG = re.compile(r"<svg\b", re.IGNORECASE), re.compile(r"</svg\s*>", re.IGNORECASE)
_SVG_DATA = "data:image/svg+xml;base64,"
_ABSENT = "absent"
"""The scheme of a picture that is elsewhere, between cleaning and the link to it."""
_TAG = re.compile(r"""<[^">]*(?:"[^"]*"[^">]*)*>""")
_VALUES = re.compile(r' ([a-z-]+)="([^"]*)"')
_STYLE = re.compile(r' style="([^"]*)"')
_BOX = re.compile(r' type="(?:checkbox|radio)"', re.IGNORECASE)
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
    import nh3  # an extra

    source = source[:MAX_CHARACTERS]
    clean = Clean(dropped={tag.lower() for tag in _UNSHOWN.findall(source)})
    if keep_styles:
        sheets = [source[start:end].partition(">")[2] for start, end in _spans(source, _SHEET)]
        clean.styles = [css for css in sheets if not _PANDAS.fullmatch(css) and not _LOADING.search(css)]
        # Who asks for the reader's scheme has colours for both.
        clean.coloured = any(_COLOURED.search(css) and _SCHEME not in css for css in clean.styles)
    cleaned = nh3.clean(
        _FRAMES.sub(_link_to_frame, _with_pictures(source)),
        tags=_ALLOWED,
        clean_content_tags=_DROPPED,
        attributes=_ATTRIBUTES,
        attribute_filter=partial(_attribute, clean, ids=bool(clean.styles)),
        url_schemes={"http", "https", "mailto", "data", _ABSENT},
        link_rel="noopener noreferrer",
    )
    clean.visible = bool(_TAG.sub("", cleaned).strip()) or "<img" in cleaned or "<input" in cleaned
    sheet: dict[str, int] = {}
    clean.html = _TAG.sub(lambda tag: _placed(tag[0], attributes, sheet), cleaned)
    clean.styles += [f"{_place(number)}{{{style}}}" for style, number in sheet.items()]
    return clean


# Before the cleaning: what is made here is cleaned like all else.


def _with_pictures(source: str) -> str:
    """The text with each SVG as the picture that it is."""
    pieces, place = [], 0
    for start, end in _spans(source, _SVG):
        picture = svg_text(f"{source[start:end]}</svg>")
        encoded = base64.b64encode((picture or "").encode()).decode()
        pieces += [source[place:start], f'<img src="{_SVG_DATA}{encoded}">' if picture else ""]
        place = end
    return "".join([*pieces, source[place:]])


def _spans(source: str, tags: tuple[re.Pattern[str], re.Pattern[str]]) -> Iterator[tuple[int, int]]:
    """From where such an element begins to where it ends, found in one pass however many are left open."""
    opening, closing = tags
    place = 0
    while (start := opening.search(source, place)) and (end := closing.search(source, start.end())):
        yield start.start(), end.start()
        place = end.end()


def _link_to_frame(frame: re.Match[str]) -> str:
    """A frame or film, which goes with its content, behind a link to it."""
    target = safe_link(unescape(frame[2]))
    link = "" if target is None else f'<a class="absent" href="{escape(target)}">{escape(target)}</a>'
    return link + frame[0]


# While cleaning ------------------------------------------------------------------------------------------------------


def _attribute(clean: Clean, tag: str, name: str, value: str, *, ids: bool) -> str | None:
    """What an allowed attribute says in the end; None where it goes."""
    value = _MARKS.sub("", value)
    if name == "style":
        return _style(clean, value) or None
    if name == "href":
        return safe_link(value)
    if name == "src":
        if _DATA_PICTURE.fullmatch(value):
            return value
        clean.dropped.add("img")
        return f"{_ABSENT}:{safe_link(value) or ''}"
    goes = (name == "class" and not _CLASS.fullmatch(value)) or (name == "tabindex" and value != "0")
    return None if goes or (name in {"id", "for"} and not ids) else value


def _style(clean: Clean, style: str) -> str:
    kept: list[str] = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if _PROPERTIES.fullmatch(name.lower()) and value and not _LOADING.search(value):
            kept.append(f"{name}: {value}")
    declared = "; ".join(kept)
    clean.coloured |= bool(_COLOURED.search(declared))
    return declared


# After the cleaning: every value is in quotes, and every < of a text or value is escaped.


def _placed(tag: str, attributes: StyleAttributes, sheet: dict[str, int]) -> str:
    """A tag with its style where that belongs; nothing of an input that is no box to tick."""
    if tag.startswith("<input") and not _BOX.search(tag):
        return ""
    if tag.startswith("<img") and ' src="data:' not in tag:
        return _link_to_picture(dict(_VALUES.findall(tag)))

    def placed(match: re.Match[str]) -> str:
        style = unescape(match[1])
        if attributes == "none" or "{" in style or "}" in style:
            return ""
        return f' data-style="{sheet.setdefault(style, len(sheet))}"'

    return tag if attributes == "inline" else _STYLE.sub(placed, tag)


def _link_to_picture(found: dict[str, str]) -> str:
    words, target = found.get("alt") or "a picture", found.get("src", "").removeprefix(f"{_ABSENT}:")
    if not target:
        return f'<span class="absent">[{words}]</span>'
    return f'<a class="absent" rel="noopener noreferrer" href="{target}">[{words}]</a>'


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
