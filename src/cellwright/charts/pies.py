"""Pie charts: shares of a whole, the small ones put together."""

from __future__ import annotations

from typing import Any

from cellwright.charts.axes import number_tip, series_color, text_tip
from cellwright.charts.categories import categorize, fold
from cellwright.charts.drawings import Drawing, plural
from cellwright.charts.encodings import Encodings
from cellwright.charts.fields import quoted
from cellwright.charts.readings import Readings, exact
from cellwright.charts.tallies import tally
from cellwright.charts.themes import OTHER_SERIES, THEMES, ThemeName
from cellwright.charts.wording import told_number

__all__ = ["pie_chart"]

_MOST_SLICES, _MOST_STEPS = 8, 8
_LABELLED_SHARE = 0.03
_TOLD_SLICES = 8
_RADIUS = 130


def pie_chart(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if encodings.label is None:
        readings.refuse("labelColumn", f"{readings.output.source} has no column to name the slices")
    label = encodings.label or ""
    parts = Encodings(x=label, y=() if encodings.value is None else (encodings.value,))
    if encodings.value is not None:
        _check_amounts(encodings.value, readings)
    found = tally(parts, readings, categorize(readings.axis(label), at_most=1_000).names)
    weights = {name: value for name, value in found.weights(0).items() if value > 0}
    total = sum(weights.values())
    if not total > 0:
        readings.refuse(
            "valueColumn", f"the values of {quoted(encodings.value)} add up to nothing, and have no shares"
        )
    notices = [notice for notice in found.notices if "share a bar" not in notice]
    folding = fold(weights, at_most=_MOST_SLICES)
    slices: dict[str, float] = {}
    for name in sorted(weights, key=lambda one: -weights[one]):
        slices[folding[name]] = exact(slices.get(folding[name], 0) + weights[name])
    if len(slices) < len(weights):
        notices.append(
            f"{len(weights):,} slices: the {_MOST_SLICES - 1} largest are shown, the others are added up"
        )
    names = sorted(slices, key=lambda name: (name.startswith(f"{OTHER_SERIES} ("), -slices[name]))
    body = _body(names, slices, total, label, found.what, theme)
    return Drawing(body, f"{found.what} by {label}", _facts(names, slices, total, found.what), tuple(notices))


def _check_amounts(name: str, readings: Readings) -> None:
    numbers = readings.numbers(name, "valueColumn")
    for row, number in enumerate(numbers):
        if number is not None and number < 0:
            readings.refuse(
                "valueColumn",
                f"{quoted(name)} has {told_number(number)} in row {row + 1:,}; "
                "slices of a pie cannot be negative, a bar_chart shows such values",
            )


def _body(
    names: list[str], slices: dict[str, float], total: float, label: str, what: str, theme: ThemeName
) -> dict[str, Any]:
    values = [
        {
            "s": name,
            "y": slices[name],
            "p": slices[name] / total,
            "n": index,
            "t": _percent(slices[name] / total),
        }
        for index, name in enumerate(names)
    ]
    rest = next((name for name in names if name.startswith(f"{OTHER_SERIES} (")), None)
    angle = {"theta": {"field": "y", "type": "quantitative", "stack": True}, "order": {"field": "n"}}
    arc = {
        "mark": {
            "type": "arc",
            "outerRadius": _RADIUS,
            "innerRadius": _RADIUS * 0.45,
            "stroke": THEMES[theme].background,
            "strokeWidth": 1.5,
        },
        "encoding": {
            "color": series_color("s", label, names, theme, rest=rest),
            "tooltip": [
                text_tip("s", label),
                number_tip("y", what),
                {"field": "p", "type": "quantitative", "title": "share", "format": ".1%"},
            ],
        },
    }
    text = {
        "mark": {"type": "text", "radius": _RADIUS + 20, "fontSize": 11, "color": THEMES[theme].muted},
        "encoding": {"text": {"field": "t", "type": "nominal"}, "detail": {"field": "s"}},
    }
    return {
        "data": {"values": values},
        "encoding": angle,
        "layer": [arc, text],
        "width": 2 * _RADIUS + 80,
        "height": 2 * _RADIUS + 60,
    }


def _percent(share: float) -> str:
    if share < _LABELLED_SHARE:
        return ""  # no room for it; without its slice the others' labels would move
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"  # noqa: PLR2004  # a tenth


def _facts(names: list[str], slices: dict[str, float], total: float, what: str) -> tuple[str, ...]:
    shown = ", ".join(
        f"{name} {told_number(slices[name])} ({slices[name] / total:.1%})" for name in names[:_TOLD_SLICES]
    )
    return (f"{plural(len(names), 'slice')}: {shown}", f"{what} in all: {told_number(total)}")
