"""What a person waits for in a real browser: at our page, at JupyterLab, and at nbconvert's HTML as a file.

Times are taken inside the page, from the frame that shows a thing; bytes are those that came over the wire, as the
browser counts them, headers included. It knows no target.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from playwright.async_api import Browser, BrowserContext, CDPSession, Page, async_playwright

__all__ = ["LAB", "OURS", "Look", "Visit", "Wire", "open_browser", "open_window", "pictured_at", "visit"]

_PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
_NOTHING_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
_LIMIT_S = 180
_LIMIT_MS = 1000 * _LIMIT_S
_IDLE_S = 0.7
_SETTLED_LIMIT_S = 120.0

_PAINTED = """([selector, count]) => new Promise((done) => {
  const look = () => {
    if (document.querySelectorAll(selector).length < count) return requestAnimationFrame(look);
    // What was there at the beginning of a frame is seen at its end.
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  };
  look();
})"""

_TYPED = """([selector, letter]) => new Promise((done) => {
  const look = () => {
    if (![...document.querySelectorAll(selector)].some((line) => line.textContent.includes(letter))) {
      return requestAnimationFrame(look);
    }
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  };
  look();
})"""

_PICTURED = """([selector, before]) => new Promise((done) => {
  const look = () => {
    const images = [...document.querySelectorAll(selector)];
    const fresh = images.find((image) => image.src !== before && image.complete && image.naturalWidth);
    if (!fresh) return requestAnimationFrame(look);
    const source = fresh.src;
    requestAnimationFrame(() => setTimeout(() => done([performance.timeOrigin + performance.now(), source])));
  };
  look();
})"""


# Cells are asked, not what is in them: whether a source is visible that is not drawn yet is not to be known without
# drawing it, which for every cell would take seconds that nobody who clicks waits for.
_SOURCE_IN_VIEW = """([cell, source]) => {
  const inView = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight ? box : null;
  };
  for (const one of document.querySelectorAll(cell)) {
    const { bottom, top } = one.getBoundingClientRect();
    const found = bottom > 0 && top < innerHeight ? one.querySelector(source) : null;
    const box = found && inView(found);
    if (box && found.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2))) {
      return [box.x + box.width / 2, box.y + box.height / 2];
    }
  }
  return null;
}"""

_CARET = """() => {
  const at = document.activeElement;
  return at?.matches("textarea, .cm-content, [contenteditable=true]") && at.closest("#cells, .jp-Notebook") !== null;
}"""


@dataclass(frozen=True, slots=True)
class Look:
    """Where a notebook's page has what a person looks for."""

    cell: str
    source: str
    """What is clicked to write in a cell."""
    source_in_cell: str
    """The same, from the cell on."""
    line: str
    """What the editor shows of the text."""
    picture: str
    stream: str = ""
    """The end of an address whose answer never ends."""


OURS = Look(
    cell="#cells article.cell",
    source="#cells article.code .shown",
    source_in_cell=":scope.code .shown",
    line="#cells .cm-content, #cells .editor[data-editing] textarea",
    picture="#cells .outputs img",
    stream="/live",
)
LAB = Look(
    cell=".jp-Notebook .jp-Cell",
    source=".jp-Notebook .jp-CodeCell .cm-content",
    source_in_cell=":scope.jp-CodeCell .cm-content",
    line=".jp-Notebook .cm-content",
    picture=".jp-OutputArea img",
)


