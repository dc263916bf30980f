"""A question on its way as a person sees it: reasoning as it comes, code, what it put out, and what it has cost.

On a terminal with a part that is redrawn, elsewhere in plain lines. Shows what the tool ``ask`` streams; asks nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cellwright.cli.live_window import LiveWindow
from cellwright.cli.messages import counted, printable, spent, tokens

__all__ = ["AskView", "entry_lines"]

_LIVE_LINES = 10
_LINES = 20
_CODE_LINES = 60
_NOTED = frozenset({"repair", "branch", "adopt", "compact", "correct", "verify"})
# What a run ends with is told by whoever shows its outcome, and so is what the model said last.
_ENDS = frozenset({"answer", "stop"})
_INDENT = 4
_TOKENS = ("tokens_in", "tokens_out", "tokens_cached")


class AskView(LiveWindow):
    """Shows one run, on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._begun = time.monotonic()
        self._words: dict[int, str] = {}
        self._kinds: dict[int, str] = {}
        self._held: dict[str, Any] | None = None
        self._doing = ""
        self._total: dict[str, Any] = {}
        self.seen = 0
        """The number of the last entry that was shown."""
        self.conversation: str | None = None
        """Where a run that was stopped can be gone on with."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._let_go()
        super().__exit__(kind, error, trace)

    async def hear(
        self, progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        """Take in what is streamed; other words about progress are no JSON."""
        try:
            entries = json.loads(message or "")
        except ValueError:
            return
        for entry in entries if isinstance(entries, list) else ():
            self.take(entry)

    def take(self, entry: dict[str, Any]) -> None:
        """Show one thing that happened; what was shown is not shown again."""
        if entry["number"] <= self.seen:
            return
        self.seen = entry["number"]
        # Names of tools and models are the model's words, too.
        entry = {name: printable(one) if isinstance(one, str) else one for name, one in entry.items()}
        match entry["event"]:
            case "began":
                self._doing = _doing(entry)
            case "heard":
                self._hear(entry)
            case "ended":
                self._words.pop(entry["step"], None)
                self._total = entry["total"]
                self._end(entry)

    def _hear(self, entry: dict[str, Any]) -> None:
        step, kind = entry["step"], entry.get("kind", "")
        before, was = self._words.get(step, ""), self._kinds.get(step)
        self._kinds[step] = kind
        if kind == "again":  # what was heard does not count
            self._words.pop(step, None)
            self._print(Text(f"again: {printable(entry['text'])}", style="yellow"))
            return
        turn = "\n" if before and kind != was else ""
        self._words[step] = f"{before}{turn}{entry['text']}"

    def _end(self, entry: dict[str, Any]) -> None:
        """Show a step. What a model said waits for what follows: as the answer it is not shown twice."""
        if entry["kind"] in _ENDS:
            self._held = None
            return
        if entry["kind"] != "verify":
            self._let_go()
        for shown in entry_lines(entry, terminal=self._console.is_terminal):
            self._print(shown)
        if entry["kind"] == "request":
            self._held = entry

    def _let_go(self) -> None:
        held, self._held = self._held, None
        for shown in _said(held, terminal=self._console.is_terminal) if held is not None else ():
            self._print(shown)

    def _print(self, shown: RenderableType) -> None:
        self._console.print(shown, soft_wrap=not self._console.is_terminal)

    def stopped(self, found: dict[str, Any]) -> None:
        """Keep where to go on."""
        self.conversation = found.get("conversation")

    def _window(self) -> RenderableType:
        """The last words of a reply that is coming, and what it has cost so far."""
        words = next(reversed(self._words.values()), "") or (self._held or {}).get("text", "")
        lines = printable(words).splitlines()[-_LIVE_LINES:]
        # What a narrow terminal cuts off is at the end.
        facts = [
            self._doing or "asks",
            f"{time.monotonic() - self._begun:.0f} s",
            f"${self._total.get('usd', 0):.4f}",
            counted(self._total.get("requests", 0), "request"),
            tokens(*(self._total.get(name, 0) for name in _TOKENS)),
        ]
        status = Text("… " + " · ".join(facts), style="cyan", no_wrap=True, overflow="ellipsis")
        return Group(*(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines), status)


def _cost(total: dict[str, Any]) -> str:
    return spent(*(total.get(name, 0) for name in (*_TOKENS, "usd")))


def _doing(entry: dict[str, Any]) -> str:
    where = f" on {entry['branch']}" if entry.get("branch", "main") != "main" else ""
    what = {"request": entry.get("role") or "asks", "call": entry.get("tool") or "calls a tool"}
    return f"{what.get(entry['kind'], entry['kind'])}{where}"


# What ended ----------------------------------------------------------------------------------------------------------


def entry_lines(entry: dict[str, Any], *, terminal: bool) -> Iterator[RenderableType]:
    """A step that ended, as it is left on the screen; of a request without what was said."""
    match entry["kind"]:
        case "request":
            where = f" [{entry['branch']}]" if entry.get("branch", "main") != "main" else ""
            facts = f"{entry.get('model', '')}  {entry['took']:.1f} s  {_cost(entry['total'])}"
            style = "red" if entry["failed"] else "cyan"
            yield Text(f"● {entry.get('role', '')}{where}  {facts}", style=style)
            if entry.get("thinking"):
                yield _indented(_cut(entry["thinking"]), "dim italic", terminal=terminal)
        case "call":
            yield from _call(entry, terminal=terminal)
        case "choose":
            yield Text(f"pattern: {printable(entry.get('note', ''))}", style="magenta")
        case kind if kind in _NOTED:
            said = entry.get("note") or entry.get("error") or entry.get("result") or ""
            yield Text(f"{kind}: {_cut(said)}", style="red" if entry["failed"] else "yellow")


def _said(entry: dict[str, Any], *, terminal: bool) -> Iterator[RenderableType]:
    """What a model said, or why it did not."""
    if entry.get("text"):
        yield _indented(_cut(entry["text"]), "dim", terminal=terminal)
    if entry.get("error"):
        yield _indented(_cut(entry["error"]), "red", terminal=terminal)


def _call(entry: dict[str, Any], *, terminal: bool) -> Iterator[RenderableType]:
    where = f" [{entry['branch']}]" if entry.get("branch", "main") != "main" else ""
    mark, style = ("✗", "red") if entry["failed"] else ("✓", "green")
    yield Text(f"{mark} {entry.get('tool', '')}{where}  {entry['took']:.1f} s", style=style)
    runs = _different(entry.get("runs", ()))
    for run in runs:
        yield _code(run["code"], terminal=terminal)
        for name, colour in (("stdout", "default"), ("stderr", "red")):
            if text := run.get(name, "").rstrip():
                yield _indented(_cut(text), colour, terminal=terminal)
    told = bool(runs) and (not entry["failed"] or bool(runs[-1].get("stderr", "").strip()))
    said = entry.get("error") or ("" if told else entry.get("result", ""))
    if said:
        yield _indented(_cut(said), "red" if entry["failed"] else "dim", terminal=terminal)


def _different(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those that did the same as the one before: a cell is run once more to find out why it failed."""
    facts = [tuple(run.get(name) for name in ("code", "state", "stdout", "stderr")) for run in runs]
    return [run for place, run in enumerate(runs) if place == 0 or facts[place] != facts[place - 1]]


def _code(code: str, *, terminal: bool) -> RenderableType:
    text = _cut(code.strip("\n"), _CODE_LINES)
    if not terminal:
        return _indented(text, "default", terminal=False, by=_INDENT)
    from rich.syntax import Syntax  # a lexer takes a while, and only a terminal shows colours

    shown = Syntax(text, "python", background_color="default", word_wrap=True)
    return Padding(shown, (0, 0, 0, _INDENT))


def _indented(text: str, style: str, *, terminal: bool, by: int = 2) -> RenderableType:
    if terminal:  # lines that are too long go on below their beginning
        return Padding(Text(text, style=style), (0, 0, 0, by))
    return Text("\n".join(" " * by + line for line in text.splitlines()), style=style)


def _cut(text: str, most: int = _LINES) -> str:
    lines = printable(text).splitlines()
    if len(lines) <= most:
        return "\n".join(lines)
    return "\n".join([*lines[: most - 3], f"… {len(lines) - most + 1} lines", *lines[-2:]])
