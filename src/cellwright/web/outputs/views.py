"""Outputs as HTML for the page: what is small is there at once, what is large is loaded when somebody sees it.

Which form is shown is decided in ``choice``. What was made is kept by what it was made of, so that a page of a hundred cells is made
of pieces that exist already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cellwright.formats.display_data import bare_text, exhibits_of
from cellwright.formats.highlight import code_html
from cellwright.formats.mathml import bare_latex, formula_html
from cellwright.formats.prose import ProseWriter
from cellwright.web.outputs.choice import Chosen, choose, content, digest, forms_of, text_content
from cellwright.web.outputs.frames import frame_height
from cellwright.web.outputs.texts import ending, folded
from cellwright.web.templates import render

__all__ = ["Outputs"]

_KEPT_CHARACTERS = 16_000_000


class Outputs:
    """Makes outputs into HTML, and keeps what it made while there is room."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str], Markup] = {}
        self._characters = 0

    def html(self, at: str, outputs: Sequence[Mapping[str, Any]], *, growing: bool) -> Markup:
        """The outputs of the cell at an address, in order; of one that still runs, texts end at what is newest."""
        shown = [self._one(at, number, output, growing=growing) for number, output in enumerate(outputs)]
        return Markup().join(shown)

    def _one(self, at: str, number: int, output: Mapping[str, Any], *, growing: bool) -> Markup:
        if growing and output.get("output_type") == "stream":
            return _written("output_text.html", at, number, output, text=ending(text_content(output)))
        key = at, number, digest(output)
        if key not in self._kept:
            made = _made(at, number, output, key[2])
            if self._characters + len(made) > _KEPT_CHARACTERS:
                self._kept.clear()
                self._characters = 0
            self._characters += len(made)
            self._kept[key] = made
        return self._kept[key]


def _made(at: str, number: int, output: Mapping[str, Any], of: str) -> Markup:
    chosen = choose(output)
    if chosen is None:
        return Markup()
    template, values = _shown(at, number, output, chosen)
    return _written(template, at, number, output, of=of, chosen=chosen, **values)


def _shown(at: str, number: int, output: Mapping[str, Any], chosen: Chosen) -> tuple[str, dict[str, Any]]:
    """The template that shows a form, and what it needs."""
    match chosen.form:
        case "text" | "error":
            return "output_text.html", {"text": folded(text_content(output))}
        case "picture":
            return "output_picture.html", {
                "words": _described(output) or f"Picture {number + 1} of this cell"
            }
        case "frame":
            return "output_frame.html", {"height": frame_height(content(forms_of(output)["text/html"]))}
        case "markdown" | "latex" | "json":
            prefix = f"{at.rpartition('/')[2]}-{number}-"
            return "output_words.html", {
                "body": _words(chosen, content(forms_of(output)[chosen.mime]), prefix)
            }
        case "table" | "chart":
            return "output_loaded.html", {}
        case "unknown":
            return "output_unknown.html", {}


def _written(template: str, at: str, number: int, output: Mapping[str, Any], **values: Any) -> Markup:
    about = {"of": "", "chosen": Chosen("text", "stream")} | values
    name = "stderr" if output.get("name") == "stderr" else output.get("output_type")
    cell = at.rpartition("/")[2]
    made = render(template, at=f"{at}/outputs/{number}", n=number, cell_id=cell, name=name, **about)
    return Markup(made)  # noqa: S704  # a template escapes


def _words(chosen: Chosen, text: str, prefix: str) -> Markup:
    """A text that means more than its letters, by what makes such texts safe."""
    if chosen.form == "markdown":
        made = ProseWriter(code_html, prefix=prefix, styles="none").html(text, {})
    elif chosen.form == "latex":
        made = formula_html(bare_latex(text), display=True)
    else:
        made = f'<pre class="code">{code_html(_indented(text), "json")}</pre>'
    return Markup(made)  # noqa: S704  # each of them escapes or cleans


def _described(output: Mapping[str, Any]) -> str:
    """What a picture shows, in words, where the output says it."""
    plain = {mime: held for mime, held in forms_of(output).items() if mime == "text/plain"}
    return next((one.description for one in exhibits_of([{**output, "data": plain}])), "")


def _indented(text: str) -> str:
    try:
        return bare_text(json.dumps(json.loads(text), ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return bare_text(text)
