"""The commands that run: ``exec``, ``wait``, ``cancel`` and ``suspend``. They wait as long as it takes; Ctrl-C stops the cell."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import anyio

from cellwright.cli._allocations import wait_for_host
from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._flags import OnError, OnErrorOption
from cellwright.cli._mcp_client import Caller, ToolRefused, call_daemon
from cellwright.cli._notebooks import SessionArgument
from cellwright.cli._replays import replay_all
from cellwright.cli._session_names import session_opened
from cellwright.cli._terminal import (
    ALL_TOKENS,
    TURN_S,
    AsJson,
    ExitCode,
    ProgressLine,
    as_installed,
    confirm,
    echo,
    in_commands,
    show_data,
)

__all__ = ["cancel", "execute", "suspend", "wait", "wait_for_execution"]

_UNFINISHED = frozenset({"queued", "running"})

_EXECUTION = "x-"

_ALL = "all"


def execute(
    session: SessionOrFile = None,
    cell: Annotated[str, Argument(help="A cell's id, or `all`.")] = _ALL,
    code: Annotated[
        str | None, Option("--code", help="Run this instead, leaving no cell; `-` reads it from stdin.")
    ] = None,
    language: Annotated[
        str | None,
        Option(help="What --code, or the script, is written in. [default: the notebook's; python]"),
    ] = None,
    timeout: Annotated[
        float | None,
        Option(
            min=0.001,
            help="Seconds it may run. [default: the setting cell_timeout_s; with --once run_timeout_s]",
        ),
    ] = None,
    on_error: OnErrorOption = OnError.KEEP,
    detach: Annotated[bool, Option("--detach", help="Print the execution's id and return.")] = False,
    replay: ReplayOption = None,
    as_json: AsJson = False,
    once: Annotated[bool, Option("--once", help="Run a script in no session.")] = False,
    package: PackageOption = None,
    directory: DirectoryOption = None,
) -> None:
    """Run a cell, all cells, or some code. Exits 0 if it ran well, else 1; with --once as the script does."""
    if once:
        _refuse_of_sessions(cell=cell, detach=detach, on_error=on_error)
        script = Script(session, code, language or "python", package or [], directory, timeout)
        run_once(script, as_json=as_json)
        return
    if session is None:
        raise BadArgument("name a session, or run a script with --once", argument="SESSION_OR_FILE")
    if package or directory is not None:
        raise BadArgument("this is for --once", argument="--package" if package else "--dir")
    tool, target = _target(cell, code, language, on_error)
    if timeout is not None:
        target["timeout_s"] = timeout

    named, was_lost = session, _deal_with_lost_state(session, replay)

    async def run(caller: Caller) -> dict[str, Any]:
        # Whoever interrupts means the cell, so its id is awaited even then.
        with anyio.CancelScope(shield=True):
            opened = await session_opened(caller, named)
            found = await caller.data(tool, session_id=opened, **target, response_format="json", wait_s=0)
        return found if detach else await _finished(caller, found)

    found = call_daemon(run, asks=not detach)
    _report(found, as_json=as_json, detached=detach, told=was_lost)


def _deal_with_lost_state(session: str, replay: bool | None) -> bool:
    """Before something runs: replay what a suspended session has lost, or say so; returns whether it lost any."""
    lost = call_daemon(lambda caller: _lost_state(caller, session))
    if lost is None:
        return False
    if lost.is_to_come_back(replay):
        call_daemon(lambda caller: _replayed(caller, lost))
    else:
        lost.say()
    return True


@dataclass(frozen=True, slots=True)
class _LostState:
    """A suspended session whose state could be made again."""

    session: str
    steps: int

    def is_to_come_back(self, wanted: bool | None) -> bool:
        """Whether the state is to be replayed first; a person at a terminal is asked where the options do not say."""
        if wanted is None and sys.stdin.isatty() and sys.stderr.isatty():
            question = f"{self._said()}. Replay first?"
            return confirm(question, default=True)
        return bool(wanted)

    def say(self) -> None:
        """Say, before anything runs, that it runs in an empty kernel, and how the state would come back."""
        echo(
            f"note: {self._said()}. This runs in a new, empty kernel: `cellwright session replay {self.session}` "
            "before it, or --replay, makes the state again",
            err=True,
        )

    def _said(self) -> str:
        made = f"{self.steps} steps" if self.steps > 1 else "1 step"
        return f"{self.session} is suspended and its state is gone; {made} had made it"


async def _lost_state(caller: Caller, session: str) -> _LostState | None:
    """What a suspended session has lost; None for one that has a kernel, or has lost nothing."""
    opened = await session_opened(caller, session)
    found = await caller.facts("execution_list", session_id=opened, limit=1)
    steps = found.get("replayable", 0)
    return _LostState(found["session_id"], steps) if steps else None


async def _replayed(caller: Caller, lost: _LostState) -> None:
    """Make a session's state again.

    Raises:
        ToolRefused: a step failed that had not, and what was asked for would run in half a state.
    """
    done = await replay_all(caller, lost.session)
    if done["not_run"]:
        raise ToolRefused(
            f"The replay stopped after {done['done']} of {done['total']} steps; nothing else was run",
            hint=f"`cellwright session replay {lost.session}` shows where; --no-replay begins empty",
        )
    differs = "" if done["same"] else ", not all with the outputs that they had"
    echo(f"note: replayed {done['done']} steps{differs}", err=True)


def _refuse_of_sessions(*, cell: str, detach: bool, on_error: OnError) -> None:
    """Refuse with --once what only a session has, rather than leave it out in silence."""
    if cell != _ALL:
        raise BadArgument("a script has no cells, and is given no arguments", argument="cell")
    if detach:
        raise BadArgument("a script that runs once is waited for", argument="--detach")
    if on_error is OnError.ROLLBACK:
        raise BadArgument("a script that runs once has nothing to go back to", argument="--on-error")


def _target(
    cell: str, code: str | None, language: str | None, on_error: OnError
) -> tuple[str, dict[str, Any]]:
    """The tool that runs what was named, and what it is told of that."""
    if code is None:
        if language is not None:
            raise BadArgument("a cell has its own language; this is for --code", argument="--language")
        return "cell_execute", {"cell_id": cell, "on_error": on_error.value}
    if on_error is OnError.ROLLBACK:
        raise BadArgument("code that is in no cell cannot be rolled back", argument="--on-error")
    return "scratch_run", {"code": sys.stdin.read() if code == "-" else code, "language": language}


def wait(
    execution: Annotated[
        str | None,
        Argument(
            metavar="EXECUTION_OR_HOST",
            help="An execution's id, or an allocation's name. [default: the allocation]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Wait for an execution and show what it put out, or for an allocation to be ready. Exits 1 if it ended badly."""
    if execution is None or not execution.startswith(_EXECUTION):
        wait_for_host(execution, as_json=as_json)
        return
    wait_for_execution(execution, as_json=as_json)


