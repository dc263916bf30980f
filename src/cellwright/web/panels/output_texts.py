"""Outputs as texts and pictures that stand for themselves: what ran once, beside what a cell shows now. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cellwright.formats.display_data import (
    PICTURES,
    Exhibit,
    bare_text,
    cut_text,
    exhibits_of,
    picture_bytes,
)

__all__ = ["Shown", "shown_outputs"]

_CHARACTERS = 20_000
_LINES = 300
_MOST_OUTPUTS = 50
_PICTURE_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Shown:
    """One output: its text, and its picture where it has one."""

    kind: str
    text: str
    picture: str | None = None
    """As a link that holds it."""
    description: str = ""


def shown_outputs(outputs: Iterable[Any]) -> list[Shown]:
    """Each output in order; what is too long or too many is cut, and that is said."""
    exhibits = exhibits_of(outputs)
    shown = [_shown(exhibit) for exhibit in exhibits[:_MOST_OUTPUTS]]
    if len(exhibits) > _MOST_OUTPUTS:
        shown.append(
            Shown("display", f"… {len(exhibits) - _MOST_OUTPUTS:,} more outputs are left out here …")
        )
    return shown


def _shown(exhibit: Exhibit) -> Shown:
    forms = exhibit.forms or {}
    head, left_out, tail = cut_text(bare_text(exhibit.plain), characters=_CHARACTERS, lines=_LINES)
    text = f"{head}\n{left_out}\n{tail}" if left_out else head
    if not text and forms:
        text = f"({', '.join(sorted(forms))})"
    for mime in PICTURES:
        content = forms.get(mime, "")
        if content and len(content) <= _PICTURE_CHARACTERS and picture_bytes(mime, content) is not None:
            link = f"data:{mime};base64,{''.join(content.split())}"
            return Shown(exhibit.kind, text, link, exhibit.description)
    return Shown(exhibit.kind, text)
