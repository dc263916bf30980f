"""The commands for plans: ``continue``, ``fix``, ``skip`` and ``status``. Ctrl-C pauses a plan; ``continue`` goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn, TypeVar

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cellwright.cli._allocations import find_host, hosts_of, show_hosts
from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._mcp_client import Caller, ToolRefused, call_daemon
from cellwright.cli._session_names import NotebookArgument, session_opened
from cellwright.cli._terminal import ALL_TOKENS, TURN_S, AsJson, ExitCode, LiveWindow, echo, show_data, table

__all__ = [
    "PlanView",
    "carried_out",
    "conclude",
    "continue_plan",
    "fix",
    "plan_status",
    "skip",
    "status",
    "todo_table",
]
T = TypeVar("T")


_NO_PLAN = ". plan_create makes one"


def continue_plan(
    session: NotebookArgument,
    as_json: AsJson = False,
) -> None:
    """Run a notebook's plan, or go on after the last TODO that is done. Exits 0 if the plan succeeded, else 1."""
    _drive("plan_run", session, as_json=as_json)


def fix(
    session: NotebookArgument,
    stdin: Annotated[
        str | None, Argument(metavar="-", help="`-` reads the code from stdin.", show_default=False)
    ] = None,
    code: Annotated[str | None, Option("--code", help="The TODO's new code.")] = None,
    file: Annotated[Path | None, Option("--file", help="Or: the file that has it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give the TODO that failed, or that waits for it, new code, and go on; without code the fixers are asked."""
    if sum(given is not None for given in (stdin, code, file)) > 1:
        _misused("give the code once: --code, --file or -", "--code")
    if stdin not in (None, "-"):
        _misused(f"{stdin!r} is not `-`", "-")
    _drive("plan_fix", session, as_json=as_json, code=_code(stdin, code, file))


def _code(stdin: str | None, code: str | None, file: Path | None) -> str | None:
    if file is not None:
        try:
            code = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            _misused(f"cannot read {file}: {getattr(error, 'strerror', None) or error}", "--file")
    elif stdin is not None or code == "-":
        code = sys.stdin.read()
    if code is not None and not code.strip():
        _misused("there is no code in it", "--file" if file is not None else "--code")
    return code


def skip(
    session: NotebookArgument,
    reason: Annotated[str | None, Option(help="Why; it is kept with the plan.")] = None,
    as_json: AsJson = False,
) -> None:
    """Leave the TODO that the plan stands at, and go on after it. Exits 0 if the plan succeeded, else 1."""
    _drive("plan_skip", session, as_json=as_json, reason=reason)


def status(
    session: Annotated[
        str | None,
        Argument(
            metavar="NOTEBOOK_OR_SESSION_OR_HOST",
            help="Whose plan, or which host. [default: all]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a plan stands: each TODO with its attempts and seconds, and why it stopped; or how a host does. Runs nothing."""
    if session is None:
        _list_all(as_json=as_json)
        return

    async def ask(caller: Caller) -> dict[str, Any]:
        if (host := await find_host(caller, session)) is not None:
            return host
        return await caller.data("plan_status", session_id=await session_opened(caller, session))

    plan = call_daemon(lambda caller: _told(ask(caller)))
    if not as_json and "host" in plan:
        show_hosts([plan])
        return
    _show_plan(plan, as_json=as_json)


def plan_status(
    session: Annotated[
        str | None,
        Argument(metavar="[NOTEBOOK_OR_SESSION]", help="Whose plan. [default: all]", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a plan stands: each TODO with its attempts and seconds, and why it stopped. Runs nothing."""
    if session is None:
        planned = _planned(call_daemon(lambda caller: caller.data("notebook_list", filter="all")))
        _show_planned(planned, planned, as_json=as_json)
        return

    async def ask(caller: Caller) -> dict[str, Any]:
        return await caller.data("plan_status", session_id=await session_opened(caller, session))

    _show_plan(call_daemon(lambda caller: _told(ask(caller))), as_json=as_json)


def _show_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_data(plan, "", as_json=True)
        return
    console = Console(highlight=False)
    console.print(todo_table(plan, {}, columns=console.width))
    for note in _notes(plan):
        _note(note)
    if plan["phase"] == "succeeded":
        echo(plan["summary"])
    else:
        _say_why(plan)


def _list_all(*, as_json: bool) -> None:
    async def ask(caller: Caller) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        return await hosts_of(caller), await caller.data("notebook_list", filter="all")

    hosts, data = call_daemon(ask)
    planned = _planned(data)
    if not as_json:
        show_hosts(hosts)
    _show_planned(planned, {"hosts": hosts, "plans": planned}, as_json=as_json)


def _planned(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in data["sessions"] if "plan" in one]


def _show_planned(planned: list[dict[str, Any]], data: Any, *, as_json: bool) -> None:
    rows = [(one["session_id"], one["plan"], one["path"]) for one in planned]
    show_data(data, table(("SESSION", "PLAN", "NOTEBOOK"), rows), as_json=as_json)
    if not planned:
        _note("no plans; `cellwright new PROBLEM --plan FILE` makes one")


# Carrying a plan out -------------------------------------------------------------------------------------------------


def _drive(tool: str, session: str, *, as_json: bool, **asked: Any) -> None:
    async def run(caller: Caller) -> dict[str, Any]:
        return await carried_out(caller, tool, await session_opened(caller, session), **asked)

    plan = call_daemon(lambda caller: _told(run(caller)), doing=None)
    show_data(plan, "", as_json=as_json)
    conclude(plan, as_json=as_json)


async def carried_out(caller: Caller, tool: str, session: str, **asked: Any) -> dict[str, Any]:
    """Begin what a tool does with a plan, show it, and return the plan when it has come to a halt.

    Whoever interrupts pauses the plan.
    """
    before = await caller.data("plan_status", session_id=session)
    # Whoever interrupts means the plan, so that it has begun is awaited even then.
    with anyio.CancelScope(shield=True):
        begun = await caller.data(tool, session_id=session, **asked, wait_s=0, response_format="json")
    session = begun["session_id"]
    try:
        with PlanView() as view:
            view.know(before)
            view.show(begun)
            try:
                return await _finished(caller, begun, view)
            except anyio.get_cancelled_exc_class():
                with caller.stopping():
                    # The cancelled call pauses it too, but for one that was just about to be made.
                    await caller.data("kernel_interrupt", session_id=session)
                    view.show(await caller.data("plan_status", session_id=session))
                raise
    except anyio.get_cancelled_exc_class():
        # Below the table, which would draw over it.
        _note(f"paused; `cellwright plan run {session}` goes on")
        raise


async def _finished(caller: Caller, begun: dict[str, Any], view: PlanView) -> dict[str, Any]:
    ring, rung = anyio.create_memory_object_stream[None](1)
    found = begun

    async def tell(
        progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        # Not asked from here: the answer would have to come past this very call.
        try:
            ring.send_nowait(None)
        except anyio.WouldBlock:
            return

    async with ring, rung, anyio.create_task_group() as tasks:
        tasks.start_soon(_look_when_told, caller, begun["session_id"], view, rung)
        while found["phase"] == "running":
            found = await caller.data(
                "plan_run",
                progress=tell,
                session_id=begun["session_id"],
                run_id=begun["run_id"],
                wait_s=TURN_S,
                response_format="json",
                max_tokens=ALL_TOKENS,
            )
        tasks.cancel_scope.cancel()
    view.show(found)
    return found


async def _look_when_told(
    caller: Caller, session: str, view: PlanView, rung: MemoryObjectReceiveStream[None]
) -> None:
    async for _ in rung:
        view.show(await caller.data("plan_status", session_id=session))


async def _told(work: Awaitable[T]) -> T:
    """The same, with a refusal for want of a plan in this command's own words."""
    try:
        return await work
    except ToolRefused as error:
        if _NO_PLAN not in error.message:
            raise
        raise ToolRefused(
            error.message.partition(_NO_PLAN)[0],
            hint="`cellwright new PROBLEM --plan FILE` makes a notebook with a plan",
        ) from None


# What came of it -----------------------------------------------------------------------------------------------------


def conclude(plan: dict[str, Any], *, as_json: bool) -> NoReturn:
    """Say what became of a plan, and end with a code that says it too."""
    if plan["phase"] == "succeeded":
        if not as_json:
            echo(plan["summary"])
        if (hint := _where_files_are(plan)) is not None:
            _note(hint)
        _note(
            f"hint: `cellwright verify {plan['session_id']}` runs the notebook again in a clean kernel, and compares"
        )
        raise Exit(ExitCode.OK)
    _say_why(plan)
    raise Exit(ExitCode.RUN_FAILED)


def _say_why(plan: dict[str, Any]) -> None:
    session, current = plan["session_id"], plan.get("next", {})
    step = f"{current.get('number')}. {current.get('description')}"
    match plan["phase"]:
        case "stopped":
            _note(plan["report"]["text"])
            _note(f"hint: {_ways_on(plan)}")
        case "waiting":
            _note(f"waiting: {step} has no code")
            _note(f"hint: {_ways_on(plan)}")
        case "running":
            _note(f"running; `cellwright plan run {session}` shows it")
        case phase:
            _note(f"{phase}; `cellwright plan run {session}` goes on")


def _ways_on(plan: dict[str, Any]) -> str:
    """What can be decided where a plan waits or has stopped."""
    session = plan["session_id"]
    ways = [f"`cellwright plan fix {session} --code TEXT`"]
    if plan.get("next", {}).get("number", 0) <= plan["total"]:  # a validation comes after all TODOs
        ways.append(f"`cellwright plan skip {session}`")
    if plan["phase"] == "stopped":
        ways.append(f"`cellwright plan run {session}` to try the same again")
    return ", or ".join([", ".join(ways[:-1]), ways[-1]] if len(ways) > 1 else ways)


def _where_files_are(plan: dict[str, Any]) -> str | None:
    """How to get at what the cells wrote, where that is not in the notebook's folder."""
    if not any(step.get("files") for step in steps_of(plan)):
        return None
    session = plan["session_id"]
    match plan["mode"]:
        case "overlay":
            return f"hint: `cellwright files apply {session}` brings these files into the project"
        case "private":
            return f"hint: `cellwright files list {session}` says where these files are; they go with the session"
    return None


def _notes(plan: dict[str, Any]) -> list[str]:
    told = [
        f"warning: {step['number']}. {text}" for step in plan["todos"] for text in step.get("warnings", ())
    ]
    told += [f"note: {text}" for text in plan.get("notices", ())]
    return [*told, "note: this plan is a draft, made by rule; look it over"] if plan["draft"] else told


def _misused(problem: str, option: str) -> NoReturn:
    raise BadArgument(problem, argument=option)


def _note(text: str) -> None:
    echo(text, err=True)


# A plan as a person sees it: a live table of its TODOs on a terminal, a line for each change elsewhere.

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
        """The plan as it is now. What was fixed, and what else happened, is told once, as it happens."""
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
