"""``cellwright run``: a notebook from top to bottom, in an engine of its own that leaves nothing behind."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cellwright.cli._allocations import host_named
from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._flags import HostOption, LimitOption, OnError, OnErrorOption, UnsafeOption, limit_values
from cellwright.cli._questions import ask, can_ask, choose
from cellwright.cli._session_names import existing_file
from cellwright.cli._terminal import ExitCode, bar, echo, show_error
from cellwright.errors import CellwrightError, NotebookError, QuestionOver
from cellwright.notebook import inject_parameters, parse_parameter
from cellwright.sandbox.policy import Narrowing

if TYPE_CHECKING:
    from cellwright.engine import Execution, Session
    from cellwright.engine.approvals import Approval, Choice, Decision
    from cellwright.engine.questions import Question

__all__ = ["run"]

_MARKS = {"ok": "✓", "error": "✗", "timeout": "⏱", "interrupted": "·", "died": "†"}
_COLOURS = {"ok": "green", "error": "red", "timeout": "red", "interrupted": "yellow", "died": "red"}
_REFRESH_S = 0.1
# Longer than a cell has to stop before its kernel is killed (interrupt_grace_s).
_STOP_S = 10.0
_TITLE_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked for."""

    notebook: Path
    output: Path | None
    timeout_s: float | None
    parameters: dict[str, Any]
    allow_errors: bool
    unsafe: bool = False
    limits: Narrowing | None = None
    on_error: OnError = OnError.KEEP
    host: str | None = None


def run(
    notebook: Annotated[Path, Argument(help="The notebook to run.", metavar="NOTEBOOK.ipynb")],
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write here instead of into the notebook itself.")
    ] = None,
    timeout: Annotated[
        float | None,
        Option(min=0.001, help="Seconds a cell may run. [default: the setting cell_timeout_s]"),
    ] = None,
    param: Annotated[
        list[str] | None,
        Option("-p", "--param", metavar="NAME=VALUE", help="Set a variable; may be repeated."),
    ] = None,
    allow_errors: Annotated[bool, Option("--allow-errors", help="Go on after a failing cell.")] = False,
    on_error: OnErrorOption = OnError.KEEP,
    limit: LimitOption = None,
    host: HostOption = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
    unsafe: UnsafeOption = False,
) -> None:
    """Run a notebook top to bottom and write its outputs. Exits 0 if every cell ran well, else 1."""
    from cellwright.engine.workspace import session_narrowing  # other commands do without the engine

    if allow_errors and on_error is OnError.ROLLBACK:
        raise BadArgument("with --allow-errors no failure is one to roll back", argument="--on-error")
    try:
        parameters = dict(parse_parameter(text) for text in param or [])
        limits = session_narrowing(limit_values(limit))
        request = Request(
            notebook, output, timeout, parameters, allow_errors, unsafe, limits, on_error, host_named(host)
        )
        report = anyio.run(_run, request)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.ENGINE_FAILED) from None
    except KeyboardInterrupt:
        echo("interrupted: the cells that ran are saved", err=True)
        raise Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        echo(json.dumps(report.data, ensure_ascii=False))
    else:
        written = output or notebook
        echo(f"outputs are in {written}; `cellwright ui {shlex.quote(str(written))}` shows them", err=True)
    raise Exit(ExitCode.OK if report.ok else ExitCode.RUN_FAILED)


@dataclass(slots=True)
class Report:
    """What came of it."""

    data: dict[str, Any] = field(default_factory=dict)
    ok: bool = False


async def _run(request: Request) -> Report:
    from cellwright.assembly import open_engine  # as above

    source = existing_file(request.notebook)
    target = source if request.output is None else _copied(source, request.output.resolve())
    # One run needs one kernel: a second one standing by would only slow the first one's start.
    flags: dict[str, Any] = {"unsafe_no_sandbox": True} if request.unsafe else {}
    from cellwright.settings import load_settings  # most commands do without pydantic

    settings = load_settings(root=source.parent, standby_kernels=1, host_idle_s=5, max_sessions=1, **flags)
    async with open_engine(settings, ephemeral=True) as engine:
        with _asked_here():
            session = await engine.open(
                target,
                cwd=source.parent,
                mode="direct",
                limits=request.limits,
                host=request.host,
                chosen=Path.cwd(),
            )
        if session.banner is not None:
            echo(session.banner, err=True)
        if request.parameters:
            await session.apply(inject_parameters(session.document, request.parameters))
        with _attended(session):
            executions = await session.execute_all(
                timeout_s=request.timeout_s,
                allow_errors=request.allow_errors,
                on_error=request.on_error.value,
            )
            try:
                await _show_progress(session, executions)
            except anyio.get_cancelled_exc_class():
                await _stop(session, executions)
                raise
        await session.save()
    return _report(target, session, executions, request)


