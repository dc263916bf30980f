r"""Markdown of text cells as a tree of tokens, formulas included. Pure; whoever prints it walks the tree.

The tree is mistune's: ``{"type", "children" or "raw", "attrs"}``. Formulas are ``inline_math`` and ``block_math``, in
all the ways that notebooks write them: dollars, ``\(…\)``, ``\[…\]``, and bare environments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any, TypeAlias

from cellwright.formats.sanitize import StyleAttributes, clean_fragment, safe_link

__all__ = [
    "Heading",
    "ProseWriter",
    "Token",
    "bare_latex",
    "formula_html",
    "parse_prose",
    "readable_latex",
    "text_of",
]

Token: TypeAlias = Mapping[str, Any]

_ENVIRONMENT = (
    r"\\begin\{(?P<environment>equation\*?|align\*?|gather\*?|multline\*?|eqnarray\*?|displaymath|math)\}"
    r"[\s\S]{0,20000}?\\end\{(?P=environment)\}"
)

_BLOCK = (
    r"^ {0,3}\$\$(?P<dollars>(?:[^$\\]|\\[\s\S]|\$(?!\$)){1,20000}?)\$\$[ \t]*(?:\n|$)"
    r"|^ {0,3}\\\\?\[(?P<brackets>[^\n]{0,20000}?(?:\n[^\n]+?){0,200}?)\\\\?\][ \t]*(?:\n|$)"
    rf"|^ {{0,3}}(?P<bare>{_ENVIRONMENT})[ \t]*(?:\n|$)"
)

_INLINE = (
    r"\$\$(?P<inline_dollars>(?:[^$\\]|\\[\s\S]){1,20000}?)\$\$"
    r"|\$(?!\s|\$)(?P<dollar>(?:[^$\\\n]|\\.|\n(?!\n)){1,5000}?)(?<!\s)\$(?!\d)"
    r"|\\\\?\((?P<parentheses>[^\n]{1,5000}?)\\\\?\)"
)


def parse_prose(source: str) -> list[Token]:
    """The tokens of a Markdown text."""
    tokens, _ = _parser().parse(source)
    return tokens if isinstance(tokens, list) else []


def text_of(tokens: Iterable[Token]) -> str:
    """The text of tokens, without any form."""
    return "".join(_texts(tokens))


def _texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if "children" in token:
            yield from _texts(token["children"])
        elif token["type"] in {"softbreak", "linebreak"}:
            yield " "
        elif token["type"] not in {"inline_html", "footnote_ref"}:
            yield str(token.get("raw", ""))


@functools.cache
def _parser() -> Any:
    import mistune  # an extra

    plugins: list[Any] = ["table", "strikethrough", "task_lists", "footnotes", "url", _formulas]
    parser = mistune.create_markdown(renderer=None, plugins=plugins)
    # Lists and quotes within each other; what is deeper is text. Whoever walks the tree may rely on it.
    parser.block.max_nested_level = 12
    return parser


def _formulas(markdown: Any) -> None:
    """mistune's plugin for formulas."""
    markdown.block.register("block_math", _BLOCK, _taken("block_math"), before="list")
    markdown.inline.register("inline_math", _INLINE, _taken("inline_math"), before="escape")
    for rules in (markdown.block.block_quote_rules, markdown.block.list_rules):
        markdown.block.insert_rule(rules, "block_math", before="list")


def _taken(kind: str) -> Callable[[Any, re.Match[str], Any], int]:
    def parse(_parser: Any, match: re.Match[str], state: Any) -> int:
        groups = match.groupdict()
        names = ("dollars", "brackets", "bare", "inline_dollars", "dollar", "parentheses")
        raw = next(text for name in names if (text := groups.get(name)) is not None)
        display = kind == "block_math" or groups.get("inline_dollars") is not None
        state.append_token({"type": "block_math" if display else kind, "raw": raw.strip()})
        return match.end()

    return parse


# Markdown's tokens as HTML. Raw HTML among them is cleaned with the text around it, so that tags may span
# tokens.

_HELD = re.compile("\ufdd0(\\d+)\ufdd1")

