"""What a command prints, how it says that something goes on, how an error is shown, and what its exit code says."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self

from cellwright.cli._arguments import Exit, Option
from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

__all__ = [
    "ALL_TOKENS",
    "CLEAR",
    "TURN_S",
    "AsJson",
    "ExitCode",
    "LiveWindow",
    "ProgressLine",
    "as_installed",
    "bar",
    "confirm",
    "counted",
    "echo",
    "fail",
    "from_here",
    "in_commands",
    "local_time",
    "note",
    "printable",
    "show_data",
    "show_error",
    "spent",
    "table",
    "tokens",
]


AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]


# Colours and the like are for terminals.
_ESCAPE = re.compile(r"\x1b\[[;?0-9]*[a-zA-Z]")


class ExitCode(IntEnum):
    """Documented in ``docs/reference/command-line.md``."""

    OK = 0
    RUN_FAILED = 1
    BAD_USAGE = 2
    ENGINE_FAILED = 3
    INTERRUPTED = 130


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, on stdout or on stderr, at once."""
    stream = sys.stderr if err else sys.stdout
    stream.write((text if stream.isatty() else _ESCAPE.sub("", text)) + "\n" * nl)
    stream.flush()


def confirm(question: str, *, default: bool) -> bool:
    """Ask a person at the terminal for yes or no.

    Raises:
        EOFError: the input ended.
    """
    while True:
        echo(f"{question} [{'Y/n' if default else 'y/N'}]: ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        answer = line.strip().lower()
        if answer in ("", "y", "yes", "n", "no"):
            return answer[0] == "y" if answer else default


def show_data(data: Any, text: str, *, as_json: bool) -> None:
    """Print what a command answers, on stdout."""
    if as_json:
        echo(json.dumps(data, ensure_ascii=False))
    elif text:
        echo(text)


def note(text: str) -> None:
    """Say something beside the data, on stderr."""
    echo(as_installed(text), err=True)


def show_error(error: CellwrightError) -> None:
    """Say on stderr what failed and what to do."""
    echo(as_installed(f"error: {error.message}"), err=True)
    if error.hint:
        echo(as_installed(f"hint: {error.hint}"), err=True)


def fail(error: CellwrightError, code: ExitCode = ExitCode.ENGINE_FAILED) -> NoReturn:
    """Say what failed, and end the command."""
    show_error(error)
    raise Exit(code)


# Texts for a terminal: messages of the daemon's tools with commands in place of calls, numbers of tokens and
# money. Pure.

_THOUSAND = 1_000

_INSTEAD = {
    "execution_list": "`cellwright session logs`",
    "execution_wait": "`cellwright session wait`",
    "host_list": "`cellwright host list`",
    "host_start": "`cellwright host start`",
    "host_stop": "`cellwright host stop`",
    "kernel_interrupt": "Ctrl-C",
    "notebook_create": "`cellwright new`",
    "notebook_list": "`cellwright list`",
    "notebook_read": "`cellwright show`",
    "notebook_replay": "`cellwright session replay`",
    "package_install": "`cellwright packages add`",
    "plan_run": "`cellwright plan run`",
    "plan_status": "`cellwright plan status`",
}

_CALL = re.compile(rf"`?\b({'|'.join(_INSTEAD)})\b(\([^)]*\))?`?")

_NAMED = re.compile(r"`?\bhost_start\(host='slurm:([\w-]+)'\)`?")

_WAITING = re.compile(r"`?\bhost_list\(wait_s=\d+\)`?")


def in_commands(text: str) -> str:
    """The same with commands where it names tools."""
    text = _NAMED.sub(lambda call: f"`cellwright host start --name {call[1]}`", text)
    text = _WAITING.sub("`cellwright host wait`", text)
    return _CALL.sub(lambda call: _INSTEAD[call[1]], text).replace("Next call: ", "Next: ")


_PIP = re.compile(r"pip install 'cellwright\[([\w,]+)\]'")


def as_installed(text: str) -> str:
    """The same; where uv installed the program as its tool, an extra is added by uv, beside those that were asked for."""
    if _PIP.search(text) is None:
        return text
    try:
        receipt = Path(sys.prefix, "uv-receipt.toml").read_text(encoding="utf-8")
    except OSError:
        return text
    import tomllib  # most commands need none

    asked = tomllib.loads(receipt)["tool"]["requirements"]
    there: list[str] = next((one.get("extras", []) for one in asked if one["name"] == "cellwright"), [])

    def by_uv(found: re.Match[str]) -> str:
        return f"uv tool install 'cellwright[{','.join(sorted({*there, *found[1].split(',')}))}]'"

    return _PIP.sub(by_uv, text)


def printable(text: str) -> str:
    """Text of models and notebooks without what a terminal would obey."""
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in text)


