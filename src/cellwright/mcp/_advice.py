"""The next step after code that failed for a reason which is no error of the code: what models mistake about calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["advice"]

_SHORT_MS = 1_000
_FENCE = re.compile(r"\s*(```|~~~)")
# An item of a list, or a sentence: four words and a full stop. A heading would be a comment.
_PROSE = re.compile(r"^(?:[-*] \w+|\d+\. \w+|(?:[A-Za-z',]+ ){3,}[A-Za-z']+[.:!?]$)", re.MULTILINE)


def advice(source: str, state: str, error: Mapping[str, Any], *, timeout_ms: int | None) -> list[str]:
    """What to do next, where code ended so and this is known to be a mistake about the call; at most one sentence."""
    if state == "timeout":
        if timeout_ms is None or timeout_ms >= _SHORT_MS:
            return []
        return [
            f"timeout is in milliseconds, so that {timeout_ms} are {timeout_ms / 1_000:g} s. Give {timeout_ms * 1_000} for {timeout_ms} s"
        ]
    if _FENCE.match(source):
        return ["The code begins with a Markdown fence. Next call: cell_update with the code alone"]
    if error.get("ename") in ("SyntaxError", "IndentationError") and _PROSE.search(source):
        return ["If this is text and not code, add it with cell_add(type='markdown')"]
    return []
