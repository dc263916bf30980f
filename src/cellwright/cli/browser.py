"""Opens what whoever has its address gets into: for the person at this screen, and nobody else."""

from __future__ import annotations

import os
import webbrowser
from html import escape
from pathlib import Path

from cellwright.cli.notebooks import note

__all__ = ["open_browser"]


def open_browser(link: str, page: Path) -> None:
    """Open a link by way of a page: a browser's command line can be read by others, and this file cannot."""
    try:
        fd = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:  # a descriptor, opened 0600 from the start
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">')
        if not webbrowser.open(page.as_uri()):
            note("no browser was found: open the address above")
    except (OSError, webbrowser.Error) as error:
        note(f"no browser was opened ({error}): open the address above")
