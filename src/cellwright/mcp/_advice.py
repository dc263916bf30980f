"""The next step after code that failed for a reason which is no error of the code: what models mistake about calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["advice"]

_SHORT_S = 1
_FENCE = re.compile(r"\s*(```|~~~)")
# An item of a list, or a sentence: four words and a full stop. A heading would be a comment.
_PROSE = re.compile(r"^(?:[-*] \w+|\d+\. \w+|(?:[A-Za-z',]+ ){3,}[A-Za-z']+[.:!?]$)", re.MULTILINE)


def advice(source: str, state: str, error: Mapping[str, Any], *, timeout_s: float | None) -> list[str]:
    """What to do next, where code ended so and this is known to be a mistake about the call; at most one sentence."""
    if state == "timeout":
        if timeout_s is None or timeout_s >= _SHORT_S:
            return []
        # The former name was in milliseconds.
        return [
            f"The time limit was {timeout_s:g} s. Give timeout_s={timeout_s * 1_000:g} for {timeout_s * 1_000:g} s"
        ]
    if _FENCE.match(source):
        return ["The code begins with a Markdown fence. Next call: cell_update with the code alone"]
    if error.get("ename") in ("SyntaxError", "IndentationError") and _PROSE.search(source):
        return ["If this is text and not code, add it with cell_add(type='markdown')"]
    return []
