"""Turns a cell's outputs into texts of known types that are safe for a page, whatever a notebook's file holds. Pure.

Chooses nothing (a page and a print have different tastes) and draws nothing. What is too long is cut here, and told.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright.notebook.outputs import names_only_itself

__all__ = [
    "MAX_PICTURE_BYTES",
    "PICTURES",
    "SVG",
    "VEGA",
    "Exhibit",
    "attached_pictures",
    "bare_text",
    "cut_text",
    "exhibits_of",
    "picture_bytes",
    "sound",
    "svg_text",
]

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
SVG = "image/svg+xml"
VEGA = re.compile(r"application/vnd\.(vega|vegalite)\.v\d+(\.\d+)*\+json")
MAX_PICTURE_BYTES = 30_000_000

ExhibitKind: TypeAlias = Literal["stdout", "stderr", "error", "result", "display"]

_MAGIC = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
# Colours are kept for those who can show them; whatever else a terminal is told means nothing on a page.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ESCAPE = re.compile(
    r"\x1b(?:\[(?![0-9;]*m)[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cDEHMNOZ])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\ufdd0\ufdd1\ufffe\uffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One output. A stream or an error has ``text``, which may hold terminal colours; the rest has ``forms``."""

    kind: ExhibitKind
    text: str = ""
    forms: Mapping[str, str] | None = None
    """Each MIME type's content: text, base64 for pictures, JSON as text."""
    description: str = ""
    """What a picture shows, in words, where the output says it."""
    name: str = ""
    """Of an error: its type."""

    @property
    def plain(self) -> str:
        """The text that stands for the output where nothing better can be shown."""
        return (self.forms or {}).get("text/plain", self.text)


def exhibits_of(outputs: Iterable[Any]) -> list[Exhibit]:
    """Every output in order; pieces of one stream that follow each other are one."""
    found: list[Exhibit] = []
    for output in outputs:
        exhibit = _exhibit(output) if isinstance(output, Mapping) else None
        if exhibit is None:
            continue
        if found and exhibit.kind == found[-1].kind and exhibit.kind in {"stdout", "stderr"}:
            exhibit = Exhibit(exhibit.kind, found.pop().text + exhibit.text)
        found.append(exhibit)
    return [
        Exhibit(one.kind, _on_screen(one.text)) if one.kind in {"stdout", "stderr"} else one for one in found
    ]


def _exhibit(output: Mapping[str, Any]) -> Exhibit | None:
    match output.get("output_type"):
        case "stream":
            return Exhibit(
                "stderr" if output.get("name") == "stderr" else "stdout", _text(output.get("text"))
            )
        case "error":
            return _error(output)
        case "execute_result":
            return _bundle("result", output)
        case "display_data" | "update_display_data":
            return _bundle("display", output)
    return None


def _error(output: Mapping[str, Any]) -> Exhibit:
    name, value = sound(_text(output.get("ename"))), sound(_text(output.get("evalue")))
    traceback = output.get("traceback")
    lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, Sequence) else []
    text = _on_screen("\n".join(lines)) if not isinstance(traceback, str) else _on_screen(traceback)
    return Exhibit("error", text or f"{name}: {value}".strip(": "), name=name)


def _bundle(kind: ExhibitKind, output: Mapping[str, Any]) -> Exhibit | None:
    data = output.get("data")
    if not isinstance(data, Mapping):
        return None
    forms = {str(mime): _form(str(mime), value) for mime, value in data.items() if value is not None}
    plain = bare_text(forms.get("text/plain", ""))
    return Exhibit(kind, forms=forms, description=_description(output, plain))


def _form(mime: str, value: Any) -> str:
    if not isinstance(value, str | list) or mime.endswith("json"):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = _text(value)
    return text if mime in PICTURES else _on_screen(text)


def _description(output: Mapping[str, Any], plain: str) -> str:
    """Words for a picture: what its metadata says, or the text beside it unless that is a mere type's name."""
    about = output.get("metadata")
    held = [about, *about.values()] if isinstance(about, Mapping) else []
    for one in held:
        said = one.get("alt") if isinstance(one, Mapping) else None
        if isinstance(said, str) and said.strip():
            return sound(said.strip())
    return "" if names_only_itself(plain) else plain.strip()[:500]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def sound(text: str) -> str:
    """Without what neither HTML nor a PDF can hold."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))


def _on_screen(text: str) -> str:
    """Terminal text as it would stand on the screen in the end, with its colours."""
    text = _ESCAPE.sub("", text.replace("\r\n", "\n"))
    if "\b" in text:
        text = re.sub(r"[^\n\b]?\x08", "", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    kept = _CONTROL.sub("", _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))
    return kept if "\x1b" not in kept else re.sub(r"\x1b(?!\[[0-9;]*m)", "", kept)


def bare_text(text: str) -> str:
    """The same without colours."""
    return _COLOUR.sub("", text)


def cut_text(text: str, *, characters: int, lines: int) -> tuple[str, str, str]:
    """The text's head, what was left out in words, and its tail; all of it is the head where it is short enough."""
    rows = text.split("\n")
    if len(text) <= characters and len(rows) <= lines:
        return text, "", ""
    head_rows, tail_rows = rows[: lines * 3 // 4], rows[max(lines * 3 // 4, len(rows) - lines // 4) :]
    head = "\n".join(head_rows)[: characters * 3 // 4]
    tail = "\n".join(tail_rows)[-(characters // 4) :]
    if not tail_rows:
        tail = text[len(head) :][-(characters // 4) :]
    left_out = len(text) - len(head) - len(tail)
    return head, f"… {left_out:,} of {len(text):,} characters are left out here …", tail


def picture_bytes(mime: str, content: str) -> bytes | None:
    """A picture's bytes; None where they are not what they are said to be."""
    try:
        data = base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    fits = len(data) <= MAX_PICTURE_BYTES and any(data.startswith(magic) for magic in _MAGIC[mime])
    return data if fits else None


def svg_text(content: str) -> str | None:
    """An SVG picture that stands for itself; None where there is none in the text."""
    start = content.find("<svg")
    end = content.rfind("</svg>")
    if start < 0 or end < start or len(content) > MAX_PICTURE_BYTES:
        return None
    text = content[start : end + len("</svg>")]
    opening = text[: text.find(">")]
    if "xmlns=" not in opening:
        text = text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    if "xlink:" in text and "xmlns:xlink" not in text:
        text = text.replace("<svg", '<svg xmlns:xlink="http://www.w3.org/1999/xlink"', 1)
    return text


def attached_pictures(attachments: Any) -> dict[str, str]:
    """A text cell's attached pictures as data links, by name."""
    found: dict[str, str] = {}
    for name, bundle in attachments.items() if isinstance(attachments, Mapping) else ():
        for mime in PICTURES:
            content = bundle.get(mime) if isinstance(bundle, Mapping) else None
            if isinstance(content, str) and picture_bytes(mime, content) is not None:
                found[str(name)] = f"data:{mime};base64,{''.join(content.split())}"
    return found
