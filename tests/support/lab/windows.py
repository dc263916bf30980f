"""A real JupyterLab in a real Chromium, with the notebook of a session open."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page, Response, expect

from tests.support.browsers import LIMIT_MS
from tests.system.daemon.conftest import Place, Pump
from tests.waiting import LIMIT_S

expect.set_options(timeout=LIMIT_MS)


@dataclass
class Window:
    """A person's view of a notebook in Lab."""

    page: Page
    session: str

    def cell(self, place: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(place)

    def run(self, place: int) -> None:
        self.cell(place).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def type(self, place: int, text: str) -> None:
        """Put text in place of what a cell has."""
        self.cell(place).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def shows(self, place: int, text: str) -> None:
        expect(self.cell(place).locator(".jp-OutputArea")).to_contain_text(text)

    def is_in_state(self, state: str) -> None:
        words = re.compile(rf"\(session {self.session}\) \| {state}")
        expect(self.page.locator("#jp-bottom-panel, #jp-main-statusbar").get_by_text(words)).to_be_visible()

    def save(self, *, button: str | None = None) -> None:
        """Save, with what the person clicks where Lab asks."""
        # A save ends with a checkpoint. Until then the notebook already counts as saved, and Lab ignores the next save.
        with self.page.expect_response(_makes_checkpoint):
            self.page.keyboard.press("Control+s")
            if button is not None:
                self.page.locator(".jp-Dialog").get_by_role("button", name=button).click()
        expect(self.page.locator(".lm-TabBar-tab.jp-mod-current.jp-mod-dirty")).to_have_count(0)
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)

    def choose(self, menu: str, entry: str, *, button: str | None = None) -> None:
        self.page.locator("#jp-MainMenu").get_by_text(menu, exact=True).click()
        self.page.locator(".lm-Menu").get_by_text(entry, exact=True).click()
        if button is not None:
            self.page.locator(".jp-Dialog").get_by_role("button", name=button).click()


def _makes_checkpoint(response: Response) -> bool:
    return response.request.method == "POST" and response.url.split("?")[0].endswith("/checkpoints")


@contextmanager
def started(place: Place, session: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """``cellwright session lab`` at work; ended as a person ends it."""
    process = place.start("lab", session, "--json")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read().decode() if process.stderr else ""
    try:
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


@contextmanager
def window(chromium: Browser, session: str, url: str) -> Iterator[Window]:
    page = chromium.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(LIMIT_MS)
    # Lab gives its own style sheet one and a half seconds, and asks whoever is there to take note.
    page.add_locator_handler(
        page.locator(".jp-Dialog", has_text="Error Loading Theme"),
        lambda dialog: dialog.get_by_role("button", name="OK").click(),
    )
    page.goto(url)
    opened = Window(page, session)
    opened.is_in_state("Idle")
    yield opened
    page.close()


def agent(place: Place) -> Pump:
    pump = place.pump()
    pump.initialize()
    return pump


def said(pump: Pump, tool: str, **arguments: Any) -> str:
    """What a tool answers, as an agent reads it."""
    return text_of(pump.answer(pump.begin(tool, **arguments)))


def text_of(answer: dict[str, Any]) -> str:
    return "\n".join(block.get("text", "") for block in answer["result"]["content"])


def notebook(pump: Pump, *sources: str) -> tuple[str, str]:
    """A new notebook with these cells behind its title; the session and the file."""
    made = pump.call("notebook_create", name="Shared with a person")
    for source in sources:
        pump.call("cell_add", session_id=made["session_id"], content=source)
    return made["session_id"], made["path"]
