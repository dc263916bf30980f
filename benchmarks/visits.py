"""The part of ``bench_page`` that looks through a real browser: at our page, a JupyterLab, and nbconvert's HTML."""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
import struct
import sys
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import nbformat
from nbconvert import HTMLExporter
from playwright.async_api import Browser, BrowserContext

from measuring import Bench, Contender, alternate, milliseconds
from peers import Ours, Peer, call, data_of, open_ours, open_peer
from windows import LAB, OURS, Look, Visit, open_browser, open_window, pictured_at, visit

__all__ = ["measure_visits"]

FIRST_KB = 300
AGAIN_KB = 30
CELLS = 500
USABLE_WITHIN_S = 1.0
PICTURED_WITHIN_S = 0.15
LISTED = 50
LISTED_WITHIN_S = 0.3

_NBCONVERTS = Look(cell=".jp-Cell", source="", source_in_cell="", line="", picture="")
_LISTS = {
    "ours": Look(
        cell="table.sessions tbody tr", source="", source_in_cell="", line="", picture="", stream="/live"
    ),
    # Lab makes the rows that are in view.
    "JupyterLab": Look(cell=".jp-DirListing-item", source="", source_in_cell="", line="", picture=""),
}
_ROWS_IN_VIEW = 20

_DRAWING = """import io, time
import matplotlib.pyplot as plt, numpy as np
from IPython.display import Image, display
figure, axes = plt.subplots()
axes.plot(np.random.default_rng().normal(size=500).cumsum())
drawn = io.BytesIO()
figure.savefig(drawn)
plt.close(figure)
display(Image(drawn.getvalue()))
print("ended", repr(time.time()))"""
_ENDED = r"""async (selector) => {
  for (;;) {
    const found = /ended ([\d.]+)/.exec(document.querySelector(selector)?.textContent ?? "");
    if (found) return Number(found[1]);
    await new Promise(requestAnimationFrame);
  }
}"""


@dataclass(frozen=True, slots=True)
class Sides:
    """Both that open a notebook, each with its files in a directory of its own, and the browser."""

    browser: Browser
    ours: Ours
    lab: Peer
    url: str
    token: str

    @asynccontextmanager
    async def window(self, side: str) -> AsyncIterator[BrowserContext]:
        """A browser of one side that is signed in, and has seen nothing of a notebook."""
        async with open_window(self.browser) as context:
            if side == "ours":
                await context.request.post(f"{self.url}/enter", form={"token": self.token, "next": "/"})
            yield context

    def put(self, notebook: Path, name: str) -> None:
        for directory in (self.ours.directory, self.lab.directory):
            shutil.copy(notebook, directory / name)

    async def address(self, side: str, name: str) -> str:
        """Where a notebook is opened; ours is a session, Lab makes its own when it is looked at."""
        if side != "ours":
            return f"{self.lab.url}/lab/tree/{name}?token={self.lab.token}"
        async with self.ours.connect() as client:
            opened = await call(client, "notebook_open", path=name)
        return f"{self.url}/sessions/{data_of(opened)['session_id']}"


async def measure_visits(bench: Bench) -> None:
    directories = [bench.directory / name for name in ("ours", "lab")]
    for directory in directories:
        directory.mkdir()
    async with (
        open_ours(directories[0]) as ours,
        open_peer(directories[1], environment_at=Path(sys.prefix)) as lab,
        open_browser() as browser,
    ):
        about = json.loads(await ours.run("serve", "--port", "0", "--detach", "--json"))
        token = Path(about["token_file"]).read_text().strip()
        sides = Sides(browser, ours, lab, about["mcp"].removesuffix("/mcp"), token)
        await _measure_bytes(bench, sides)
        await _measure_large(bench, sides)
        await _measure_picture(bench, sides)
        await _measure_list(bench, sides)


# What comes over the wire ---------------------------------------------------------------------------------------------


