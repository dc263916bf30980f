"""A plan as a person sees it: a live table of its TODOs on a terminal, a line for each change elsewhere.

Shows what the daemon's tools say (see ``plans.reports``); asks nothing and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cellwright.cli.livewindow import LiveWindow

__all__ = ["PlanView", "steps_of", "todo_table"]

_MARKS = {"pending": "·", "running": "▶", "done": "✓", "failed": "✗", "skipped": "↷"}
_COLOURS = {"pending": "dim", "running": "cyan", "done": "green", "failed": "red", "skipped": "yellow"}
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
# What stands around the rows of a table: title, rule, the lines after it.
_FRAME_LINES = 4
# Narrower than this, what the marks say already, and then what can be asked later, gives way to the TODOs.
_FULL_COLUMNS = 60
_FEW_COLUMNS = 40


def steps_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A plan's TODOs, and its validation as the last."""
    return [*plan["todos"], *([plan["validation"]] if "validation" in plan else [])]


class PlanView(LiveWindow):
    """Shows a plan while it is carried out, on stderr: on a terminal as a table that is redrawn, else in lines."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._plan: dict[str, Any] | None = None
        self._begun: dict[int, float] = {}
        self._said: set[tuple[Any, ...]] = set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._live is not None and self._plan is not None:
            self._console.print(todo_table(self._plan, self._elapsed(), columns=self._console.width))

    def know(self, plan: dict[str, Any]) -> None:
        """What happened before, and is no news."""
        self._said.update(what for what, _ in _news(plan))

    def show(self, plan: dict[str, Any]) -> None:
        """The plan as it is now. What was mended, and what else happened, is told once, as it happens."""
        self._plan = plan
        for step in steps_of(plan):
            if step["status"] == "running":
                self._begun.setdefault(step["number"], time.monotonic())
            else:
                self._begun.pop(step["number"], None)
        for what, text in _news(plan):
            if what not in self._said and (self._live is None or what[0] != "step"):
                self._console.print(text, soft_wrap=True)
            self._said.add(what)

    def _elapsed(self) -> dict[int, float]:
        now = time.monotonic()
        return {number: now - begun for number, begun in self._begun.items()}

    def _window(self) -> RenderableType:
        """As much of the table as the terminal has room for, around what is going on."""
        if self._plan is None:
            return Text("…")
        most = max(self._console.height - _FRAME_LINES, 3)
        return todo_table(self._plan, self._elapsed(), columns=self._console.width, most=most)


def _news(plan: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Text]]:
    """All that can be said of a plan, in order, each with what tells it from the rest."""
    for step in steps_of(plan):
        number = step["number"]
        for place, fix in enumerate(step.get("fixes", ())):
            yield ("fix", number, place), _fix_text(step, fix)
        for warning in step.get("warnings", ()):
            yield ("warning", number, warning), Text(f"warning: {number}. {_plain(warning)}", style="yellow")
        if step["status"] != "pending":
            yield ("step", number, step["status"], _attempts(step)), _line(step)
    for place, notice in enumerate(plan.get("notices", ())):
        yield ("notice", place), Text(f"note: {_plain(notice)}")


def todo_table(
    plan: dict[str, Any], elapsed: dict[int, float], *, columns: int, most: int | None = None
) -> RenderableType:
    """The TODOs as a table, with the seconds that have passed in those that run, for a terminal so wide."""
    steps = steps_of(plan)
    first, last = _around(steps, most)
    facts = _facts_shown(columns)
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    # All but the TODO's own column keep their width: a description is cut before a status is.
    table.add_column("", no_wrap=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("TODO")
    for fact in facts:
        table.add_column(fact, justify="left" if fact == "status" else "right", no_wrap=True)
    for step in steps[first:last]:
        colour = _COLOURS[step["status"]]
        seconds = step["seconds"] + elapsed.get(step["number"], 0.0)
        tried = _attempts(step)
        told = {
            "status": Text(step["status"], style=colour),
            "attempts": Text(str(tried or "")),
            "seconds": Text(f"{seconds:.1f}" if tried else ""),
        }
        table.add_row(
            Text(_MARKS[step["status"]], style=colour),
            Text(str(step["number"])),
            Text(_plain(step["description"]), no_wrap=True, overflow="ellipsis"),
            *(told[fact] for fact in facts),
        )
    hidden = len(steps) - (last - first)
    title = Text(_plain(plan["problem"]), style="bold", no_wrap=True, overflow="ellipsis")
    more = [Text(f"… {hidden} more", style="dim")] if hidden else []
    return Group(title, table, *more)


def _facts_shown(columns: int) -> tuple[str, ...]:
    if columns >= _FULL_COLUMNS:
        return ("status", "attempts", "seconds")
    return ("attempts", "seconds") if columns >= _FEW_COLUMNS else ()


def _around(steps: list[dict[str, Any]], most: int | None) -> tuple[int, int]:
    if most is None or len(steps) <= most:
        return 0, len(steps)
    current = next(
        (place for place, step in enumerate(steps) if step["status"] not in ("done", "skipped")), 0
    )
    first = min(max(current - most // 2, 0), len(steps) - most)
    return first, first + most


def _line(step: dict[str, Any]) -> Text:
    line = Text(f"{_MARKS[step['status']]} ", style=_COLOURS[step["status"]])
    line.append(f"{step['number']}. {_plain(step['description'])}", style="default")
    facts = list(_facts(step))
    if facts:
        line.append(f"  ({', '.join(facts)})", style="dim default")
    return line


def _facts(step: dict[str, Any]) -> Iterator[str]:
    if step["status"] == "skipped":
        yield f"skipped: {_plain(step['reason'])}" if step.get("reason") else "skipped"
    elif _attempts(step) > 1:
        yield f"attempt {_attempts(step)}" if step["status"] == "running" else f"{_attempts(step)} attempts"
    if step["status"] in ("done", "failed"):
        yield f"{step['seconds']:.2f} s"


def _attempts(step: dict[str, Any]) -> int:
    """How often it was tried in all, rounds before this one included."""
    return int(step["attempts"] + step.get("attempts_before", 0))


def _fix_text(step: dict[str, Any], fix: dict[str, Any]) -> Text:
    said = f"fix of {step['number']}. {_plain(step['description'])} by {fix['fixer']}"
    text = Text(said + (f": {_plain(fix['reason'])}" if fix.get("reason") else ""), style="yellow")
    for line in fix.get("diff", "").splitlines():
        text.append(f"\n  {_plain(line)}", style=_DIFF_COLOURS.get(line[:1], "default"))
    return text


def _plain(text: str) -> str:
    """Text of notebooks in one line, without what a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)
