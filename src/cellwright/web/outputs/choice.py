"""Which form of an output the page shows: the fullest that runs nobody's script. Pure, and without reading what is large."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright.formats.display_data import PICTURES, SVG, VEGA, picture_bytes, svg_text
from cellwright.formats.markup import MAX_CHARACTERS

__all__ = ["Chosen", "Form", "choose", "content", "digest", "forms_of", "text_content"]

Form: TypeAlias = Literal[
    "text", "error", "chart", "table", "frame", "picture", "markdown", "latex", "json", "unknown"
]
_WORDS: dict[str, Form] = {
    "text/markdown": "markdown",
    "text/latex": "latex",
    "application/json": "json",
    "text/plain": "text",
}
_MAX_WORDS = 20_000
_SCRIPT = re.compile(r"<script\b", re.IGNORECASE)
_FRAME = re.compile(r"<table\b[^>]*class=[\"'][^\"'>]*dataframe", re.IGNORECASE)
_MAGIC_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Chosen:
    """A form, the type that it is made of, and whether HTML was passed over because only a script would show it."""

    form: Form
    mime: str = ""
    scripted: bool = False


def choose(output: Mapping[str, Any]) -> Chosen | None:
    """How an output is shown; None where there is nothing to show."""
    kind = output.get("output_type")
    if kind == "stream":
        return Chosen("text", "stream")
    if kind == "error":
        return Chosen("error", "traceback")
    forms = forms_of(output)
    if not forms:
        return None
    html = content(forms.get("text/html"))
    scripted = bool(_SCRIPT.search(html))
    chart = next((mime for mime in forms if VEGA.fullmatch(mime)), None)
    if chart is not None:
        return Chosen("chart", chart)
    if html.strip() and not scripted and len(html) <= MAX_CHARACTERS:
        return Chosen("table" if _is_table(html) else "frame", "text/html")
    return _without_html(forms, scripted=scripted)


def forms_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """The types that a display or a result has."""
    data = output.get("data")
    held = data.items() if isinstance(data, Mapping) else ()
    return {str(mime): value for mime, value in held if value is not None}


def content(value: Any) -> str:
    """A type's content as text; JSON as its text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def text_content(output: Mapping[str, Any]) -> str:
    """What an output says as text: a stream, a traceback, or the plain form, and the source of HTML where there is no other."""
    kind = output.get("output_type")
    if kind == "stream":
        return content(output.get("text"))
    if kind == "error":
        lines = output.get("traceback")
        told = "\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ""
        return told or f"{content(output.get('ename'))}: {content(output.get('evalue'))}"
    forms = forms_of(output)
    wanted = [*_WORDS, "text/html"] if "text/plain" not in forms else ["text/plain"]
    return content(next((forms[mime] for mime in wanted if mime in forms), next(iter(forms.values()), "")))


def digest(output: Mapping[str, Any]) -> str:
    """A name for what an output holds: another content has another."""
    made = hashlib.blake2b(digest_size=8)
    for name in ("output_type", "text", "traceback", "evalue", "metadata"):
        made.update(content(output.get(name)).encode(errors="replace"))
    for mime, value in forms_of(output).items():
        made.update(f"\0{mime}\0{content(value)}".encode(errors="replace"))
    return made.hexdigest()


def _is_table(html: str) -> bool:
    return html.count("<table") == 1 and _FRAME.search(html) is not None and "</table" in html


def _without_html(forms: dict[str, Any], *, scripted: bool) -> Chosen:
    if svg_text(content(forms.get(SVG))) is not None:
        return Chosen("picture", SVG, scripted)
    for mime in PICTURES:
        if picture_bytes(mime, content(forms.get(mime)).strip()[:_MAGIC_CHARACTERS]) is not None:
            return Chosen("picture", mime, scripted)
    for mime, form in _WORDS.items():
        if (said := content(forms.get(mime))).strip():
            return Chosen(form if len(said) <= _MAX_WORDS else "text", mime, scripted)
    if "text/html" in forms and not scripted:
        return Chosen("text", "text/html")
    return Chosen("unknown", next(iter(forms)), scripted)
