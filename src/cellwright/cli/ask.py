"""``cellwright ask``: one question, one answer, and the notebook that proves it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cellwright.cli.ask_options import (
    AskParams,
    BudgetOption,
    DataOption,
    ModelOption,
    NoVerify,
    PatternOption,
    ServerOption,
    answered,
    exit_code,
    given_with,
    say_failure,
)
from cellwright.cli.ask_view import AskView
from cellwright.cli.exits import ExitCode
from cellwright.cli.mcp_client import Caller, Given, call_daemon
from cellwright.cli.messages import counted, in_commands, printable, spent
from cellwright.cli.notebooks import AsJson, note

__all__ = ["ask", "from_here", "put", "show_outcome"]


def ask(
    question: Annotated[str, typer.Argument(help="What is to be found out; `-` reads it from stdin.")],
    data: DataOption = None,
    pattern: PatternOption = None,
    model: ModelOption = None,
    budget: BudgetOption = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Work in this session's notebook. [default: a new one]")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Go on with this conversation.")
    ] = None,
    server: ServerOption = None,
    no_verify: NoVerify = False,
    as_json: AsJson = False,
) -> None:
    """Have a question answered by a model and a notebook. Exits 0 with an answer, 1 if it stopped, 3 without a model."""
    # What is no UTF-8 on the command line cannot be sent.
    text = (sys.stdin.read() if question == "-" else question).encode("utf-8", "replace").decode()
    if not text.strip():
        raise typer.BadParameter("there is no question", param_hint="QUESTION")
    given = given_with(data, server)
    params = AskParams(given.files, pattern, tuple(model or ()), budget, session, conversation, not no_verify)
    found = put(params, text, given, shown=not as_json)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    elif found["status"] == "failed":
        say_failure(found)
    else:
        show_outcome(found)
    raise typer.Exit(exit_code(found))


def put(params: AskParams, question: str, given: Given, *, shown: bool) -> dict[str, Any]:
    """Ask, with a live view where it is ``shown``; an interrupt stops the run and says how to go on."""
    view = AskView()

    async def run(caller: Caller) -> dict[str, Any]:
        if not shown:
            return await answered(caller, params, question, None)
        with view:
            return await answered(caller, params, question, view)

    try:
        return call_daemon(run, replace(given, models=params.names))
    except typer.Exit as end:
        if end.exit_code == ExitCode.INTERRUPTED:
            way = (
                f"; `cellwright ask --conversation {view.conversation} QUESTION` goes on"
                if view.conversation
                else ""
            )
            note(f"stopped{way}")
        elif view.seen:  # the daemon went, the conversation did not
            note("`cellwright conversations` lists what can be gone on with")
        raise


def show_outcome(found: dict[str, Any]) -> None:
    """The answer on stdout; what proves it and what it took on stderr."""
    if found["answer"].strip():
        typer.echo(printable(found["answer"]))
    if found["untraced"]:
        note(f"warning: no output has these numbers of the answer: {printable(', '.join(found['untraced']))}")
    if found["report"]:
        note(printable(in_commands(found["report"])))
    if found["notebook"]:
        note(f"notebook: {from_here(found['notebook'])}{_VERDICTS[found['verified']]}")
    if found["charts"]:
        drawn = counted(len(found["charts"]), "chart")
        note(
            f"{drawn} in it: `cellwright export {found['session_id']} -o report.html` shows what they look like"
        )
    for file in found["files"]:
        note(f"file: {printable(file)}")
    cost = spent(found["tokens_in"], found["tokens_out"], found["tokens_cached"], found["usd"])
    models = f", {printable(', '.join(found['models']))}" if found["models"] else ""
    note(f"cost: {counted(found['requests'], 'request')}, {cost}, {found['seconds']:.1f} s{models}")
    session = f", session: {found['session_id']}" if found["session_id"] else ""
    note(f"run: {found['run_id']}, conversation: {found['conversation']}{session}")


def from_here(path: str) -> str:
    """A path as it is typed in this directory."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path


_VERDICTS = {True: " (verified)", False: " (not verified)", None: ""}
