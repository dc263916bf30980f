"""Outputs as data for print: one form of each, the fullest that stands on paper."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from cellwright.formats.exhibits import (
    PICTURES,
    SVG,
    Exhibit,
    bare_text,
    cut_text,
    picture_bytes,
    svg_text,
)
from cellwright.formats.markup import MAX_CHARACTERS, elements, parse_html, text_in
from cellwright.formats.printprose import Node, ProseSetter, formula_node
from cellwright.formats.printtables import grid_of, set_grid
from cellwright.formats.texmarks import bare_latex

__all__ = ["Album", "OutputSetter"]

_TEXT_CHARACTERS = 40_000
_TEXT_LINES = 400
_MAX_TABLES = 20
# Types that are cut to what fits; a longer text of the others would not be read rightly.
_CUT = frozenset({"text/plain", "application/json", "text/html"})
_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", SVG: "svg"}
_DATA = re.compile(r"data:(image/(?:png|jpeg|gif|webp|svg\+xml));base64,([A-Za-z0-9+/=\s]+)")


@dataclass(slots=True)
class Album:
    """The pictures of one print, as files beside it."""

    files: dict[str, bytes] = field(default_factory=dict)

    def place(self, mime: str, data: bytes, words: str) -> Node:
        name = f"{len(self.files) + 1}.{_SUFFIXES[mime]}"
        self.files[name] = data
        return {"t": "picture", "file": name, "alt": words[:500] or None}

    def from_link(self, link: str, words: str) -> Node | None:
        """A picture that is written down in a data link."""
        match = _DATA.fullmatch(link.strip())
        if match is None:
            return None
        if match[1] == SVG:
            try:
                text = svg_text(base64.b64decode(match[2]).decode())
            except ValueError:
                return None
            return self.place(SVG, text.encode(), words) if text else None
        data = picture_bytes(match[1], match[2])
        return self.place(match[1], data, words) if data is not None else None


@dataclass(slots=True)
class OutputSetter:
    """Sets the outputs of one print, and keeps what had to be left out."""

    album: Album
    prose: ProseSetter
    notices: list[str] = field(default_factory=list)
    _cell: str = ""

    def nodes(self, exhibit: Exhibit, *, cell: str) -> list[Node]:
        """One output; ``cell`` is what notices call the cell that it is of."""
        self._cell = cell
        if exhibit.kind in {"stdout", "stderr", "error"}:
            return self._text(exhibit.text, exhibit.kind)
        for write in (self._svg, self._picture, self._html, self._words):
            if nodes := write(exhibit):
                return nodes
        return []

    def _note(self, what: str) -> None:
        self.notices.append(f"{self._cell}: {what}")

    def _text(self, text: str, tone: str) -> list[Node]:
        bare = bare_text(text).strip("\n").expandtabs(8)
        head, left_out, tail = cut_text(bare, characters=_TEXT_CHARACTERS, lines=_TEXT_LINES)
        if not left_out:
            return [{"t": "printed", "v": bare, "tone": tone}] if bare.strip() else []
        self._note(left_out.strip("… ").removesuffix(" here"))
        shown: list[Node] = [{"t": "printed", "v": part, "tone": tone} for part in (head, tail)]
        return [shown[0], {"t": "output", "body": [{"t": "note", "v": left_out}]}, shown[1]]

    def _svg(self, exhibit: Exhibit) -> list[Node]:
        source = (exhibit.forms or {}).get(SVG)
        picture = svg_text(source) if source is not None else None
        if picture is not None:
            return [_boxed([self.album.place(SVG, picture.encode(errors="replace"), exhibit.description)])]
        if source is not None:
            self._note("an SVG picture cannot be read")
        return []

    def _picture(self, exhibit: Exhibit) -> list[Node]:
        for mime in PICTURES:
            if (content := (exhibit.forms or {}).get(mime)) is None:
                continue
            data = picture_bytes(mime, content)
            if data is not None:
                return [_boxed([self.album.place(mime, data, exhibit.description)])]
            self._note("a picture cannot be read")
        return []

    def _html(self, exhibit: Exhibit) -> list[Node]:
        """The tables and pictures of HTML; other HTML is told by its text, or by the output's own."""
        source = (exhibit.forms or {}).get("text/html", "")
        if not source or len(source) > MAX_CHARACTERS:
            return []
        root = parse_html(source)
        nodes: list[Node] = []
        for table in list(elements(root, "table"))[:_MAX_TABLES]:
            if (grid := grid_of(table)) is not None:
                nodes += set_grid(grid)
                if grid.left_out:
                    self._note(f"of a table, {grid.left_out.strip('… ')}")
        for image in elements(root, "img"):
            placed = self.album.from_link(image.attributes.get("src", ""), image.attributes.get("alt", ""))
            nodes += [placed] if placed is not None else []
        return [_boxed(nodes)] if nodes else []

    def _words(self, exhibit: Exhibit) -> list[Node]:
        """A form that is text."""
        forms = exhibit.forms or {}
        writers: dict[str, Callable[[str], list[Node]]] = {
            "text/markdown": lambda text: [_boxed(self.prose.blocks(text, {}))],
            "text/latex": lambda text: [_boxed([formula_node(bare_latex(text), display=True)])],
            "text/plain": lambda text: self._text(text, "result"),
            "application/json": lambda text: self._text(_indented(text), "result"),
            "text/html": lambda text: self._text(text_in(parse_html(text)), "result"),
        }
        for mime, write in writers.items():
            if forms.get(mime, "").strip() and (mime in _CUT or len(forms[mime]) <= _TEXT_CHARACTERS):
                return write(forms[mime])
        if not forms:
            return []
        if not any(mime in forms for mime in (*PICTURES, SVG)):
            self._note(f"an output of the type {next(iter(forms))} cannot be shown")
        return [_boxed([{"t": "note", "v": "[an output that cannot be shown]"}])]


def _boxed(nodes: list[Node]) -> Node:
    return {"t": "output", "body": nodes}


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
