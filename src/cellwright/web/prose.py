"""Markdown of a model as a part of the page. Pure.

What it may hold was decided by ``formats``; here it is made to fit in: its headings below those of the page, its names
of places apart from everybody else's, and no styles, which the page's policy has no room for.
"""

from __future__ import annotations

import functools
import re

from markupsafe import Markup

from cellwright.formats.highlight import code_html
from cellwright.formats.prose import ProseWriter

__all__ = ["coloured", "prose_html"]

# The writer escapes what stands in texts and attributes, so that a tag is found by its marks.
_HEADING = re.compile(r"<h[1-6]\b|</h[1-6]>")
_ANCHOR = re.compile(r'<a class="anchor" [^>]*>#</a>')
_SCROLLED = re.compile(r'<div class="wide" tabindex="0">')


@functools.lru_cache(maxsize=256)
def prose_html(text: str, place: str) -> Markup:
    """A text as HTML; ``place`` is a name that nothing else on the page has."""
    html = ProseWriter(code_html, prefix=f"{place}-", styles="none").html(text, {})
    html = _HEADING.sub(lambda tag: "</h3>" if tag[0].startswith("</") else "<h3", html)
    html = _ANCHOR.sub("", html)
    html = _SCROLLED.sub('<div class="wide" tabindex="0" role="region" aria-label="Table">', html)
    return Markup(html)  # noqa: S704  # written by ``formats``, which lets nothing through


@functools.lru_cache(maxsize=512)
def coloured(code: str, language: str = "python") -> Markup:
    """Code as HTML. Kept, as a page that is live shows the same again and again."""
    return Markup(code_html(code, language))  # noqa: S704  # pygments escapes
