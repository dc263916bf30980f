"""Makes the moving pictures of the README again: ``python docs/gallery/story.py``.

An MCP client does what an agent would, in a daemon that ends with it, and two browsers, one light and one dark, look at
the daemon's page. Needs Chromium (``apt install chromium-headless-shell``).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import Implementation
from PIL import Image, ImageDraw, ImageFont
from playwright.async_api import Page, async_playwright

HERE = Path(__file__).parent
COMMAND = str(Path(sys.executable).with_name("cellwright"))
SIZE = (960, 600)
CAPTION_HEIGHT = 56
THEMES = {"light": ("#f4f5f7", "#1c2733"), "dark": ("#10161d", "#e8edf2")}

ORDERS = """\
import pandas as pd
orders = pd.DataFrame({
    "region": ["North", "South", "East", "West"] * 6,
    "units": [12, 8, 10, None, 14, 9, 11, 7, 13, 8, 10, 6, 15, 7, None, 6, 12, 9, 11, 8, 14, 8, 12, 7],
    "price": [2.5, 3.0, 2.8, 3.2] * 6,
})
orders.head(3)"""
MISTAKE = """\
price = orders.pop("price")
orders["revenue"] = order["units"] * price"""
FILLS = {
    "mean": 'orders["units"] = orders["units"].fillna(orders["units"].mean())',
    "zero": 'orders["units"] = orders["units"].fillna(0)',
}
TOTAL = """\
orders["revenue"] = orders["units"] * orders["price"]
print(len(orders), "orders, total", round(orders["revenue"].sum(), 1))"""
CHART = """\
import matplotlib.pyplot as plt
sums = orders.groupby("region")["revenue"].sum()
figure, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
axis.bar(sums.index, sums, color="tab:blue")
axis.set(title="Revenue by region")
plt.show()"""


@dataclass
class Agent:
    """An MCP client with one notebook."""

    client: Client
    session_id: str = ""

    async def call(self, tool: str, **arguments: Any) -> Mapping[str, Any]:
        """Call a tool, and return its reply's data."""
        reply = await self.client.call_tool(tool, arguments)
        if reply.is_error:
            raise RuntimeError(f"{tool} failed: {reply.content}")
        return json.loads(reply.content[-1].text)

    async def run(self, code: str, *, session_id: str = "", **options: Any) -> None:
        """Add a cell and run it; it may fail."""
        arguments = {"session_id": session_id or self.session_id, "content": code, **options}
        await self.client.call_tool("cell_add_and_run", arguments)


@dataclass
class Film:
    """What the browsers saw, picture by picture."""

    pages: dict[str, Page]
    pictures: dict[str, list[Image.Image]] = field(default_factory=lambda: {name: [] for name in THEMES})
    durations_ms: list[int] = field(default_factory=list)

    async def open(self, address: str) -> None:
        """Open an address in every browser."""
        for page in self.pages.values():
            await page.goto(address)

    async def take(self, caption: str, seconds: float, *, see: str) -> None:
        """Take a picture once what the selector ``see`` finds is in view; it stands for so many seconds."""
        for theme, page in self.pages.items():
            # What is below the window is loaded when it is scrolled to.
            await page.evaluate(
                "[...document.querySelectorAll('article')].at(-1)?.scrollIntoView({ block: 'end' })"
            )
            shown = page.locator(see).last
            await shown.wait_for()
            await shown.evaluate("one => (one.closest('article') ?? one).scrollIntoView({ block: 'center' })")
            await page.evaluate("document.fonts.ready")
            await page.wait_for_function(
                "() => document.getElementById('says')?.children.length === 0"
                " && [...document.images].every(one => one.complete)"
            )
            seen = Image.open(BytesIO(await page.screenshot()))
            self.pictures[theme].append(_captioned(seen, caption, theme))
        self.durations_ms.append(round(seconds * 1000))

    def save(self) -> None:
        """Write one moving picture for each theme."""
        for theme, (first, *others) in self.pictures.items():
            target = HERE / f"story-{theme}.webp"
            first.save(
                target,
                save_all=True,
                append_images=others,
                duration=self.durations_ms,
                loop=0,
                quality=80,
                method=6,
            )
            print(f"{target.name}: {len(others) + 1} pictures, {target.stat().st_size / 1000:.0f} kB")  # noqa: T201  # a script
        print(f"{sum(self.durations_ms) / 1000:.0f} s")  # noqa: T201  # a script


