"""A chart type: every value as a tick on its name's line. `type="strip"` in a manifest, `visualize` and `show` asks for it."""

from __future__ import annotations

from cellwright.charts.kinds import ChartKind, Config, Drawing, Encodings, Readings, Shape
from cellwright.charts.themes import ThemeName

CELLWRIGHT_API = 1


def encode(shape: Shape, config: Config) -> Encodings:
    """Names upwards, numbers along: the config's columns, else the first that fit."""
    number = config.x_column or next((column.name for column in shape.of_kinds("number")), None)
    names = config.y_columns or tuple(column.name for column in shape.of_kinds("text", "bool"))
    return Encodings(number, names[:1])


def build(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    """A tick for each row."""
    if encodings.x is None or not encodings.y:
        readings.refuse("xColumn", "a strip needs a column of numbers and one of names")
    numbers, names = readings.numbers(encodings.x, "xColumn"), readings.names(encodings.y[0])
    rows = [
        {"name": name, "number": number}
        for name, number in zip(names, numbers, strict=True)
        if number is not None
    ]
    x = {"field": "number", "type": "quantitative", "title": encodings.x}
    y = {"field": "name", "type": "nominal", "title": encodings.y[0]}
    body = {"data": {"values": rows}, "mark": "tick", "encoding": {"x": x, "y": y}}
    about = f"{encodings.x} by {encodings.y[0]}"
    return Drawing(body, about, (f"{len(rows)} values of {len(set(names))} names",))


STRIP = ChartKind(build, encode, spellings=("strip_plot",))