class _TerminalAsker:
    """Asks the person at the terminal (see ``engine.approvals.Asker``)."""

    name = "the person at the terminal"
    earlier = ()

    def can_ask(self) -> bool:
        """Whether somebody sits there."""
        return can_ask()

    def defer(self, question: Approval) -> None:
        """Nothing: the answer comes at once."""

    async def ask(self, question: Approval) -> Choice | None:
        """Ask in a line."""
        choices = question.choices
        chosen = await choose(f"{question.by} asks to {question.matter.what}. Allow it?", list(choices))
        return next(choice for choice in choices if choice == chosen)

    def overtaken(self, decision: Decision) -> None:
        """Nothing: nobody else is asked."""


def _asked_here() -> AbstractContextManager[None]:
    from cellwright.engine.approvals import asked_through  # as above

    return asked_through(_TerminalAsker())


async def _stop(session: Session, executions: list[Execution]) -> None:
    """Stop what runs, and wait for what the host has yet to tell of what ran: it is saved when the engine closes."""
    # A host that is gone cannot be asked, and has nothing more to tell: the interrupt stays one.
    with anyio.move_on_after(_STOP_S, shield=True), suppress(CellwrightError):
        await session.interrupt()
        for execution in executions:
            await execution.wait()


def _copied(source: Path, target: Path) -> Path:
    if source != target:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise NotebookError(f"Cannot copy {source} to {target}: {error.strerror}") from error
    return target


async def _show_progress(session: Session, executions: list[Execution]) -> None:
    """A line for each cell when it is over, and one that counts the seconds of the cell that runs."""
    console = Console(stderr=True, highlight=False)
    numbers = {cell.id: number for number, cell in enumerate(session.cells, start=1)}
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for done, execution in enumerate(executions):
            number = numbers.get(execution.cell_id or "", 0)
            begun = time.monotonic()
            while not (await execution.wait(_REFRESH_S)).done:
                if can_ask() and (question := session.questions.of(execution.id)) is not None:
                    await _ask(session, question, live)
                elif console.is_terminal:
                    elapsed = time.monotonic() - begun
                    line = f"… {bar(done, len(executions))}[{number}] {_title(execution)}  {elapsed:.1f} s"
                    live.update(Text(line), refresh=True)
            await execution.wait()  # ended is not yet rolled back
            if execution.record.started_at is not None:
                console.print(_line(number, execution))


def _attended(session: Session) -> AbstractContextManager[None]:
    """Have cells wait for answers where a person is at the terminal."""
    return session.questions.attended() if can_ask() else nullcontext()


async def _ask(session: Session, question: Question, live: Live) -> None:
    live.stop()
    given = await ask(question.prompt, is_password=question.is_password)
    with suppress(QuestionOver):  # its time was over
        await session.questions.answer(question, given)
    live.start()


def _line(number: int, execution: Execution) -> Text:
    line = Text(f"{_MARKS[execution.state]} ", style=_COLOURS[execution.state])
    line.append(f"[{number}] {_title(execution)}", style="default")
    line.append(f"  {execution.seconds or 0:.2f} s", style="dim default")
    if execution.error is not None:
        line.append(f"  {execution.error['ename']}: {_first_line(execution.error['evalue'])}")
    if execution.reason is not None:
        line.append(f"  {execution.reason}")
    if execution.record.dropped_bytes:
        line.append(f"  ({execution.record.dropped_bytes:,} bytes of output dropped)")
    if execution.record.note is not None:
        line.append(f"  {execution.record.note}")
    return line


def _title(execution: Execution) -> str:
    return _first_line(execution.record.source.strip())


def _first_line(text: str) -> str:
    line = next(iter(text.splitlines()), "")
    return line if len(line) <= _TITLE_WIDTH else line[: _TITLE_WIDTH - 1] + "…"


def _report(target: Path, session: Session, executions: list[Execution], request: Request) -> Report:
    wanted = {cell.id for cell in session.cells if cell.may_raise}
    ok = all(execution.ok or execution.cell_id in wanted for execution in executions)
    cells = [
        {
            "cell_id": execution.cell_id,
            "execution_id": execution.id,
            "state": execution.state,
            "seconds": execution.seconds,
            "error": execution.error,
            "reason": execution.reason,
            "dropped_bytes": execution.record.dropped_bytes,
            "dropped_messages": execution.record.dropped_messages,
            "checkpoint": execution.record.checkpoint,
            "rolled_back": execution.record.rolled_back,
            "note": execution.record.note,
        }
        for execution in executions
    ]
    data = {
        "notebook": str(target),
        "ok": ok,
        "tier": session.tier,
        "mode": session.mode,
        "cwd": str(session.cwd),
        "limits": session.limits,
        "banner": session.banner,
        "allow_errors": request.allow_errors,
        "cells": cells,
    }
    return Report(data, ok or request.allow_errors)
