"""A cell's outputs as blocks of Markdown that a forge shows: fences, tables, and links to pictures. Pure.

One form of every output is chosen, the one that says most on such a page. Budgets for agents are not its business.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from cellwright.formats.fences import fenced
from cellwright.formats.htmltables import markdown_table, rows_in
from cellwright.formats.markup import text_of_html
from cellwright.notebook.outputs import clean, names_only_itself

__all__ = ["PlacePicture", "blocks_of"]

PlacePicture: TypeAlias = Callable[[str, bytes], str | None]
"""Takes a picture's file suffix and content; gives the link to it, or none where there is no place for files."""

_PICTURES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
}
_unsafe_alt = re.compile(r"[\[\]\\\r\n]+")
_MAX_ALT = 100


def blocks_of(outputs: Sequence[Mapping[str, Any]], place: PlacePicture) -> list[str]:
    """Every output that can be shown, in order."""
    return [block for output in outputs if (block := _block(output, place))]


def _block(output: Mapping[str, Any], place: PlacePicture) -> str:
    match output.get("output_type"):
        case "stream":
            return _text_block(_joined(output.get("text", "")))
        case "error":
            frames = [str(frame) for frame in output.get("traceback") or ()]
            headline = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
            return _text_block("\n".join(frames) or headline)
        case _:
            data = output.get("data")
            return _shown(data, place) if isinstance(data, Mapping) else ""


def _shown(data: Mapping[str, Any], place: PlacePicture) -> str:
    html, plain = _joined(data.get("text/html", "")), _joined(data.get("text/plain", ""))
    plain = "" if names_only_itself(plain) else plain
    ways: tuple[Callable[[], str], ...] = (
        lambda: _joined(data.get("text/markdown", "")).strip(),
        lambda: markdown_table(rows_in(html)),
        lambda: _picture(data, plain, place),
        lambda: _joined(data.get("text/latex", "")).strip(),
        lambda: _text_block(plain),
        lambda: _text_block(text_of_html(html)),
        lambda: _anything(data),
    )
    return next((block for way in ways if (block := way())), "")


def _anything(data: Mapping[str, Any]) -> str:
    for mime, held in data.items():
        if mime == "application/json" or mime.endswith("+json"):
            return fenced(json.dumps(held, ensure_ascii=False, indent=1, default=str), "json")
        if mime.startswith("text/") and mime not in {"text/html", "text/plain"}:
            return _text_block(_joined(held))
    return ""


def _picture(data: Mapping[str, Any], plain: str, place: PlacePicture) -> str:
    for mime, suffix in _PICTURES.items():
        if isinstance(held := data.get(mime), str):
            return _placed(mime, suffix, held, plain, place)
    return ""


def _placed(mime: str, suffix: str, held: str, plain: str, place: PlacePicture) -> str:
    try:
        content = held.encode() if suffix == ".svg" else base64.b64decode(held)
    except (binascii.Error, UnicodeEncodeError):
        return f"*a broken picture ({mime})*"
    link = place(suffix, content)
    if link is None:
        return f"*a picture ({mime}, {len(content):,} bytes), which is not in this text*"
    alt = _unsafe_alt.sub(" ", clean(plain)).strip()[:_MAX_ALT] or "output"
    return f"![{alt}]({link})"


def _text_block(text: str) -> str:
    text = clean(text).strip("\n")
    return fenced(text, "text") if text.strip() else ""


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
