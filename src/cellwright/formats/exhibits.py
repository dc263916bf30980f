"""Outputs as HTML for a page that is not ours: one form of each, the fullest that runs nobody's script.

What outputs hold is written anew (``sanitize``); charts become places that a script draws into (``charts.html_embed``).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from cellwright.charts.html_embed import placeholder
from cellwright.charts.specguard import check_spec
from cellwright.errors import ChartError
from cellwright.formats.display_data import (
    PICTURES,
    SVG,
    VEGA,
    Exhibit,
    bare_text,
    cut_text,
    picture_bytes,
    svg_text,
)
from cellwright.formats.highlight import ansi_html, code_html
from cellwright.formats.markup import MAX_CHARACTERS
from cellwright.formats.prose import ProseWriter, bare_latex, formula_html
from cellwright.formats.sanitize import Clean, clean_fragment

__all__ = ["ExhibitWriter"]

_TEXT_CHARACTERS = 400_000

_TEXT_LINES = 4_000

# A style sheet of an output cannot see the page's: what tables and links look like is told again.
_SHADOW_STYLE = (
    ":host{display:block}table{border-collapse:collapse;font-size:.875em}th,td{padding:.25em .7em;text-align:right}"
    "img{max-width:100%;height:auto}a{color:inherit}"
)


@dataclass(slots=True)
class ExhibitWriter:
    """Writes the outputs of one page, and keeps what had to be left out."""

    prose: ProseWriter
    notices: list[str] = field(default_factory=list)
    has_charts: bool = False
    """Whether the page needs the script that draws them."""
    _cell: str = ""

    def html(self, exhibit: Exhibit, *, cell: str) -> str:
        """One output; ``cell`` is what notices call the cell that it is of."""
        self._cell = cell
        if exhibit.kind in {"stdout", "stderr"}:
            return f'<pre class="stream {exhibit.kind}">{self._text(exhibit.text)}</pre>'
        if exhibit.kind == "error":
            return f'<pre class="error" role="note" aria-label="Error">{self._text(exhibit.text)}</pre>'
        for write in (self._chart, self._html, self._svg, self._picture, self._words):
            if (written := write(exhibit)) is not None:
                return written
        return ""

    def _note(self, what: str) -> None:
        self.notices.append(f"{self._cell}: {what}")

    def _text(self, text: str) -> str:
        head, left_out, tail = cut_text(text, characters=_TEXT_CHARACTERS, lines=_TEXT_LINES)
        if not left_out:
            return ansi_html(text)
        self._note(left_out.strip("… ").removesuffix(" here"))
        return f'{ansi_html(head)}\n<span class="absent">{escape(left_out)}</span>\n{ansi_html(tail)}'

    def _chart(self, exhibit: Exhibit) -> str | None:
        """A chart that the page's script draws, with its picture in its place until then, and where there is none."""
        source = next((form for mime, form in (exhibit.forms or {}).items() if VEGA.fullmatch(mime)), None)
        if source is None:
            return None
        still = self._picture(exhibit) or self._svg(exhibit)
        try:
            spec = json.loads(source)
            check_spec(spec)
        except (ValueError, AttributeError, RecursionError, ChartError) as error:
            reason = error.message if isinstance(error, ChartError) else "it is no specification"
            self._note(f"a chart is not drawn anew in the page: {reason}")
            return still
        self.has_charts = True
        return placeholder(spec, still=still or self._words(exhibit) or "")

    def _html(self, exhibit: Exhibit) -> str | None:
        source = (exhibit.forms or {}).get("text/html")
        if source is None:
            return None
        if len(source) > MAX_CHARACTERS:
            self._note(f"HTML of {len(source):,} characters is shown as text")
            return None
        clean = clean_fragment(source, keep_styles=True)
        if unshown := clean.dropped:
            self._note(f"HTML with {', '.join(sorted(unshown))}, which a page cannot hold, is shown without")
        return _boxed(clean) if clean.visible else None

    def _svg(self, exhibit: Exhibit) -> str | None:
        source = (exhibit.forms or {}).get(SVG)
        picture = svg_text(source) if source is not None else None
        if picture is None:
            if source is not None:
                self._note("an SVG picture cannot be read")
            return None
        encoded = base64.b64encode(picture.encode(errors="replace")).decode()
        return self._image(exhibit, SVG, encoded)

    def _picture(self, exhibit: Exhibit) -> str | None:
        for mime in PICTURES:
            if (content := (exhibit.forms or {}).get(mime)) is None:
                continue
            data = picture_bytes(mime, content)
            if data is not None:
                return self._image(exhibit, mime, base64.b64encode(data).decode())
            self._note("a picture cannot be read")
        return None

    def _image(self, exhibit: Exhibit, mime: str, encoded: str) -> str:
        words = exhibit.description or f"Picture put out by {self._cell[0].lower()}{self._cell[1:]}"
        return f'<img alt="{escape(words)}" src="data:{mime};base64,{encoded}">'

    def _words(self, exhibit: Exhibit) -> str | None:
        """A form that is text."""
        forms = exhibit.forms or {}
        writers: dict[str, Callable[[str], str]] = {
            "text/markdown": lambda text: f'<div class="prose">{self.prose.html(text, {})}</div>',
            "text/latex": lambda text: formula_html(bare_latex(text), display=True),
            "application/json": lambda text: f'<pre class="text">{code_html(_indented(text), "json")}</pre>',
            "text/plain": lambda text: f'<pre class="text">{self._text(text)}</pre>',
            "text/html": lambda text: f'<pre class="text">{self._text(text[:MAX_CHARACTERS])}</pre>',
        }
        for mime, write in writers.items():
            if forms.get(mime, "").strip() and (mime == "text/plain" or len(forms[mime]) <= _TEXT_CHARACTERS):
                return write(forms[mime])
        if forms and not any(mime in forms for mime in (*PICTURES, SVG)):
            self._note(f"an output of the type {next(iter(forms))} cannot be shown")
        return None if not forms else '<p class="absent">[an output that cannot be shown]</p>'


def _boxed(clean: Clean) -> str:
    """Cleaned HTML in a box that it cannot leave; with style sheets of its own, in one that they cannot leave either."""
    light = " paper" if clean.coloured else ""
    if not clean.styles:
        return f'<div class="markup{light}" tabindex="0">{clean.html}</div>'
    styles = "".join(f"<style>{css}</style>" for css in (_SHADOW_STYLE, *clean.styles))
    # Where a browser knows no shadow roots written down in HTML, the template is passed over and nothing is shown:
    # all that are in use do.
    return (
        f'<div class="markup{light}" tabindex="0"><div class="shut">'
        f'<template shadowrootmode="open">{styles}{clean.html}</template></div></div>'
    )


def _indented(text: str) -> str:
    try:
        return bare_text(json.dumps(json.loads(text), ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return bare_text(text)