@dataclass
class Wire:
    """Bytes that came over the wire for one page, and what is still on its way."""

    look: Look
    sizes: dict[str, float] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    moved_at: float = 0.0

    @property
    def kilobytes(self) -> float:
        return sum(self.sizes.values()) / 1000

    async def listen(self, context: BrowserContext, page: Page) -> CDPSession:
        cdp = await context.new_cdp_session(page)
        cdp.on("Network.requestWillBeSent", self._sent)
        cdp.on("Network.responseReceived", self._answered)
        cdp.on("Network.dataReceived", self._came)
        cdp.on("Network.loadingFinished", self._finished)
        cdp.on("Network.loadingFailed", self._failed)
        await cdp.send("Network.enable")
        return cdp

    def _sent(self, event: dict[str, Any]) -> None:
        url = event["request"]["url"].partition("?")[0]
        self.urls[event["requestId"]] = url
        if url.startswith("http") and not (self.look.stream and url.endswith(self.look.stream)):
            self.open.add(event["requestId"])
        self.moved_at = anyio.current_time()

    def _answered(self, event: dict[str, Any]) -> None:
        self.sizes[event["requestId"]] = event["response"].get("encodedDataLength", 0)

    def _came(self, event: dict[str, Any]) -> None:
        self.sizes[event["requestId"]] = self.sizes.get(event["requestId"], 0) + event["encodedDataLength"]

    def _finished(self, event: dict[str, Any]) -> None:
        self.sizes[event["requestId"]] = event["encodedDataLength"]
        self._failed(event)

    def _failed(self, event: dict[str, Any]) -> None:
        self.open.discard(event["requestId"])
        self.moved_at = anyio.current_time()

    def largest(self, count: int = 5) -> str:
        order = sorted(self.sizes.items(), key=lambda one: -one[1])[:count]
        return ", ".join(
            f"{self.urls.get(key, '?').rpartition('/')[2]} {size / 1000:.1f}" for key, size in order
        )


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise RuntimeError("There is no Chromium: apt install chromium-headless-shell")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", _NOTHING_ELSE], timeout=_LIMIT_MS
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_window(browser: Browser, **options: Any) -> AsyncIterator[BrowserContext]:
    """A browser that has seen nothing yet."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(_LIMIT_MS)
    try:
        yield context
    finally:
        await context.close()


@dataclass(slots=True)
class Visit:
    """One page that was opened, and what it cost."""

    page: Page
    wire: Wire
    painted_s: float
    """From the click on its address up to the frame that shows its cells."""
    cdp: CDPSession

    async def work_s(self) -> dict[str, float]:
        """Processor time of the page's main thread so far, by kind."""
        told = (await self.cdp.send("Performance.getMetrics"))["metrics"]
        wanted = {"TaskDuration": "all", "ScriptDuration": "script", "LayoutDuration": "layout"}
        wanted["RecalcStyleDuration"] = "style"
        return {wanted[one["name"]]: one["value"] for one in told if one["name"] in wanted}

    async def settle(self) -> None:
        """Return when nothing comes any more."""
        with anyio.fail_after(_SETTLED_LIMIT_S):
            while self.wire.open or anyio.current_time() - self.wire.moved_at < _IDLE_S:
                await anyio.sleep(0.05)

    async def type(self, letter: str) -> float:
        """Click on the first source in view and type; the time up to the frame that shows the letter, from the click on."""
        look = self.wire.look
        place = await self.page.wait_for_function(_SOURCE_IN_VIEW, arg=[look.cell, look.source_in_cell])
        x, y = await place.json_value()
        began = await self.page.evaluate("performance.now()")
        await self.page.mouse.click(x, y)
        await self.page.wait_for_function(_CARET)
        await self.page.keyboard.press("Control+End")
        await self.page.keyboard.type(letter)
        with anyio.fail_after(_LIMIT_S):
            shown: float = await self.page.evaluate(_TYPED, [self.wire.look.line, letter])
        return (shown - began) / 1000


async def visit(context: BrowserContext, look: Look, url: str, *, cells: int) -> Visit:
    """Open an address in a new tab, up to the frame that shows so many cells."""
    page = await context.new_page()
    wire = Wire(look)
    cdp = await wire.listen(context, page)
    # The processor's time: what other work there is on the machine hardly matters to it.
    await cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    await page.goto(url, wait_until="commit")
    with anyio.fail_after(_LIMIT_S):
        shown = await page.evaluate(_PAINTED, [look.cell, cells])
    return Visit(page, wire, shown / 1000, cdp)


async def pictured_at(page: Page, look: Look, before: str) -> tuple[float, str]:
    """When a picture other than ``before`` is seen, in seconds since 1970, and its address."""
    with anyio.fail_after(_LIMIT_S):
        at, source = await page.evaluate(_PICTURED, [look.picture, before])
    return at / 1000, source
