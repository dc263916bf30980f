"""How our charts look, light and dark: one set of colours, type and lines. Values for Vega-Lite's ``config``.

The colours follow Okabe and Ito's, which people with any kind of colour blindness tell apart, ordered so that
neighbours differ most, and each with enough contrast against its background.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["OTHER_SERIES", "THEMES", "Theme", "ThemeName", "theme_config"]

ThemeName: TypeAlias = Literal["light", "dark"]
# The first that a machine has. The process that draws has Liberation Sans within itself, which Arial stands for.
FONT = "Inter, Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', sans-serif"
OTHER_SERIES = "other"


@dataclass(frozen=True, slots=True)
class Theme:
    background: str
    ink: str
    muted: str
    grid: str
    line: str
    palette: tuple[str, ...]
    sequential: tuple[str, ...]
    """From little to much."""
    diverging: tuple[str, ...]
    """From below zero over nothing to above."""
    rest: str
    """For what was folded together."""


THEMES: dict[ThemeName, Theme] = {
    "light": Theme(
        background="#ffffff",
        ink="#1b2430",
        muted="#566273",
        grid="#e8ebef",
        line="#9aa5b3",
        palette=("#0072b2", "#e08e0b", "#009e73", "#c2579a", "#4aa5dc", "#d55e00", "#7a6a00", "#6b4fa0"),
        sequential=("#eef4fa", "#b9d5ea", "#6faed6", "#2a7fb8", "#08488a"),
        diverging=("#b3400c", "#ee9d63", "#f4f4f2", "#74b3d8", "#0a5a96"),
        rest="#a3adb8",
    ),
    "dark": Theme(
        background="#15191f",
        ink="#f1f4f7",
        muted="#aab5c2",
        grid="#2a313a",
        line="#5d6978",
        palette=("#56b4e9", "#f0a830", "#2fbf94", "#e08bbd", "#9ad0f5", "#f27d42", "#d9cc58", "#b39ddb"),
        sequential=("#1d2b3a", "#1f4e79", "#2a7fb8", "#6fb6e0", "#d6ecfb"),
        diverging=("#f08a4b", "#8f4a24", "#262c34", "#22608f", "#6cbcec"),
        rest="#717d8a",
    ),
}


def theme_config(name: ThemeName) -> dict[str, Any]:
    theme = THEMES[name]
    text = {"labelColor": theme.muted, "titleColor": theme.ink, "titleFontWeight": 500}
    return {
        "background": theme.background,
        "font": FONT,
        "padding": 16,
        "view": {"stroke": None},
        # Without it Vega-Lite describes every mark by an expression that it builds from titles, and trips over some.
        "mark": {"color": theme.palette[0], "aria": False},
        "axis": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titlePadding": 10,
            "labelPadding": 6,
            "labelLimit": 160,
            "titleLimit": 420,
            "gridColor": theme.grid,
            "domainColor": theme.line,
            "tickColor": theme.line,
            "tickSize": 4,
        },
        "axisQuantitative": {"domain": False, "ticks": False},
        "axisTemporal": {"grid": False},
        "axisDiscrete": {"grid": False, "ticks": False},
        "legend": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "labelLimit": 180,
            "titleLimit": 200,
            "symbolSize": 90,
        },
        "title": _title(theme),
        "text": {"color": theme.ink},
        "rule": {"color": theme.line},
        "range": {
            "category": list(theme.palette),
            "ramp": list(theme.sequential),
            "heatmap": list(theme.sequential),
            "diverging": list(theme.diverging),
        },
    }


def _title(theme: Theme) -> dict[str, Any]:
    return {
        "anchor": "start",
        "frame": "group",
        "color": theme.ink,
        "fontSize": 16,
        "fontWeight": 600,
        "lineHeight": 20,
        "offset": 14,
        "subtitleColor": theme.muted,
        "subtitleFontSize": 11,
        "subtitleLineHeight": 15,
        "subtitlePadding": 6,
    }
