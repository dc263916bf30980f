"""A chart's PNG from a table: our warm process against plotly with kaleido, from the same rows.

Both make the chart and the picture anew each time: a bar chart of twelve months with two columns, and a line of 2,000
points. Plotly is measured as it comes (``Figure.to_image``, which starts a browser for each picture), and with
kaleido's server kept running, the best that it can do. Its browser is Chromium; ``BROWSER_PATH`` names another.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from cellwright.charts import Config, Output, Renderer
from measuring import Bench, alternate, main, milliseconds

# Reads a chart's name from a line, answers with the seconds that its picture took.
PLOTLY = """
import csv, io, json, sys, time
import plotly.graph_objects as go
import kaleido
data = json.loads(sys.stdin.readline())
if sys.argv[1] == "kept":
    kaleido.start_sync_server(silence_warnings=True)
def draw(name):
    header, *rows = csv.reader(io.StringIO(data[name]))
    xs = [row[0] for row in rows]
    make = go.Bar if name == "bars" else go.Scatter
    figure = go.Figure([make(x=xs, y=[float(row[at]) for row in rows], name=header[at]) for at in range(1, len(header))])
    figure.update_layout(title=name, width=780, height=450)
    return figure.to_image(format="png", scale=1.5)
print("ready", flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    assert draw(line.strip())[:4] == bytes([137, 80, 78, 71])
    print(time.perf_counter() - begun, flush=True)
if sys.argv[1] == "kept":
    kaleido.stop_sync_server(silence_warnings=True)
"""


def tables() -> dict[str, bytes]:
    months = [(f"2026-{month:02}", 1000 + 90 * month, 700 + 50 * month) for month in range(1, 13)]
    points = [(place, round(100 * math.sin(place / 90) + place % 17, 2)) for place in range(2_000)]
    return {
        "bars": _written(("month", "revenue", "cost"), months),
        "line": _written(("place", "value"), points),
    }


def _written(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> bytes:
    sink = io.StringIO()
    csv.writer(sink).writerows([header, *rows])
    return sink.getvalue().encode()


OUTPUTS = {
    "bars": Output(
        "bars", "bar_chart", "bars.csv", "bars", Config(x_column="month", y_columns=("revenue", "cost"))
    ),
    "line": Output("line", "line_chart", "line.csv", "line", Config(x_column="place", y_columns=("value",))),
}


async def measure(bench: Bench) -> None:
    browser = os.environ.get("BROWSER_PATH") or shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("error: plotly with kaleido needs Chromium: apt install chromium", file=sys.stderr)
        sys.exit(1)
    data = tables()
    async with Renderer() as renderer:
        for name, output in OUTPUTS.items():
            await renderer.chart(output, data[name])  # warm
        with _plotly("each", browser, data) as each, _plotly("kept", browser, data) as kept:
            for name in OUTPUTS:
                contenders = {
                    "ours": partial(_ours, renderer, name, data[name]),
                    "each": partial(_theirs, each, name),
                    "kept": partial(_theirs, kept, name),
                }
                times = await alternate(bench.size(9, 2), contenders)
                what = f"a PNG of {name}, over plotly with kaleido"
                bench.faster(what, times["ours"], times["each"], at_least=5)
                kept_s, ours_s = statistics.median(times["kept"]), statistics.median(times["ours"])
                # Nobody has it by default; it is what there is to gain from the other side.
                bench.claim(
                    f"{what} whose browser is kept",
                    milliseconds(ours_s),
                    milliseconds(kept_s),
                    f"{kept_s / ours_s:.2f}x",
                    target="none",
                    passed=True,
                )


async def _ours(renderer: Renderer, name: str, content: bytes) -> float:
    begun = time.perf_counter()
    picture = await renderer.chart(OUTPUTS[name], content)
    assert picture.png
    return time.perf_counter() - begun


async def _theirs(process: subprocess.Popen[str], name: str) -> float:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


@contextmanager
def _plotly(mode: str, browser: str, data: dict[str, bytes]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PLOTLY, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "BROWSER_PATH": browser},
    )
    assert process.stdin
    assert process.stdout
    with process:
        process.stdin.write(json.dumps({name: content.decode() for name, content in data.items()}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n", "plotly or kaleido cannot be started"
        yield process
        process.stdin.close()


if __name__ == "__main__":
    main(measure, __doc__)
