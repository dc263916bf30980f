"""What of a chart or table goes with a reply, for an app to draw it."""

from __future__ import annotations

import json
from typing import Any

from cellwright.charts import Picture
from cellwright.charts.html_embed import interactive
from cellwright.formats.sanitize import clean_fragment

__all__ = ["chart_shown"]

_MOST = 1_000_000


def chart_shown(picture: Picture) -> dict[str, Any]:
    """The specification of a chart or the HTML of a table; nothing of one that is too large, whose picture stays."""
    if picture.spec is None:
        return {"html": clean_fragment(picture.html or "").html[:_MOST]}
    # The version is not said: the app has one, and complains of the others.
    spec = {name: part for name, part in interactive(picture.spec).items() if name != "$schema"}
    return {"spec": spec} if len(json.dumps(spec)) <= _MOST else {}