async def _measure_bytes(bench: Bench, sides: Sides) -> None:
    """The demo's notebook, in a browser that has seen nothing, and once more in the same."""
    await sides.ours.run("demo")
    [made] = sides.ours.directory.glob("notebooks/*/*.ipynb")
    sides.put(made, "demo.ipynb")
    book = nbformat.read(made, as_version=4)
    html = HTMLExporter().from_notebook_node(book)[0].encode()
    bench.inform("demo, nbconvert's HTML, compressed", f"{len(gzip.compress(html)) / 1000:.0f} kB")
    sizes: dict[str, list[float]] = {}
    for side, look in (("ours", OURS), ("JupyterLab", LAB)):
        address = await sides.address(side, "demo.ipynb")
        async with sides.window(side) as context:
            for _ in range(2):
                opened = await visit(context, look, address, cells=len(book.cells))
                await opened.settle()
                sizes.setdefault(side, []).append(opened.wire.kilobytes)
                bench.say(f"{side}: {opened.wire.largest()}")
                await opened.page.close()
    for which, limit, name in ((0, FIRST_KB, "first visit"), (1, AGAIN_KB, "next visit")):
        ours, theirs = sizes["ours"][which], sizes["JupyterLab"][which]
        bench.claim(
            f"demo, {name}, over the wire",
            f"{ours:.1f} kB",
            f"{theirs:.0f} kB",
            f"{theirs / ours:.1f}x",
            target=f"<= {limit} kB",
            passed=ours <= limit,
        )


# A large notebook -----------------------------------------------------------------------------------------------------


async def _measure_large(bench: Bench, sides: Sides) -> None:
    file = bench.directory / "large-to-look-at.ipynb"
    count = bench.size(CELLS, 60)
    _write_varied_notebook(file, count)
    sides.put(file, "large.ipynb")
    addresses = {side: await sides.address(side, "large.ipynb") for side in ("ours", "JupyterLab")}
    looks = {"ours": OURS, "JupyterLab": LAB}
    seen: dict[str, list[float]] = {}
    worked: dict[str, list[dict[str, float]]] = {}

    async def usable(side: str) -> float:
        async with sides.window(side) as context:
            opened = await visit(context, looks[side], addresses[side], cells=count)
            typed = await opened.type("§")
            seen.setdefault(side, []).append(opened.painted_s)
            worked.setdefault(side, []).append(await opened.work_s())
            return opened.painted_s + typed

    async def converted() -> float:
        began = time.perf_counter()
        html, _ = HTMLExporter().from_filename(str(file))
        written = file.with_suffix(".html")
        written.write_text(html)
        took = time.perf_counter() - began
        async with open_window(sides.browser) as context:
            opened: Visit = await visit(context, _NBCONVERTS, written.as_uri(), cells=count)
            return took + opened.painted_s

    contenders = {
        "ours": lambda: usable("ours"),
        "JupyterLab": lambda: usable("JupyterLab"),
        "nbconvert": converted,
    }
    times = await alternate(bench.size(5, 1), contenders)
    ours, theirs = median(times["ours"]), median(times["JupyterLab"])
    what = f"{count} cells: seen, and a letter typed into one"
    _within(bench, what, ours, theirs, USABLE_WITHIN_S)
    shown, html = median(seen["ours"]), median(times["nbconvert"])
    bench.inform(
        f"{count} cells: seen, against nbconvert's HTML",
        milliseconds(shown),
        milliseconds(html),
        f"{html / shown:.1f}x",
    )
    for kind in ("all", "script", "style", "layout"):
        mine, other = (median(one[kind] for one in worked[side]) for side in ("ours", "JupyterLab"))
        bench.inform(f"processor time of the page: {kind}", milliseconds(mine), milliseconds(other))


