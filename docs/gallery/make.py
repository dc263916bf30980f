"""Makes the pictures of this gallery again: ``python docs/gallery/make.py``. Data is made up, and the same every time."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

import anyio

from cellwright.charts import Config, Output, Renderer, ThemeName

HERE = Path(__file__).parent
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
THEMES: tuple[ThemeName, ...] = ("light", "dark")
chance = random.Random(7)  # noqa: S311  # the same pictures every time


def written(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(header)
    writer.writerows(rows)
    return sink.getvalue().encode()


def sales() -> bytes:
    rows = [
        (month, round(9 + 5 * math.sin(index / 2) + index, 1) * 1000, round(7 + index * 0.6, 1) * 1000)
        for index, month in enumerate(MONTHS)
    ]
    return written(("month", "revenue", "cost"), rows)


def prices() -> bytes:
    rows = []
    for coin, start in (("BTC", 100.0), ("ETH", 80.0), ("SOL", 60.0)):
        price = start
        for day in range(180):
            price = max(5.0, price + chance.gauss(0.08, 2))
            rows.append((date(2026, 1, 1) + timedelta(days=day), coin, round(price, 2)))
    return written(("date", "coin", "price"), rows)


def weather() -> bytes:
    rows = []
    for _ in range(400):
        day = chance.choice(("weekday", "weekend"))
        warmth = chance.gauss(22, 6)
        cones = max(0, warmth * (14 if day == "weekend" else 9) + chance.gauss(0, 35))
        rows.append((round(warmth, 1), round(cones), day))
    return written(("temperature", "cones sold", "day"), rows)


def energy() -> bytes:
    rows = []
    for year in range(2000, 2026):
        along = (year - 2000) / 25
        rows += [
            (year, "coal", round(300 * (1 - along) + 20)),
            (year, "gas", round(160 + 40 * math.sin(along * 5))),
            (year, "wind", round(10 + 230 * along**1.5)),
            (year, "solar", round(1 + 160 * along**2.5)),
        ]
    return written(("year", "source", "TWh"), rows)


def genres() -> bytes:
    rows = (
        ("Drama", 31),
        ("Crime", 17),
        ("Adventure", 14),
        ("Action", 12),
        ("Comedy", 9),
        ("Animation", 7),
        ("Western", 4),
    )
    return written(("genre", "films"), rows)


def correlations() -> bytes:
    names = ("price", "area", "rooms", "age", "distance")
    known = {
        ("price", "area"): 0.82,
        ("price", "rooms"): 0.64,
        ("price", "age"): -0.41,
        ("price", "distance"): -0.58,
        ("area", "rooms"): 0.77,
        ("area", "age"): -0.12,
        ("area", "distance"): 0.21,
        ("rooms", "age"): -0.05,
        ("rooms", "distance"): 0.18,
        ("age", "distance"): -0.33,
    }
    rows = [(a, *(1.0 if a == b else known.get((a, b), known.get((b, a))) for b in names)) for a in names]
    return written(("", *names), rows)


def waiting() -> bytes:
    rows = []
    for ward, middle, spread in (
        ("Surgery", 42, 12),
        ("Children", 25, 7),
        ("Eyes", 31, 16),
        ("Heart", 55, 9),
    ):
        rows += [(ward, round(max(1, chance.gauss(middle, spread)), 1)) for _ in range(120)]
        rows += [(ward, round(middle + spread * chance.uniform(3, 4.5), 1)) for _ in range(3)]
    return written(("ward", "minutes waited"), rows)


def modules() -> bytes:
    rooms = (
        "cli",
        "daemon",
        "mcp",
        "plans",
        "verification",
        "engine",
        "hosts",
        "kernels",
        "sandbox",
        "formats",
        "notebook",
        "charts",
        "settings",
        "errors",
    )
    kind = (
        dict.fromkeys(rooms, "machinery")
        | dict.fromkeys(("cli", "daemon", "mcp"), "faces")
        | dict.fromkeys(("notebook", "charts", "formats"), "pure")
    )
    links = []
    for index, room in enumerate(rooms):
        below = rooms[index + 1 :]
        links += [
            {"source": room, "target": other, "value": 1 + len(other) % 3}
            for other in chance.sample(below, min(len(below), 3))
        ]
    return json.dumps(
        {"nodes": [{"id": room, "group": kind[room]} for room in rooms], "links": links}
    ).encode()


OUTPUTS: tuple[tuple[Output, bytes], ...] = (
    (
        Output(
            "bar",
            "bar_chart",
            "sales.csv",
            "Revenue and cost by month",
            Config(x_column="month", y_columns=("revenue", "cost"), y_label="euros"),
        ),
        sales(),
    ),
    (
        Output(
            "line",
            "line_chart",
            "prices.csv",
            "Half a year of three coins",
            Config(x_column="date", y_columns=("price",), group_by="coin"),
        ),
        prices(),
    ),
    (
        Output(
            "scatter",
            "scatter",
            "weather.csv",
            "The warmer the day, the more cones are sold",
            Config(
                x_column="temperature", y_columns=("cones sold",), group_by="day", x_label="temperature in °C"
            ),
        ),
        weather(),
    ),
    (
        Output(
            "pie",
            "pie_chart",
            "genres.csv",
            "Films by genre",
            Config(label_column="genre", value_column="films"),
        ),
        genres(),
    ),
    (
        Output(
            "histogram",
            "histogram",
            "weather.csv",
            "Days by temperature",
            Config(x_column="temperature", group_by="day"),
        ),
        weather(),
    ),
    (
        Output(
            "area",
            "area",
            "energy.csv",
            "Where the electricity comes from",
            Config(x_column="year", y_columns=("TWh",), group_by="source"),
        ),
        energy(),
    ),
    (Output("heatmap", "heatmap", "correlations.csv", "What goes with what"), correlations()),
    (
        Output(
            "box",
            "box",
            "waiting.csv",
            "How long people wait",
            Config(x_column="ward", y_columns=("minutes waited",)),
        ),
        waiting(),
    ),
    (Output("graph", "graph", "modules.json", "Who calls whom"), modules()),
)


async def main() -> None:
    async with Renderer() as renderer:
        for output, data in OUTPUTS:
            for theme in THEMES:
                picture = await renderer.chart(output, data, theme=theme, scale=1)
                assert picture.png is not None
                (HERE / f"{output.id}-{theme}.png").write_bytes(picture.png)


if __name__ == "__main__":
    anyio.run(main)