def from_here(path: str) -> str:
    """A path as it is typed in this directory."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path


def counted(number: int, one: str) -> str:
    """A number of things, in words."""
    return f"{number} {one}{'s' * (number != 1)}"


def local_time(seconds: float) -> str:
    """A time since 1970, as a clock here shows it."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows in columns below their headers; nothing where there are no rows."""
    lines = [[str(cell) for cell in row] for row in rows]
    if not lines:
        return ""
    widths = [max(map(len, column)) for column in zip(headers, *lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (headers, *lines)
    )


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
TURN_S = 50

# The command line prints what the daemon kept, as far as one message carries it: only agents count tokens.
ALL_TOKENS = 2_000_000

CLEAR = "\r\x1b[K"


# What is over sooner needs no word.
_QUIET_S = 2.0
_TICK_S = 0.5
_BAR_WIDTH = 20
# The line itself counts the seconds.
_ELAPSED = re.compile(r", running for \d+ s$")


class ProgressLine:
    """One line on a terminal that says how long something has gone on, and what was said of it last; gone at its end.

    Of what is counted it shows a bar. It comes with the first message, or by itself after two seconds, and makes way for another that begins meanwhile.
    """

    # The newest is the one that is drawn.
    _open: ClassVar[list[ProgressLine]] = []
    _paused: ClassVar[bool] = False

    def __init__(self, doing: str = "") -> None:
        self.wanted = sys.stderr.isatty()
        self._message = doing
        self._bar = ""
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._drawing = threading.Lock()

    def __enter__(self) -> Self:
        if self.wanted:
            self._open.append(self)
            threading.Thread(target=self._tick, name="progress_line", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            with self._drawing:
                self._over.set()
                self._open.remove(self)
                sys.stderr.write(CLEAR)
                sys.stderr.flush()

    async def tell(
        self, progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        self._message = _ELAPSED.sub("", message or "")
        if total:
            self._bar = bar(int(progress), int(total))
        self._draw()

    @classmethod
    @contextmanager
    def paused(cls) -> Iterator[None]:
        """Draw nothing in here: a person is typing."""
        cls._paused = True
        try:
            yield
        finally:
            cls._paused = False

    def doing(self, message: str) -> None:
        """Say what goes on now, once two seconds are over."""
        self._message = message

    def reached(self, done: int, total: int) -> None:
        """Show how many of several things are over."""
        self._bar = f"{bar(done, total)}{done} of {total}  "

    def _tick(self) -> None:
        wait_s = _QUIET_S
        while not self._over.wait(wait_s):
            self._draw()
            wait_s = _TICK_S

    def _draw(self) -> None:
        with self._drawing:
            if self._over.is_set() or not self.wanted or self._paused or self._open[-1] is not self:
                return
            width = shutil.get_terminal_size().columns - 1
            line = f"… {time.monotonic() - self._begun:.0f} s  {self._bar}{self._message}"
            sys.stderr.write(CLEAR + printable(line).replace("\n", " ").replace("\t", " ")[:width])
            sys.stderr.flush()


def bar(done: int, total: int) -> str:
    """How much of it is over, as a bar."""
    full = min(done, total) * _BAR_WIDTH // total
    return "█" * full + "░" * (_BAR_WIDTH - full) + "  "


# The part of a terminal that is redrawn while something goes on. Where stderr is no terminal there is none.

_REFRESH_HZ = 8


class LiveWindow:
    """A view with such a part, for as long as its block lasts."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console  # most commands draw nothing

        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def _window(self) -> RenderableType:
        """What it shows now."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.live import Live

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