def _write_varied_notebook(path: Path, count: int) -> None:
    """Text, code, and outputs of the usual kinds."""
    cells = []
    for number in range(1, count + 1):
        if number % 5 == 1:
            cells.append(
                nbformat.v4.new_markdown_cell(f"## Part {number}\n\nWhat *follows* from `part {number}`.")
            )
            continue
        if number % 10 == 2:
            rows = "".join(
                f"<tr><th>{row}</th><td>{row * number}</td><td>name {row}</td></tr>" for row in range(10)
            )
            data = {"text/html": f"<table border=1>{rows}</table>", "text/plain": "a table"}
        elif number % 10 == 3:
            data = {"image/png": base64.b64encode(_png(number)).decode(), "text/plain": "<Figure>"}
        else:
            data = {"text/plain": f"{number}\n" * 5}
        output = nbformat.v4.new_output("execute_result", data=data, execution_count=number)
        source = f"# Cell {number}\nimport math\nvalues = [math.sqrt(n) for n in range({number})]\nlen(values), sum(values)"
        cells.append(nbformat.v4.new_code_cell(source, outputs=[output], execution_count=number))
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)


def _png(seed: int, width: int = 320, height: int = 160) -> bytes:
    """A picture of some 20 kB that no other has."""
    chance = random.Random(seed)  # noqa: S311  # nothing depends on it
    shades = bytes(range(0, 256, 8))
    lines = b"".join(b"\0" + bytes(chance.choices(shades[:6], k=width)) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


# From the end of a cell to its picture --------------------------------------------------------------------------------


async def _measure_picture(bench: Bench, sides: Sides) -> None:
    file = bench.directory / "drawing.ipynb"
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cell = nbformat.v4.new_code_cell(_DRAWING)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=metadata), file)
    sides.put(file, "drawing.ipynb")
    async with sides.window("ours") as ours, sides.window("JupyterLab") as theirs:
        contenders = {
            "ours": await _drawer(ours, OURS, await sides.address("ours", "drawing.ipynb")),
            "JupyterLab": await _drawer(theirs, LAB, await sides.address("JupyterLab", "drawing.ipynb")),
        }
        times = await alternate(bench.size(10, 2), contenders)
    what = "end of a cell to the frame with its picture"
    _within(bench, what, median(times["ours"]), median(times["JupyterLab"]), PICTURED_WITHIN_S)


async def _drawer(context: BrowserContext, look: Look, address: str) -> Contender:
    opened = await visit(context, look, address, cells=1)
    page = opened.page
    before = ""

    async def draw() -> float:
        nonlocal before
        await page.bring_to_front()
        await page.locator(f"{look.source}:visible").first.click()
        await page.keyboard.press("Control+Enter")
        at, before = await pictured_at(page, look, before)
        ended: float = await page.evaluate(_ENDED, look.cell)
        return at - ended

    await opened.settle()
    return draw


# The list -------------------------------------------------------------------------------------------------------------


async def _measure_list(bench: Bench, sides: Sides) -> None:
    """So many notebooks: as sessions here, as files there."""
    file = bench.directory / "listed.ipynb"
    _write_varied_notebook(file, 100)
    count = bench.size(LISTED, 10)
    shared = sides.lab.directory / "many"
    shared.mkdir()
    async with sides.ours.connect() as client:
        for number in range(count):
            shutil.copy(file, shared / f"listed-{number}.ipynb")
            shutil.copy(file, sides.ours.directory / f"listed-{number}.ipynb")
            await call(client, "notebook_open", path=f"listed-{number}.ipynb")
    addresses = {
        "ours": f"{sides.url}/",
        "JupyterLab": f"{sides.lab.url}/lab/tree/many?reset&token={sides.lab.token}",
    }

    async def listed(side: str) -> float:
        async with sides.window(side) as context:
            rows = min(count, _ROWS_IN_VIEW) if side != "ours" else count
            return (await visit(context, _LISTS[side], addresses[side], cells=rows)).painted_s

    times = await alternate(
        bench.size(5, 1), {"ours": lambda: listed("ours"), "JupyterLab": lambda: listed("JupyterLab")}
    )
    _within(
        bench, f"{count} sessions listed", median(times["ours"]), median(times["JupyterLab"]), LISTED_WITHIN_S
    )


def _within(bench: Bench, what: str, ours: float, theirs: float, limit: float) -> None:
    bench.claim(
        what,
        milliseconds(ours),
        milliseconds(theirs),
        f"{theirs / ours:.1f}x",
        target=f"<= {milliseconds(limit)}",
        passed=ours <= limit,
    )
