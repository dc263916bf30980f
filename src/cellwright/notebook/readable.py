"""Texts of outputs as a person reads them. Pure; knows no outputs as such, and no HTML (see ``formats.markup``)."""

from __future__ import annotations

import re

__all__ = ["TERMINAL_CODES", "clean", "names_only_itself"]

TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""What moves a terminal's cursor, sets its colours or its title, and is no text."""
_unsaid = re.compile(r"<(?:Figure size .*|IPython\.core\.display\..*)>")


def clean(text: str) -> str:
    """Terminal text as it would stand on the screen in the end: no colours, no overwritten lines."""
    text = TERMINAL_CODES.sub("", text)
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def names_only_itself(text: str) -> bool:
    """Whether a value's plain form says no more than that there is a fuller one, as a figure's does."""
    return _unsaid.fullmatch(text.strip()) is not None