def wait_for_execution(
    execution: Annotated[str, Argument(metavar="EXECUTION", help="An execution's id.")],
    as_json: AsJson = False,
) -> None:
    """Wait for an execution, whoever started it, and show what it put out. Exits 1 if it ended badly."""

    async def run(caller: Caller) -> dict[str, Any]:
        return await _waited(caller, execution)

    _report(call_daemon(run, asks=True), as_json=as_json)


def cancel(
    execution: Annotated[str, Argument(metavar="EXECUTION", help="An execution's id.")],
    as_json: AsJson = False,
) -> None:
    """Stop an execution that runs or waits. Its kernel keeps its state."""

    async def run(caller: Caller) -> dict[str, Any]:
        await caller.text("execution_cancel", execution_id=execution)
        return await _waited(caller, execution)

    data = call_daemon(run)
    echo(json.dumps(data, ensure_ascii=False) if as_json else f"{execution} {data['status']}")


def suspend(session: SessionArgument, as_json: AsJson = False) -> None:
    """End a session's kernel and keep the rest: cells, outputs, files and history."""
    data = call_daemon(
        lambda caller: caller.data("session_suspend", session_id=session), doing="ending the kernel"
    )
    show_data(data, data["session_id"], as_json=as_json)
    if stopped := data.get("stopped"):
        echo(f"interrupted: {', '.join(stopped)}", err=True)
    echo(
        f"its kernel is gone; `cellwright session replay {data['session_id']}` makes its state again",
        err=True,
    )


async def _finished(caller: Caller, found: dict[str, Any]) -> dict[str, Any]:
    """The same, once everything that was started is over. An interrupt stops it first."""
    started = [one["execution_id"] for one in found.get("cells") or [found] if "execution_id" in one]
    try:
        with ProgressLine() as line:
            done: list[dict[str, Any]] = []
            for execution_id in started:
                if len(started) > 1:
                    line.reached(len(done), len(started))
                done.append(await _waited_on(caller, execution_id, line))
    except anyio.get_cancelled_exc_class():
        with caller.stopping():
            for execution_id in reversed(started):
                await caller.text("execution_cancel", execution_id=execution_id)
            # Each answer may come before the end of what a busy machine is slow to stop.
            for execution_id in started:
                await _waited(caller, execution_id)
        raise
    if "cells" not in found:
        return {**done[0], **_news(found)} if done else found
    return _joined(found, done)


