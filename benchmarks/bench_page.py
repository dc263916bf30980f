"""The page: what a person waits for who opens it, and what open pages cost whoever runs cells.

First in a real Chromium, at a daemon of our own, beside a JupyterLab that opens the same files and nbconvert's HTML of
them: what comes over the wire for the notebook of ``cellwright demo``; a notebook of 500 cells up to the frame that
shows them and the first letter in a cell's editor; from the end of a cell that draws to the frame with its picture;
the list of 50 notebooks. Then the page is asked inside this process, as its server would ask it: a notebook of 100
cells with 10 MB of outputs, and a cell that prints 10,000 lines, with nobody looking and with 50 pages that follow it
and take what they are sent. A page that fell asleep before all that, and asks from there on, must be sent the last
line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import nbformat
from nbconvert import HTMLExporter
from starlette.types import ASGIApp, Message

from cellwright import Session, open_engine
from cellwright.people import Members
from cellwright.plans import Planner
from cellwright.templates import Catalogue
from cellwright.templates.galleries import Galleries
from cellwright.tools import Fetcher
from cellwright.verification import Verifier
from cellwright.web.auth import Attempts, Codes, Identities, SignIn
from cellwright.web.requests import Site
from cellwright.web.site import application
from measuring import MB, Bench, alternate, main, milliseconds
from visits import measure_visits

CELLS = 100
PAGES = 50
OPENS_WITHIN_S = 1.0
TOKEN = "a token of this benchmark"  # noqa: S105  # it lasts as long as this process


@dataclass
class Window:
    """A browser's part, as far as it asks: one address after another, or one stream."""

    app: ASGIApp
    cookie: str = ""
    heard: list[bytes] = field(default_factory=list)

    async def sign_in(self) -> None:
        body = urlencode({"token": TOKEN, "next": "/"}).encode()
        start = await self._ask("POST", "/enter", body=body)
        cookies = [value.decode() for name, value in start["headers"] if name == b"set-cookie"]
        self.cookie = cookies[0].partition(";")[0]

    async def open(self, path: str) -> int:
        """Ask for a page; how many bytes it has."""
        self.heard.clear()
        start = await self._ask("GET", path)
        assert start["status"] == 200, start
        return sum(map(len, self.heard))

    async def follow(self, path: str, query: str = "") -> None:
        """Take a stream until cancelled."""
        await self._ask("GET", path, query=query, stay=True)

    async def _ask(
        self, method: str, path: str, *, query: str = "", body: bytes = b"", stay: bool = False
    ) -> Message:
        headers = [(b"host", b"127.0.0.1"), (b"cookie", self.cookie.encode())]
        headers += [
            (b"content-type", b"application/x-www-form-urlencoded"),
            (b"content-length", str(len(body)).encode()),
        ]
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "headers": headers, "scheme": "http", "root_path": "",
            "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        begun: list[Message] = []
        asked = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if asked:
                return asked.pop()
            await (anyio.sleep_forever() if stay else anyio.lowlevel.checkpoint())
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)
            else:
                self.heard.append(message.get("body", b""))

        await self.app(scope, receive, send)
        return begun[0]


async def measure(bench: Bench) -> None:
    await measure_visits(bench)
    async with open_engine(bench.settings(), ephemeral=True) as engine:
        storage = engine.settings.storage
        sign_in = SignIn(Identities(TOKEN, b"k" * 32, Members(storage)), Codes(), Attempts(), engine.audit)
        templates = Catalogue.at(storage)
        galleries = Galleries([], storage, Fetcher(engine.settings).body)
        site = Site(engine, Planner(engine), Verifier(engine), None, sign_in, templates, galleries)  # type: ignore[arg-type]
        app = application(site)
        window = Window(app)
        await window.sign_in()
        await _measure_opening(bench, engine.open, window)
        await _measure_watching(bench, await engine.create("printing"), window)


async def _measure_opening(bench: Bench, opened: Callable[..., Any], window: Window) -> None:
    path = bench.directory / "large.ipynb"
    _write_notebook(path, bench.size(10 * MB, MB))
    session = await opened(path)
    book = nbformat.read(path, as_version=4)

    async def ours() -> float:
        began = time.perf_counter()
        await window.open(f"/sessions/{session.id}")
        return time.perf_counter() - began

    async def theirs() -> float:
        began = time.perf_counter()
        HTMLExporter().from_notebook_node(book)
        return time.perf_counter() - began

    first = await ours()
    bench.claim(
        "100 cells, 10 MB: server time, first",
        milliseconds(first),
        target=f"< {OPENS_WITHIN_S:g} s",
        passed=first < OPENS_WITHIN_S,
    )
    times = await alternate(bench.size(3, 1), {"ours": ours, "nbconvert": theirs})
    bench.faster("100 cells, 10 MB: server time, again", times["ours"], times["nbconvert"], at_least=5)
    bench.inform("the page's bytes", f"{await window.open(f'/sessions/{session.id}') // 1000} kB")


def _write_notebook(path: Path, size: int) -> None:
    line = "a line of output that says something, again and again\n"
    text = line * (size // CELLS // len(line))
    cells = [
        nbformat.v4.new_code_cell(
            f"print({number})",
            outputs=[nbformat.v4.new_output("stream", name="stdout", text=text)],
            execution_count=number,
        )
        for number in range(1, CELLS + 1)
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


async def _measure_watching(bench: Bench, session: Session, window: Window) -> None:
    lines = bench.size(10_000, 1_000)
    code = f"import time\nfor n in range({lines}):\n    print('line', n, flush=True)\n    time.sleep(0.0005)"
    cell = await session.add_cell(code)

    async def watched(pages: int) -> float:
        async with anyio.create_task_group() as tasks:
            for _ in range(pages):
                page = Window(window.app, window.cookie)
                tasks.start_soon(partial(page.follow, f"/sessions/{session.id}/live"))
            began = time.perf_counter()
            execution = await session.run(cell.id)
            took = time.perf_counter() - began
            assert execution.ok, execution.error
            tasks.cancel_scope.cancel()
        return took

    times = await alternate(
        bench.size(3, 1), {"alone": partial(watched, 0), "pages": partial(watched, PAGES)}
    )
    alone, pages = (
        sorted(times["alone"])[len(times["alone"]) // 2],
        sorted(times["pages"])[len(times["pages"]) // 2],
    )
    ratio = pages / alone
    bench.claim(
        f"{lines} lines with {PAGES} pages open",
        milliseconds(pages),
        milliseconds(alone),
        f"{ratio:.2f}x",
        target="<= 1.5x",
        passed=ratio <= 1.5,
    )
    await _measure_sleeper(bench, session, window, f"line {lines - 1}")


async def _measure_sleeper(bench: Bench, session: Session, window: Window, last: str) -> None:
    sleeper = Window(window.app, window.cookie)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(sleeper.follow, f"/sessions/{session.id}/live", "since=0"))
        with anyio.move_on_after(30):
            while last.encode() not in b"".join(sleeper.heard):
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    there = last.encode() in b"".join(sleeper.heard)
    bench.claim(
        "a page that slept through it has the last line", "yes" if there else "no", target="yes", passed=there
    )


if __name__ == "__main__":
    main(measure, __doc__)