def _captioned(seen: Image.Image, caption: str, theme: str) -> Image.Image:
    paper, ink = THEMES[theme]
    whole = Image.new("RGB", (seen.width, seen.height + CAPTION_HEIGHT), paper)
    whole.paste(seen, (0, 0))
    pen = ImageDraw.Draw(whole)
    middle = (seen.width / 2, seen.height + CAPTION_HEIGHT / 2)
    pen.text(middle, caption, fill=ink, font=ImageFont.load_default(size=24), anchor="mm")
    return whole


async def play(agent: Agent, film: Film, page_address: str) -> None:
    """Tell the story: a failure without a trace, two branches, one adopted, and the proof."""
    made = await agent.call("notebook_create", name="Revenue by region")
    agent.session_id = made["session_id"]
    await agent.run(ORDERS)
    await film.open(f"{page_address}/sessions/{agent.session_id}")
    await film.take("An agent works in a notebook", 2.5, see=".outputs >> text=North")

    await agent.run(MISTAKE, on_error="rollback")
    await film.take(
        "Its cell fails, and is rolled back: no column is lost", 3.5, see=".outputs >> text=NameError"
    )
    failed = (await agent.call("execution_list", session_id=agent.session_id, limit=1))["executions"][0]
    await agent.call("cell_delete", session_id=agent.session_id, cell_id=failed["cell_id"])

    branches = (await agent.call("session_branch", session_id=agent.session_id, count=2))["branches"]
    for branch, fill in zip(branches, FILLS.values(), strict=True):
        await agent.run(f"{fill}\n{TOTAL}", session_id=branch["session_id"])
    for branch, name in zip(branches, FILLS, strict=True):
        await film.open(f"{page_address}/sessions/{branch['session_id']}")
        await film.take(f"It tries two ways, each in a branch: {name}", 2.5, see=".outputs >> text=total")

    await agent.call("branch_adopt", session_id=branches[0]["session_id"])
    await film.open(f"{page_address}/sessions/{agent.session_id}")
    await film.take("The branch that worked is adopted", 3, see=".outputs >> text=total")
    await agent.run(CHART)
    await film.take("and the work goes on", 2.5, see=".outputs img")

    await agent.call("plan_verify", session_id=agent.session_id)
    await film.open(f"{page_address}/sessions/{agent.session_id}/verified")
    await film.take("Run once more from the top, the notebook proves itself", 5, see=".verdict")


@asynccontextmanager
async def _daemon(directory: Path) -> AsyncIterator[Mapping[str, str]]:
    """Start a daemon of the story's own; its environment."""
    environment = {
        **os.environ,
        "HOME": str(directory),
        "XDG_RUNTIME_DIR": str(directory),
        "CELLWRIGHT_STORAGE": str(directory / "state"),
        "CELLWRIGHT_PRELOAD": '["pandas", "matplotlib.pyplot"]',
    }
    try:
        yield environment
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.run_process(
                [COMMAND, "daemon", "stop", "--kernels"], env=environment, cwd=directory, check=False
            )


@asynccontextmanager
async def _browsers(environment: Mapping[str, str], directory: Path) -> AsyncIterator[dict[str, Page]]:
    """Open a page for each theme, signed in at the daemon."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        raise SystemExit("error: there is no Chromium\nhint: apt install chromium-headless-shell")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        pages = {}
        for theme in THEMES:
            told = await anyio.run_process([COMMAND, "ui", "--no-open"], env=dict(environment), cwd=directory)
            link = re.search(r"http://\S+", told.stdout.decode())
            if link is None:
                raise RuntimeError("`cellwright ui` printed no link")
            context = await browser.new_context(
                color_scheme="dark" if theme == "dark" else "light",
                viewport={"width": SIZE[0], "height": SIZE[1]},
                reduced_motion="reduce",
            )
            pages[theme] = await context.new_page()
            await pages[theme].goto(link[0])
        yield pages
        await browser.close()


async def main() -> None:
    """Play the story, and write what was seen."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = await stack.enter_async_context(_daemon(directory))
        server = StdioServerParameters(command=COMMAND, args=["mcp"], env=dict(environment), cwd=directory)
        client = await stack.enter_async_context(
            Client(stdio_client(server), client_info=Implementation(name="Agent", version="1"))
        )
        pages = await stack.enter_async_context(_browsers(environment, directory))
        film = Film(pages)
        address = re.match(r"http://[^/]+", pages["light"].url)
        if address is None:
            raise RuntimeError(f"no page at {pages['light'].url}")
        await play(Agent(client), film, address[0])
        film.save()


if __name__ == "__main__":
    anyio.run(main)