def _news(found: dict[str, Any]) -> dict[str, Any]:
    """What only the first answer tells: that the kernel is a new one."""
    return {"context": found["context"]} if "context" in found else {}


def _joined(found: dict[str, Any], done: list[dict[str, Any]]) -> dict[str, Any]:
    """Several cells as one, as ``cell_execute`` tells them, with each one's own result beside."""
    durations = [one["duration_ms"] for one in done if one.get("duration_ms") is not None]
    return {
        **found,
        "status": next((one["status"] for one in done if one["status"] != "ok"), "ok"),
        "stdout": "".join(one["stdout"] for one in done),
        "stderr": "".join(one["stderr"] for one in done),
        "result": next((one["result"] for one in reversed(done) if one["result"] is not None), None),
        "error": next((one["error"] for one in done if one["error"] is not None), None),
        "outputs": [output for one in done for output in one["outputs"]],
        "duration_ms": sum(durations) if durations else None,
        "truncated": any(one["truncated"] for one in done),
        "cells": done,
    }


async def _waited(caller: Caller, execution_id: str) -> dict[str, Any]:
    with ProgressLine() as line:
        return await _waited_on(caller, execution_id, line)


async def _waited_on(caller: Caller, execution_id: str, line: ProgressLine) -> dict[str, Any]:
    while True:
        found = await caller.data(
            "execution_wait",
            progress=line.tell if line.wanted else None,
            execution_id=execution_id,
            wait_s=TURN_S,
            response_format="json",
            max_tokens=ALL_TOKENS,
        )
        if found["status"] not in _UNFINISHED:
            return found


def _report(found: dict[str, Any], *, as_json: bool, detached: bool = False, told: bool = False) -> None:
    """Print what ran and exit; ``told`` if it was said before that the kernel is new."""
    runs: list[dict[str, Any]] = found.get("cells", [found])
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
    elif detached:
        for run in runs:
            echo(run["execution_id"])
    else:
        for run in runs:
            _show(run)
            _show_notes([run.get("note"), *([] if told else _of_the_kernel(run))])
        if "cells" in found and not told:
            _show_notes(_of_the_kernel(found))
    failed = not detached and any(run.get("status") != "ok" for run in runs)
    raise Exit(ExitCode.RUN_FAILED if failed else ExitCode.OK)


def _show(run: dict[str, Any]) -> None:
    """What a cell put out goes where it put it; how it ended goes to stderr."""
    displayed = [output.get("text") for output in run.get("outputs", ()) if output.get("type") == "display"]
    for text in (run.get("stdout"), *displayed, run.get("result")):
        if text:
            echo(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False), nl=False)
            if not str(text).endswith("\n"):
                echo()
    if run.get("stderr"):
        echo(run["stderr"], err=True, nl=False)
    _show_error(run)


def _show_error(run: dict[str, Any]) -> None:
    """The error of a cell, how it ended, and what the fixers say of it."""
    error, hint = run.get("error"), run.get("hint")
    if isinstance(error, dict):
        trace = error.get("traceback")
        text = "\n".join(trace) if isinstance(trace, list) else trace
        echo(_ending_in_commands(text or f"{error.get('ename')}: {error.get('evalue')}"), err=True)
    if run.get("status") != "ok":
        reason = f": {run['reason']}" if run.get("reason") else ""
        echo(f"error: {run.get('execution_id', 'the cell')} ended as {run.get('status')}{reason}", err=True)
    if isinstance(hint, dict):
        told = [f"hint: {hint.get('message')}", hint.get("diff"), _step_after(run, hint)]
        echo("\n".join(filter(None, told)), err=True)


def _ending_in_commands(traceback: str) -> str:
    """The same; the last line, where the kernel says what to call, has commands. The rest is the user's code."""
    above, newline, last = traceback.rstrip("\n").rpartition("\n")
    return f"{above}{newline}{as_installed(in_commands(last))}"


def _step_after(run: dict[str, Any], hint: dict[str, Any]) -> str | None:
    """The command that does what a hint proposes."""
    session, cell = run.get("session_id"), run.get("cell_id")
    if session and hint.get("packages"):
        return f"`cellwright packages add {session} {' '.join(hint['packages'])}` installs it"
    if session and cell and hint.get("diff"):
        return f"`cellwright session edit {session} {cell} TEXT` replaces the cell's text"
    return None


def _show_notes(notes: Sequence[str | None]) -> None:
    for said in filter(None, notes):
        echo(f"note: {in_commands(said)}", err=True)


def _of_the_kernel(run: dict[str, Any]) -> list[str]:
    """Names that an agent is told of are not for a person, who typed them; that they are gone is."""
    return [line for line in run.get("context", ()) if line.startswith("The kernel")]


