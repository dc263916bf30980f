"""Which browser tests look with, and how it is started."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.conftest import Require
from tests.waiting import LIMIT_S

LIMIT_MS = LIMIT_S * 1_000

# The shell is the same browser without what draws its own windows, for a third of the processor's time.
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")


def launch_options(require: Require) -> dict[str, Any]:
    """What ``playwright.chromium.launch`` is to be called with."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    require("Chromium", program is not None, "apt install chromium-headless-shell")
    return {"executable_path": program, "args": ["--no-sandbox", "--disable-gpu"], "timeout": LIMIT_MS}


def firefox_options(require: Require) -> dict[str, Any]:
    """What ``playwright.firefox.launch`` is to be called with: Debian's Firefox, spoken to by WebDriver BiDi (ADR 54)."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    require("Firefox", program is not None, "apt install firefox-esr")
    return {"executable_path": program, "channel": "moz-firefox", "timeout": LIMIT_MS}


@contextmanager
def open_browser(require: Require) -> Iterator[Browser]:
    """A browser; while it is there its driver's loop runs in this thread."""
    options = launch_options(require)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()
