"""A notebook as one HTML page that needs nothing else: no network, nobody's script, legible in any light.

nbconvert lays it out with our template (``templates/cellwright``); the pieces come from the modules beside. What
outputs hold is written anew (``sanitize``), formulas become MathML (``prose``), code is coloured in each cell's own
language.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from cellwright.charts.html_embed import page_script
from cellwright.errors import ChartError
from cellwright.formats.certificates import cell_standing, notebook_notes, proof_of
from cellwright.formats.display_data import (
    attached_pictures,
    exhibits_of,
    sound,
)
from cellwright.formats.exhibits import ExhibitWriter
from cellwright.formats.highlight import code_html
from cellwright.formats.model import Writing, Written
from cellwright.formats.prose import Heading, ProseWriter
from cellwright.notebook import Cell, Document
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
    writer = _CellWriter(document.language, document.metadata, include_outputs=include_outputs)
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