# ``cellwright exec --once``: a script in no session. Its streams are the terminal's as they come, its exit
# code ours.

_SIGNALLED = 128

_SAID = "[cellwright: "

_PACKAGES = re.compile(r'packages=\["([\w-]+)"\]')

_LANGUAGES = ("python", "typescript", "javascript")

SessionOrFile = Annotated[
    str | None,
    Argument(
        metavar="SESSION_OR_FILE",
        help="A session's id, or its notebook's name; with --once a script, `-` reads it from stdin.",
        show_default=False,
    ),
]

ReplayOption = Annotated[
    bool | None,
    Option(
        "--replay/--no-replay",
        help="Where the session is suspended: replay what made its state first, or begin empty. "
        "[default: ask on a terminal, else begin empty]",
        show_default=False,
    ),
]

PackageOption = Annotated[list[str] | None, Option(help="With --once: an approved package; may be repeated.")]

DirectoryOption = Annotated[
    str | None,
    Option("--dir", help="With --once: a directory of the data directory. [default: a fresh one]"),
]


@dataclass(frozen=True, slots=True)
class Script:
    """What a person asked for."""

    file: str | None
    code: str | None
    language: str
    packages: list[str]
    directory: str | None
    timeout_s: float | None


def run_once(script: Script, *, as_json: bool) -> None:
    """Run it, and end with its exit code; with 128 and the signal's number where that ended it."""
    source, name = _source(script), "python_execute" if script.language == "python" else "node_execute"
    shown = _Shown()

    async def run(caller: Caller) -> dict[str, Any]:
        language = {} if script.language == "python" else {"language": script.language}
        return await caller.data(
            name,
            progress=None if as_json else shown.hear,
            code=source,
            packages=script.packages,
            workingDir=script.directory,
            timeout_s=script.timeout_s,
            stream=not as_json,
            response_format="json",
            **language,
        )

    # What the script says comes line by line.
    found = call_daemon(run, asks=True, doing=None)
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
    else:
        shown.rest(found)
    code = int(found["returnCode"])
    raise Exit(code if code >= 0 else _SIGNALLED - code)


def _source(script: Script) -> str:
    if script.language not in _LANGUAGES:
        raise BadArgument(f"one of {', '.join(_LANGUAGES)}", argument="--language")
    if (script.file is None) == (script.code is None):
        raise BadArgument("give a file, or --code", argument="SESSION_OR_FILE")
    if "-" in (script.file, script.code):
        return sys.stdin.read()
    if script.code is not None:
        return script.code
    try:
        return Path(str(script.file)).read_text(encoding="utf-8")
    except OSError as error:
        told = f"{script.file}: {error.strerror or error}; a session's cells are run without --once"
        raise BadArgument(told, argument="SESSION_OR_FILE") from None
    except UnicodeDecodeError:
        raise BadArgument(f"{script.file} is no text in UTF-8", argument="SESSION_OR_FILE") from None


def _in_options(text: str) -> str:
    """The same; what is said of the run at its end has options where it names a tool's arguments."""
    before, begin, said = text.rpartition(_SAID)
    if not begin or said.count("\n") > 1:
        return text
    said = (
        _PACKAGES.sub(r"--package \1", said)
        .replace("workingDir", "--dir")
        .replace(
            "whole data directory", "whole data directory, to which `cellwright files write` brings files"
        )
        .replace("(timeout,", "(--timeout,")
    )
    return f"{before}{begin}{said}"


class _Shown:
    """What the terminal has of a run so far."""

    def __init__(self) -> None:
        self._texts = {"stdout": "", "stderr": ""}

    async def hear(
        self, progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        """Show a piece of output; other words about progress are no JSON."""
        try:
            piece = json.loads(message or "")
            self._show(piece["name"], piece["text"])
        except (ValueError, TypeError, KeyError):
            return

    def rest(self, found: dict[str, Any]) -> None:
        """Show what was not told on the way, and which files there are now."""
        for name, text in self._texts.items():
            whole = str(found[name])
            if whole.startswith(text):
                self._show(name, _in_options(whole[len(text) :]))
        for file in found["files"]:
            echo(f"file: {file['path']} ({file['type']}, {file['size']:,} bytes)", err=True)
        for output in (found.get("visualizations") or {}).get("outputs", ()):
            if isinstance(output, dict) and output.get("digest"):
                echo(f"visualization: {output['digest']}", err=True)

    def _show(self, name: str, text: str) -> None:
        self._texts[name] += text
        to: TextIO = sys.stderr if name == "stderr" else sys.stdout
        to.write(text)
        to.flush()
