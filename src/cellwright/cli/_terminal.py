"""What the command's exit code says, and how an error is shown."""

from __future__ import annotations

import re
import shutil
import sys
import time
from enum import IntEnum
from types import TracebackType
from typing import NoReturn, Self

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from cellwright.errors import CellwrightError

__all__ = [
    "ALL_TOKENS",
    "CLEAR",
    "TURN_MS",
    "ExitCode",
    "LiveWindow",
    "ProgressLine",
    "counted",
    "fail",
    "in_commands",
    "printable",
    "show_error",
    "spent",
    "tokens",
]


class ExitCode(IntEnum):
    """Documented in ``docs/reference/command-line.md``."""

    OK = 0
    RUN_FAILED = 1
    BAD_USAGE = 2
    ENGINE_FAILED = 3
    INTERRUPTED = 130


def show_error(error: CellwrightError) -> None:
    """Say on stderr what failed and what to do."""
    typer.echo(f"error: {error.message}", err=True)
    if error.hint:
        typer.echo(f"hint: {error.hint}", err=True)


def fail(error: CellwrightError, code: ExitCode = ExitCode.ENGINE_FAILED) -> NoReturn:
    """Say what failed, and end the command."""
    show_error(error)
    raise typer.Exit(code)


# Texts for a terminal: messages of the daemon's tools with commands in place of calls, numbers of tokens and
# money. Pure.

_THOUSAND = 1_000

_INSTEAD = {
    "execution_list": "`cellwright logs`",
    "execution_wait": "`cellwright wait`",
    "host_list": "`cellwright hosts`",
    "host_start": "`cellwright start`",
    "host_stop": "`cellwright stop`",
    "kernel_interrupt": "Ctrl-C",
    "notebook_create": "`cellwright new`",
    "notebook_list": "`cellwright list`",
    "notebook_read": "`cellwright show`",
    "notebook_replay": "`cellwright replay`",
    "plan_run": "`cellwright continue`",
    "plan_status": "`cellwright status`",
}

_CALL = re.compile(rf"`?\b({'|'.join(_INSTEAD)})\b(\([^)]*\))?`?")

_NAMED = re.compile(r"`?\bhost_start\(host='slurm:([\w-]+)'\)`?")

_WAITING = re.compile(r"`?\bhost_list\(wait=\d+\)`?")


def in_commands(text: str) -> str:
    """The same with commands where it names tools."""
    text = _NAMED.sub(lambda call: f"`cellwright start --name {call[1]}`", text)
    text = _WAITING.sub("`cellwright wait`", text)
    return _CALL.sub(lambda call: _INSTEAD[call[1]], text).replace("Next call: ", "Next: ")


def printable(text: str) -> str:
    """Text of models and notebooks without what a terminal would obey."""
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in text)


def counted(number: int, one: str) -> str:
    """A number of things, in words."""
    return f"{number} {one}{'s' * (number != 1)}"


def spent(tokens_in: int, tokens_out: int, cached: int, usd: float) -> str:
    """What was taken so far, in a few words."""
    return f"{tokens(tokens_in, tokens_out, cached)}, ${usd:.4f}"


def tokens(tokens_in: int, tokens_out: int, cached: int) -> str:
    """So many went in and came out."""
    of_those = f" ({_short(cached)} cached)" if cached else ""
    return f"{_short(tokens_in)}{of_those} + {_short(tokens_out)} tokens"


def _short(number: int) -> str:
    return f"{number / _THOUSAND:.1f}k" if number >= _THOUSAND else str(number)


# Waiting for the daemon from the command line: in turns, with one line on the terminal that says how it
# goes.

# A call to the daemon comes back after this long at the latest, so that an interrupt is noticed between calls too.
TURN_MS = 50_000

# The command line prints what the daemon kept, as far as one message carries it: only agents count tokens.
ALL_TOKENS = 2_000_000

CLEAR = "\r\x1b[K"


class ProgressLine:
    """One line on a terminal that says how long it has been and what was said last; gone when it is over."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty()
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()

    async def tell(
        self, progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        width = shutil.get_terminal_size().columns - 1
        line = f"… {time.monotonic() - self._begun:.0f} s  {message or ''}"
        sys.stderr.write(CLEAR + "".join(char for char in line if char.isprintable())[:width])
        sys.stderr.flush()


# The part of a terminal that is redrawn while something goes on. Where stderr is no terminal there is none.

_REFRESH_HZ = 8


class LiveWindow:
    """A view with such a part, for as long as its block lasts."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def _window(self) -> RenderableType:
        """What it shows now."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._window,
                refresh_per_second=_REFRESH_HZ,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
