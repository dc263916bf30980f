"""Terminal text and HTML as plain text that a person reads. Pure; knows no outputs and no notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ["clean", "text_of_html"]

_ansi = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_MAX_HTML = 2_000_000
_BREAKING = frozenset({"br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4"})


def clean(text: str) -> str:
    """Terminal text as it would stand on the screen in the end: no colours, no overwritten lines."""
    text = _ansi.sub("", text)
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def text_of_html(html: str) -> str:
    """What of a page can be read as text."""
    reader = _Text()
    reader.feed(html[:_MAX_HTML])
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).splitlines())
    return "\n".join(line for line in lines if line)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._hidden += tag in {"script", "style"}
        if tag in _BREAKING:
            self.pieces.append("\n")
        elif tag in {"td", "th"}:
            self.pieces.append("\t")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style"} and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)
