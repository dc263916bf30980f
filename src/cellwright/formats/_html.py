"""A notebook as one HTML page that needs nothing else: no network, nobody's script, legible in any light.

nbconvert lays it out with our template (``templates/cellwright``); the pieces come from the modules beside. What
outputs hold is written anew (``sanitize``), formulas become MathML (``prose``), code is coloured in each cell's own
language.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from cellwright.charts.html_embed import page_script, placeholder
from cellwright.charts.specguard import check_spec
from cellwright.errors import ChartError
from cellwright.formats.certificates import cell_standing, notebook_notes, proof_of
from cellwright.formats.display_data import (
    PICTURES,
    SVG,
    VEGA,
    Exhibit,
    attached_pictures,
    bare_text,
    cut_text,
    exhibits_of,
    picture_bytes,
    sound,
    svg_text,
)
from cellwright.formats.highlight import ansi_html, code_html
from cellwright.formats.markup import MAX_CHARACTERS
from cellwright.formats.model import Writing, Written
from cellwright.formats.prose import Heading, ProseWriter, bare_latex, formula_html
from cellwright.formats.sanitize import Clean, clean_fragment
from cellwright.notebook import Cell, Document
from cellwright.notebook.languages import notebook_language
from cellwright.notebook.widgets import with_widgets_as_text

__all__ = ["Page", "to_html", "write_html"]
_TEMPLATES = Path(__file__).parent / "templates"

_TITLE_LEVEL = 1

_CONTENTS_LEVEL = 3

_NO_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Page:
    """A page's text, and what is not in it as it is in the notebook."""

    text: str
    notices: tuple[str, ...]


def to_html(document: Document, *, name: str, include_outputs: bool = True) -> Page:
    """A notebook as an HTML page; ``name`` is its title where it has none of its own.

    Raises:
        ImportError: a library of the extra ``export`` is not installed.
    """
    writer = _CellWriter(notebook_language(document), document.metadata, include_outputs=include_outputs)
    cells = [
        writer.cell(cell, record.fields.get("attachments"), place)
        for place, (cell, record) in enumerate(zip(document.cells, document.records, strict=True), 1)
    ]
    headings = writer.prose.headings
    title = next((one.text for one in headings if one.level == _TITLE_LEVEL and one.text), "")
    about = {
        "title": title or sound(name),
        "name": sound(name),
        "titled": bool(title),
        "notes": notebook_notes(document),
        "proof": proof_of(document),
        "language": writer.language,
        "contents": _contents(headings),
        **_drawing(writer.exhibits),
        "style": (_TEMPLATES / "cellwright" / "style.css").read_text(),
    }
    # Only now: the script may have something to say.
    notices = dict.fromkeys([*writer.prose.notices, *writer.exhibits.notices])
    return Page(_laid_out(cells, about), tuple(notices))


def write_html(document: Document, writing: Writing) -> Written:
    """The format ``html``."""
    page = to_html(document, name=writing.name)
    return Written(page.text.encode(), page.notices)


def _drawing(exhibits: ExhibitWriter) -> dict[str, str]:
    """The script that draws the page's charts, and what the page's policy says about it: this one and no other."""
    if not exhibits.has_charts:
        return {"script": "", "script_source": ""}
    try:
        script = page_script().replace("\r", "")
    except ChartError as error:
        exhibits.notices.append(f"Charts are shown as pictures: {error}")
        return {"script": "", "script_source": ""}
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": script, "script_source": f" script-src 'sha256-{digest}';"}


def _contents(headings: list[Heading]) -> list[Heading]:
    """What a table of contents lists: none of the small headings, and nothing where there is only one."""
    listed = [one for one in headings if one.level <= _CONTENTS_LEVEL and one.text]
    return listed if len(listed) > 1 else []


def _laid_out(cells: list[dict[str, Any]], about: dict[str, Any]) -> str:
    exporter, from_dict = _exporter()
    notebook = from_dict({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    text, _ = exporter.from_notebook_node(notebook, resources={"page": about})
    return str(text)


@functools.cache
def _exporter() -> tuple[Any, Any]:
    """nbconvert's exporter with our template, and what makes the notebooks that it takes."""
    # Not its HTMLExporter, which parses the finished page and writes it again: seconds for a large one.
    from nbconvert.exporters import TemplateExporter  # an extra
    from nbformat import from_dict  # with it

    exporter = TemplateExporter(  # type: ignore[no-untyped-call]  # nbconvert has no types
        template_name="cellwright", extra_template_basedirs=[str(_TEMPLATES)], file_extension=".html"
    )
    exporter.default_preprocessors = []
    return exporter, from_dict


class _CellWriter:
    """Cells as the template gets them: sound whatever the file held, with their HTML beside them."""

    def __init__(self, language: str, metadata: Mapping[str, Any], *, include_outputs: bool) -> None:
        self.language = language
        self._metadata = metadata
        self.prose = ProseWriter(code_html)
        self.exhibits = ExhibitWriter(self.prose)
        self._include_outputs = include_outputs

    def cell(self, cell: Cell, attachments: Any, place: int) -> dict[str, Any]:
        anchor = self.prose.anchor(f"cell-{_NO_ID.sub('-', cell.id) or place}")
        if cell.kind != "code":
            source = sound(cell.source)
            html = (
                self.prose.html(source, attached_pictures(attachments))
                if cell.kind == "markdown"
                else escape(source)
            )
            return _node(cell.kind, place, {"anchor": anchor, "html": html})
        standing = cell_standing(cell, self.language)
        called = f"Cell [{cell.execution_count}]" if cell.execution_count else f"Cell {place}"
        outputs = (
            exhibits_of(with_widgets_as_text(cell.outputs, self._metadata)) if self._include_outputs else []
        )
        about = {
            "anchor": anchor,
            "html": code_html(sound(cell.source), standing.language),
            "number": standing.number,
            "notes": [{"tone": note.tone, "text": note.text} for note in standing.notes],
            "language": standing.language if standing.other_language else "",
        }
        shown = [html for one in outputs if (html := self.exhibits.html(one, cell=called))]
        return _node("code", place, about) | {
            "execution_count": None,
            "outputs": [
                {"output_type": "display_data", "data": {"text/html": html}, "metadata": {}} for html in shown
            ],
        }


def _node(kind: str, place: int, about: dict[str, Any]) -> dict[str, Any]:
    """A cell as nbconvert accepts it. What the template shows of it is in its metadata."""
    return {"cell_type": kind, "id": f"cell-{place}", "source": "", "metadata": {"page": about}}


# Outputs as HTML: one form of each, the fullest that a page can show without running anybody's script.

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
