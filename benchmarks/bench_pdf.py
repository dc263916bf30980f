"""A notebook of 50 cells with 13 plots to PDF, against nbconvert's webpdf.

Ours is an export of a daemon that made one before: the process for the next stands by (``PageMaker``), and is given the
time to get that far before anybody is measured. Theirs is what nbconvert has, a process that imports, starts Chromium and
prints its own HTML in it. Ours without a process that stands by is told beside it, without a claim. webpdf is told where Debian's Chromium is, since it only looks for
one that playwright has downloaded, and names that it would look up in the network fail at once, so that it waits for
nothing. The HTML
page of the same notebook is told as well.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from cellwright.formats.renderer import PageMaker, render
from cellwright.notebook import Document
from measuring import Bench, alternate, main, milliseconds, quiet

CELLS, PLOTS = 50, 13
AT_LEAST = 3.0

WEBPDF = """
import sys, nbformat
from playwright.async_api import BrowserType
launch = BrowserType.launch
async def found(self, **options):
    return await launch(self, executable_path=sys.argv[3], **options)
BrowserType.launch = found
from nbconvert.exporters import WebPDFExporter
exporter = WebPDFExporter(disable_sandbox=True, browser_args=['--host-resolver-rules=MAP * ~NOTFOUND'])
content, _ = exporter.from_notebook_node(nbformat.read(sys.argv[1], 4))
open(sys.argv[2], 'wb').write(content)
"""


async def measure(bench: Bench) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        bench.say("nothing to compare with: webpdf needs Chromium (apt install chromium)")
        sys.exit(1)
    source = bench.directory / "source.ipynb"
    source.write_text(json.dumps(_notebook()))
    document = Document.from_bytes(source.read_bytes(), name="source")
    async with PageMaker() as maker:
        times = await alternate(
            bench.size(5, 1),
            {
                "pdf": partial(_ours, maker, document, "pdf"),
                "html": partial(_ours, maker, document, "html"),
                "cold": partial(_cold, document),
                "webpdf": partial(_webpdf, source, bench.directory / "theirs.pdf", chromium),
            },
        )
    what = f"{CELLS} cells with {PLOTS} plots to PDF, against nbconvert's webpdf"
    bench.faster(what, times["pdf"], times["webpdf"], at_least=AT_LEAST)
    cold, html, theirs = (statistics.median(times[name]) for name in ("cold", "html", "webpdf"))
    bench.inform(
        "the same by a process from scratch",
        milliseconds(cold),
        milliseconds(theirs),
        f"{theirs / cold:.2f}x",
    )
    bench.inform("the same to HTML", milliseconds(html))


async def _ours(maker: PageMaker, document: Document, wanted: str) -> float:
    started = time.perf_counter()
    made = await maker.render(document, name="source", format=wanted)
    seconds = time.perf_counter() - started
    assert len(made.content) > 100_000
    assert not made.notices
    await quiet(os.getpid())
    return seconds


async def _cold(document: Document) -> float:
    started = time.perf_counter()
    made = await render(document, name="source", format="pdf")
    seconds = time.perf_counter() - started
    assert len(made.content) > 100_000
    return seconds


async def _webpdf(source: Path, target: Path, chromium: str) -> float:
    target.unlink(missing_ok=True)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WEBPDF, str(source), str(target), chromium], check=True
    )
    seconds = time.perf_counter() - started
    assert target.read_bytes().startswith(b"%PDF-")
    return seconds


def _notebook() -> dict[str, Any]:
    """Text with formulas, code with printed lines, frames as tables, and plots."""
    cells: list[dict[str, Any]] = []
    for number in range(CELLS):
        if number % 4 == 0:
            source = f"## Part {number}\n\nSome *words* about $x_{{{number}}}^2$.\n\n$$\n\\int_0^1 f_{{{number}}}(x)\\,dx\n$$"
            cells.append({"cell_type": "markdown", "id": f"c{number}", "metadata": {}, "source": source})
            continue
        output = _plot(number) if number % 4 == 1 else _frame(number) if number % 4 == 2 else _printed(number)
        source = f"import numpy as np\n\ndata_{number} = np.arange({number})  # of cell {number}\nshow(data_{number})"
        about = {"metadata": {}, "execution_count": number, "outputs": [output], "source": source}
        cells.append({"cell_type": "code", "id": f"c{number}", **about})
    pictures = sum("image/png" in json.dumps(cell) for cell in cells)
    assert (len(cells), pictures) == (CELLS, PLOTS)
    return {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _plot(number: int) -> dict[str, Any]:
    mpl.use("Agg")
    from matplotlib.figure import Figure  # after its backend is chosen

    figure = Figure(figsize=(6.4, 4.8))
    axes = figure.subplots()
    values = np.linspace(0, 10, 400)
    axes.plot(values, np.sin(values * (1 + number / 10)))
    axes.set_title(f"Plot {number}")
    held = io.BytesIO()
    figure.savefig(held, format="png")
    picture = base64.b64encode(held.getvalue()).decode()
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {"image/png": picture, "text/plain": "<Figure>"},
    }


def _frame(number: int) -> dict[str, Any]:
    head = "".join(f"<th>column_{column}</th>" for column in range(8))
    rows = "".join(
        "<tr>" + "".join(f"<td>{number * row * column / 7:.3f}</td>" for column in range(8)) + "</tr>"
        for row in range(15)
    )
    html = f'<table border="1" class="dataframe"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    data = {"text/html": html, "text/plain": "a frame"}
    return {"output_type": "execute_result", "metadata": {}, "execution_count": number, "data": data}


def _printed(number: int) -> dict[str, Any]:
    text = "".join(f"line {line} of cell {number}: {'value ' * 8}\n" for line in range(20))
    return {"output_type": "stream", "name": "stdout", "text": text}


if __name__ == "__main__":
    main(measure, __doc__)
