"""Outputs as the page shows them."""

from __future__ import annotations

from html import escape

from markupsafe import Markup

from cellwright.formats.exhibits import bare_text, cut_text, exhibits_of
from cellwright.notebook import Cell

__all__ = ["outputs_html"]


def outputs_html(session_id: str, cell: Cell) -> Markup:
    """The outputs of a cell, each in the fullest form that the page can show."""
    del session_id
    shown = []
    for exhibit in exhibits_of(cell.outputs):
        head, left_out, tail = cut_text(bare_text(exhibit.plain), characters=40_000, lines=400)
        shown.append(f'<pre class="{exhibit.kind}">{escape(head)}\n{escape(left_out)}\n{escape(tail)}</pre>')
    return Markup("".join(shown))  # noqa: S704  # escaped above
