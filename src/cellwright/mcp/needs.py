"""What this version cannot do yet: said plainly, with what to use instead."""

from __future__ import annotations

from cellwright.errors import CellwrightError

__all__ = ["NeedsMore", "check_language", "needs"]


class NeedsMore(CellwrightError):
    """Something that was asked for needs a part that this installation lacks."""

    code = "needs"


def needs(what: str, part: str, instead: str) -> NeedsMore:
    return NeedsMore(f"{what} needs {part}, which this version does not have", hint=f"Instead: {instead}")


def check_language(language: str) -> None:
    """Refuse a language that has no kernel yet.

    Raises:
        NeedsMore: it is TypeScript or JavaScript.
    """
    if language.lower() in {"typescript", "javascript", "ts", "js"}:
        raise needs(f"language {language!r}", "the Deno kernel", "language='python'")
