"""The line on a terminal that says how long something has gone on."""

from __future__ import annotations

import io
import sys
import threading

import anyio
import pytest

from cellwright.cli import _terminal
from cellwright.cli._terminal import ProgressLine
from tests.waiting import LIMIT_S


class Terminal(io.StringIO):
    """A terminal's stderr, which tells when a text was written."""

    def __init__(self, *awaited: str) -> None:
        super().__init__()
        self.seen = {text: threading.Event() for text in awaited}

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for awaited, event in self.seen.items():
            if awaited in text:
                event.set()
        return super().write(text)


def test_what_takes_long_says_so_by_itself_and_the_newest_line_is_the_one_that_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal("outer", "inner", "outer again")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_terminal, "_QUIET_S", 0.0)
    monkeypatch.setattr(_terminal, "_TICK_S", 0.001)
    with ProgressLine("outer") as outer:
        assert terminal.seen["outer"].wait(LIMIT_S)
        with ProgressLine("inner"):
            assert terminal.seen["inner"].wait(LIMIT_S)
            begun = terminal.getvalue().rindex("inner")
            assert "outer" not in terminal.getvalue()[begun:]
        outer.doing("outer again")
        assert terminal.seen["outer again"].wait(LIMIT_S)
    assert terminal.getvalue().endswith("\r\x1b[K"), "nothing is left of it"


def test_of_what_is_counted_a_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine() as line:
        anyio.run(line.tell, 2.4, 8, "2 of 8 cells, running for 3 s")
        assert terminal.getvalue().endswith("… 0 s  █████░░░░░░░░░░░░░░░  2 of 8 cells")
        line.reached(8, 8)
        anyio.run(line.tell, 0.5, None, "ok")
        assert terminal.getvalue().endswith(f"{'█' * 20}  8 of 8  ok")


def test_what_is_over_soon_or_goes_to_a_file_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine("short"):
        assert "short" not in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", file)
    with ProgressLine("to a file") as line:
        line.doing("more")
    assert file.getvalue() == ""