_SWALLOWING = re.compile(
    r"<(?:script|style|template|textarea|title|xmp|iframe|noscript|noembed|noframes|select|object|plaintext|svg|math)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str
    anchor: str


@dataclass(slots=True)
class ProseWriter:
    """Writes text cells of one page, and keeps what the page must know of them."""

    highlight: Callable[[str, str], str]
    """Code and the name of its language as HTML."""
    headings: list[Heading] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    prefix: str = ""
    """What begins the name of every place, where others are in the same page."""
    styles: StyleAttributes = "inline"
    """What becomes of the styles of raw HTML."""
    _notes: int = 0

    def html(self, source: str, pictures: Mapping[str, str]) -> str:
        """A text as HTML; ``pictures`` are links by the name that an attachment has."""
        self._notes += 1
        walk = _Walk(self, pictures, f"{self.prefix}note-{self._notes}-")
        written = walk.blocks(parse_prose(source.replace("\ufdd0", "").replace("\ufdd1", "")))
        clean = clean_fragment(written, attributes=self.styles)
        if unshown := clean.dropped - {"img"}:
            self.notices.append(f"A text cell's {', '.join(sorted(unshown))} is not shown")
        return walk.released(clean.html)

    def anchor(self, text: str) -> str:
        """A place's name that nothing else in the page has."""
        base = self.prefix + slug_of(text)
        anchor, number = base, 1
        while anchor in self.anchors:
            number += 1
            anchor = f"{base}-{number}"
        self.anchors.add(anchor)
        return anchor


def slug_of(text: str) -> str:
    """A heading's words as forges make anchors of them."""
    return re.sub(r"[^\w-]+", "-", text.lower()).strip("-")[:80] or "section"


class _Walk:
    """One text. What is written here and must not be cleaned again is held back, and a mark stands in its place."""

    def __init__(self, writer: ProseWriter, pictures: Mapping[str, str], notes: str) -> None:
        self._writer = writer
        self._pictures = pictures
        self._notes = notes
        self.held: list[str] = []

    def _hold(self, html: str) -> str:
        self.held.append(html)
        return f"\ufdd0{len(self.held) - 1}\ufdd1"

    def released(self, html: str) -> str:
        return _HELD.sub(lambda match: self.held[int(match[1])], html)

    def _inside(self, token: Token) -> str:
        return self.blocks(token.get("children") or ())

    def blocks(self, tokens: Iterable[Token]) -> str:
        return "".join(self._one(token) for token in tokens)

    def _one(self, token: Token) -> str:
        kind = token["type"]
        if kind in _WRAPPED:
            tag = _WRAPPED[kind]
            return f"<{tag}>{self._inside(token)}</{tag}>"
        if kind in _SPECIAL:
            return _SPECIAL[kind](self, token)
        if "children" in token:
            return self._inside(token)
        return escape(str(token.get("raw", "")), quote=False)

    def paragraph(self, token: Token) -> str:
        return f'<p dir="auto">{self._inside(token)}</p>\n'

    def heading(self, token: Token) -> str:
        level = min(max(int(token["attrs"]["level"]), 1), 6)
        text = text_of(token["children"]).strip()
        anchor = self._writer.anchor(text)
        self._writer.headings.append(Heading(level, text, anchor))
        # Cleaned apart, so that what is held back is whole: a tag left open inside ends with the heading.
        inside = self.released(clean_fragment(self._inside(token), attributes=self._writer.styles).html)
        return self._hold(
            f'<h{level} id="{escape(anchor)}" dir="auto">{inside}'
            f'<a class="anchor" href="#{escape(anchor)}" aria-label="Link to this section">#</a></h{level}>\n'
        )

    def listing(self, token: Token) -> str:
        attributes = token.get("attrs") or {}
        tag = "ol" if attributes.get("ordered") else "ul"
        start = attributes.get("start")
        first = f' start="{int(start)}"' if isinstance(start, int) and start != 1 else ""
        return f"<{tag}{first}>{self._inside(token)}</{tag}>\n"

    def item(self, token: Token) -> str:
        return f'<li dir="auto">{self._inside(token)}</li>\n'

    def task(self, token: Token) -> str:
        done = bool((token.get("attrs") or {}).get("checked"))
        box = self._hold(
            f'<input type="checkbox" disabled{" checked" if done else ""} aria-label="{"done" if done else "to do"}"> '
        )
        return f'<li class="task" dir="auto">{box}{self._inside(token)}</li>\n'

    def code(self, token: Token) -> str:
        words = str((token.get("attrs") or {}).get("info") or "").split()
        language = words[0].strip("{}") if words else ""
        code = self._writer.highlight(str(token.get("raw", "")).rstrip("\n"), language)
        return self._hold(f'<pre class="code"><code>{code}</code></pre>\n')

    def formula(self, token: Token) -> str:
        return self._hold(formula_html(str(token.get("raw", "")), display=token["type"] == "block_math"))

    def link(self, token: Token) -> str:
        target = safe_link(str(token["attrs"].get("url", "")))
        inside = self._inside(token)
        return f'<a href="{escape(target)}">{inside}</a>' if target is not None else inside

    def image(self, token: Token) -> str:
        url, words = str(token["attrs"].get("url", "")), text_of(token.get("children") or ())
        held = self._pictures.get(url.removeprefix("attachment:")) if url.startswith("attachment:") else None
        if held is not None:
            return self._hold(f'<img alt="{escape(words)}" src="{escape(held)}">')
        if not url.startswith("data:"):
            self._writer.notices.append(
                f"The picture {url[:120]} is not part of the notebook, and not of the page"
            )
        return f'<img alt="{escape(words)}" src="{escape(url)}">'

    def table(self, token: Token) -> str:
        return f'<div class="wide" tabindex="0"><table>{self._inside(token)}</table></div>\n'

    def table_head(self, token: Token) -> str:
        return f"<thead><tr>{self._inside(token)}</tr></thead>"

    def table_cell(self, token: Token) -> str:
        attributes = token.get("attrs") or {}
        tag = "th" if attributes.get("head") else "td"
        align = f' class="align-{attributes["align"]}"' if attributes.get("align") else ""
        return f"<{tag}{align}>{self._inside(token)}</{tag}>"

    def footnote_ref(self, token: Token) -> str:
        number = int(token["attrs"]["index"])
        place = f"{self._notes}{number}"
        return self._hold(f'<sup><a href="#{place}" aria-label="Note {number}">{number}</a></sup>')

    def footnotes(self, token: Token) -> str:
        return f'<section class="notes" aria-label="Notes"><ol>{self._inside(token)}</ol></section>\n'

    def footnote(self, token: Token) -> str:
        number = int(token["attrs"]["index"])
        place = self._hold(f'<span id="{self._notes}{number}"></span>')
        return f"<li>{place}{self._inside(token)}</li>"

    def raw(self, token: Token) -> str:
        raw = str(token.get("raw", ""))
        # Alone, such a tag would swallow all the text that follows.
        alone = token["type"] == "inline_html" and _SWALLOWING.match(raw)
        return escape(raw) if alone else raw


_WRAPPED = {
    "strong": "strong",
    "emphasis": "em",
    "strikethrough": "del",
    "block_quote": "blockquote",
    "table_body": "tbody",
    "table_row": "tr",
}

_SPECIAL: Mapping[str, Callable[[_Walk, Token], str]] = {
    "paragraph": _Walk.paragraph,
    "heading": _Walk.heading,
    "list": _Walk.listing,
    "list_item": _Walk.item,
    "task_list_item": _Walk.task,
    "block_code": _Walk.code,
    "inline_math": _Walk.formula,
    "block_math": _Walk.formula,
    "link": _Walk.link,
    "image": _Walk.image,
    "table": _Walk.table,
    "table_head": _Walk.table_head,
    "table_cell": _Walk.table_cell,
    "footnote_ref": _Walk.footnote_ref,
    "footnotes": _Walk.footnotes,
    "footnote_item": _Walk.footnote,
    "inline_html": _Walk.raw,
    "block_html": _Walk.raw,
    "codespan": lambda _walk, token: f"<code>{escape(str(token['raw']), quote=False)}</code>",
    "softbreak": lambda _walk, _token: "\n",
    "linebreak": lambda _walk, _token: "<br>\n",
    "thematic_break": lambda _walk, _token: "<hr>\n",
    "blank_line": lambda _walk, _token: "",
}


# Formulas in LaTeX as MathML, which browsers draw by themselves. Pure; what cannot be read stays as its
# source.

_MAX_CHARACTERS = 5_000

_TAGS = frozenset({
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "ms", "mfrac", "msqrt", "mroot", "mstyle", "merror", "mpadded",
    "mphantom", "mfenced", "menclose", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts",
    "mprescripts", "none", "mtable", "mtr", "mtd", "mlabeledtr",
})  # fmt: skip

# What the converter makes of a formula that ends too early lacks some.
_CHILDREN = {
    "mfrac": 2,
    "mroot": 2,
    "msub": 2,
    "msup": 2,
    "msubsup": 3,
    "munder": 2,
    "mover": 2,
    "munderover": 3,
}

_ATTRIBUTE = re.compile(r"[a-z]+")

_VALUE = re.compile(r"[\w .%#+-]*")

_UNREAD = re.compile(r"\\[A-Za-z]+")

_OPERATORS = re.compile(r"\\(arg|argmin|argmax|sgn|sign|diag|rank|trace|Var|Cov|softmax)(?![A-Za-z])")

_NUMBERED = re.compile(r"\\(?:label|tag)\*?\{[^{}]*\}|\\(?:nonumber|notag)\b")


def formula_html(latex: str, *, display: bool) -> str:
    """A formula as MathML, or its source where it cannot be read."""
    convert = _converter()
    shown = escape(latex)
    try:
        body = _mathml(convert, readable_latex(latex), display=display)
    except Exception:  # noqa: BLE001  # boundary: the converter fails in many ways, and the source is readable
        body = None
    if body is None:
        return f'<code class="formula"{" data-display" if display else ""}>{shown}</code>'
    return f'<div class="formula">{body}</div>' if display else body


def readable_latex(latex: str) -> str:
    """A formula without what only numbers equations, in words that the converter knows."""
    latex = _NUMBERED.sub("", latex).strip()
    latex = _OPERATORS.sub(r"\\operatorname{\1}", latex)
    for name in ("equation", "displaymath", "math"):
        for star in ("", "*"):
            start, end = f"\\begin{{{name}{star}}}", f"\\end{{{name}{star}}}"
            if latex.startswith(start) and latex.endswith(end):
                return latex[len(start) : -len(end)].strip()
    return latex


@functools.cache
def _converter() -> Any:
    from latex2mathml.converter import convert_to_element  # an extra

    return convert_to_element


def _mathml(convert: Any, latex: str, *, display: bool) -> str | None:
    if not latex or len(latex) > _MAX_CHARACTERS:
        return None
    element = convert(latex, display="block" if display else "inline")
    if any(_UNREAD.search(one.text or "") for one in element.iter() if one.tag != "mtext"):
        return None
    return "".join(_written(element))


def _written(element: Any) -> Iterator[str]:
    """The element as text. The converter's own writer escapes nothing."""
    tag = str(element.tag)
    if tag not in _TAGS or len(element) != _CHILDREN.get(tag, len(element)):
        raise ValueError(f"{tag} is not MathML")
    attributes = "".join(
        f' {name}="{escape(str(value))}"'
        for name, value in element.attrib.items()
        if _ATTRIBUTE.fullmatch(name)
        and name != "xmlns"
        and not name.startswith("on")
        and _VALUE.fullmatch(str(value))
    )
    yield f"<{tag}{attributes}>"
    yield escape(unescape(element.text or ""), quote=False)
    for child in element:
        yield from _written(child)
    yield f"</{tag}>"


# The marks around a formula that an output in LaTeX comes with.

_MARKS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))


def bare_latex(text: str) -> str:
    """The formula alone."""
    text = text.strip()
    for start, end in _MARKS:
        if text.startswith(start) and text.endswith(end) and len(text) > len(start) + len(end):
            return text[len(start) : -len(end)].strip().removeprefix("\\displaystyle").strip()
    return text
