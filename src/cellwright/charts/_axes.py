"""Axes, legends and tooltips as Vega-Lite's channels: formats that fit the values, labels that fit the place.

Data goes into specs under short names of our own (``x``, ``y``, ``s``), so that no column's name is ever read as a
path or an expression; the real names are titles, which nothing reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cellwright.charts._labels import cut, drawable
from cellwright.charts.themes import THEMES, ThemeName

__all__ = [
    "discrete",
    "number_format",
    "number_tip",
    "quantitative",
    "series_color",
    "temporal",
    "text_tip",
    "time_tip",
    "tip_title",
    "title_of",
]

Channel = dict[str, Any]
_LONGEST_TITLE = 60
_CHARACTER_PX = 6.2
_SHORT_FROM, _EXACT_BELOW, _SMALL = 1e4, 1e24, 1e-3
_YEARS = (1500, 2200)
_FLAT = 1e-290
_DAY_S = 86400.0


def title_of(name: str) -> str:
    return cut(drawable(name), _LONGEST_TITLE) or "(no name)"


def number_format(low: float, high: float, *, whole: bool = False) -> Channel:
    """How an axis writes its numbers: ``12k`` and ``3.5M``, plain where they are small, years without a comma."""
    most = max(abs(low), abs(high))
    if most >= _EXACT_BELOW or 0 < most < _SMALL:
        return {"format": ".3~g"}
    if whole and _YEARS[0] <= low and high <= _YEARS[1]:
        return {"format": "d"}
    if most >= _SHORT_FROM:
        # Ranges far from zero need more than three digits to tell two marks apart.
        digits = 3 if high - low >= most / 50 else 6
        return {"labelExpr": f"replace(format(datum.value, '.{digits}~s'), 'G', 'B')"}
    return {"format": ",.6~f"} if most < 1 else {"format": ",.4~f"}


def quantitative(
    field: str, title: str, values: Iterable[float], *, zero: bool, whole: bool = False, **more: Any
) -> Channel:
    kept = list(values)
    low, high = (min(kept), max(kept)) if kept else (0.0, 1.0)
    axis: Channel = {**number_format(low, high, whole=whole), "tickCount": 6}
    if whole and high - low < axis["tickCount"]:
        axis |= {"tickMinStep": 1}
    scale: Channel = {"zero": zero, "nice": True}
    if 0 < max(high, 0 if zero else low) - min(low, 0 if zero else high) < _FLAT:
        # No scale has steps as small as that.
        scale = {"domain": [low - 1, high + 1]}
    return {
        "field": field,
        "type": "quantitative",
        "title": title_of(title),
        "axis": axis,
        "scale": scale,
        **more,
    }


def temporal(field: str, title: str, seconds: Sequence[float]) -> Channel:
    axis: Channel = {"labelOverlap": True}
    if (
        seconds
        and all(second % _DAY_S == 0 for second in seconds)
        and max(seconds) - min(seconds) < 7 * _DAY_S
    ):
        # Without it Vega fills a few days up with hours that nobody measured.
        axis |= {"tickCount": "day", "format": "%b %d"}
    return {"field": field, "type": "temporal", "title": title_of(title), "axis": axis}


def discrete(field: str, title: str, names: Sequence[str], *, room_px: float, across: bool = True) -> Channel:
    """Categories in their order; ``across`` where they stand side by side and share the width."""
    axis: Channel = {}
    if across and names:
        longest = max(map(len, names)) * _CHARACTER_PX
        if longest + 8 > room_px / len(names):
            axis = {"labelAngle": -40, "labelLimit": 110}
        else:
            axis = {"labelAngle": 0}
        if len(names) > room_px / 14:
            axis |= {"labelOverlap": "greedy"}
    elif not across:
        axis = {"labelLimit": 200}
    return {"field": field, "type": "nominal", "sort": list(names), "title": title_of(title), "axis": axis}


def series_color(
    field: str, title: str | None, names: Sequence[str], theme: ThemeName, *, rest: str | None = None
) -> Channel:
    """Colours of series in their order; what was folded together is grey."""
    look = THEMES[theme]
    palette = [look.palette[index % len(look.palette)] for index in range(len(names))]
    if rest in names:
        palette[names.index(rest)] = look.rest
    return {
        "field": field,
        "type": "nominal",
        "title": None if title is None else title_of(title),
        "scale": {"domain": list(names), "range": palette},
        "sort": list(names),
    }


def number_tip(field: str, title: str, *, whole: bool = False) -> Channel:
    return {
        "field": field,
        "type": "quantitative",
        "title": tip_title(title),
        "format": ",d" if whole else ",.6~g",
    }


def time_tip(field: str, title: str, seconds: Sequence[float]) -> Channel:
    days = all(second % _DAY_S == 0 for second in seconds)
    return {
        "field": field,
        "type": "temporal",
        "title": tip_title(title),
        "format": "%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S",
    }


def text_tip(field: str, title: str) -> Channel:
    return {"field": field, "type": "nominal", "title": tip_title(title)}


def tip_title(name: str) -> str:
    """Vega-Lite writes a tooltip's titles into an expression, and escapes quotes but not what escapes them."""
    return title_of(name).replace("\\", "\\\\")
