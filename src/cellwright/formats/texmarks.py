"""The marks around a formula that an output in LaTeX comes with."""

from __future__ import annotations

__all__ = ["bare_latex"]

_MARKS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))


def bare_latex(text: str) -> str:
    """The formula alone."""
    text = text.strip()
    for start, end in _MARKS:
        if text.startswith(start) and text.endswith(end) and len(text) > len(start) + len(end):
            return text[len(start) : -len(end)].strip().removeprefix("\\displaystyle").strip()
    return text
