"""A question to the data agent from the command line: what may be said with it, and how it is waited for.

For the verbs ``ask`` and ``chat``. How it looks meanwhile is in ``ask_view``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from cellwright.cli.exits import ExitCode, show_error
from cellwright.cli.mcp_client import Given
from cellwright.cli.messages import in_commands
from cellwright.cli.progress import TURN_MS
from cellwright.errors import AgentError

if TYPE_CHECKING:
    from cellwright.cli.ask_view import AskView
    from cellwright.cli.mcp_client import Caller

__all__ = [
    "AskParams",
    "BudgetOption",
    "DataOption",
    "ModelOption",
    "NoVerify",
    "PatternOption",
    "ServerOption",
    "answered",
    "exit_code",
    "given_with",
    "say_failure",
]

_SETUP = frozenset({"no_model", "no_agent"})

DataOption = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="FILE", help="A file that the question is about; may be repeated."),
]
PatternOption = Annotated[
    str | None,
    typer.Option("--pattern", help="How it goes about it, such as react or reflect. [default: chosen]"),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Which model; repeated: those that step in. [default: what there is a key for]",
        show_default=False,
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", help="The most it may take, such as '50k tokens, 0.50 usd, 120 s, 20 steps'."),
]
ServerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="NAME=COMMAND|URL",
        help="An MCP server whose tools it may use; may be repeated.",
    ),
]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not run the notebook from the top at the end.")
]


@dataclass(frozen=True, slots=True)
class AskParams:
    """How questions are to be answered."""

    data: tuple[str, ...] = ()
    pattern: str | None = None
    models: tuple[str, ...] = ()
    budget: str | None = None
    session: str | None = None
    conversation: str | None = None
    verify: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The models, one by one."""
        return tuple(name.strip() for given in self.models for name in given.split(",") if name.strip())

    def arguments(self, question: str) -> dict[str, Any]:
        """The tool's arguments."""
        return {
            "question": question,
            "data": list(self.data),
            "pattern": self.pattern,
            "model": ",".join(self.names) or None,
            "budget": self.budget,
            "session_id": self.session,
            "conversation": self.conversation,
            "verify": self.verify,
        }


def given_with(data: list[str] | None, servers: list[str] | None) -> Given:
    """What goes with the connection; files that are not there are refused here, before anything is started."""
    files = []
    for named in data or ():
        path = os.path.realpath(os.path.expanduser(named))
        if os.path.isdir(path):
            raise typer.BadParameter(
                f"{named} is a directory: name the files in it, each with --data", param_hint="--data"
            )
        if not os.path.isfile(path):
            raise typer.BadParameter(f"there is no file {named}", param_hint="--data")
        files.append(path)
    pairs = []
    for pair in servers or ():
        name, equals, target = (part.strip() for part in pair.partition("="))
        if not equals or not name or not target:
            raise typer.BadParameter(f"{pair!r} is not NAME=COMMAND or NAME=URL", param_hint="--server")
        pairs.append((name, target))
    return Given(tuple(files), tuple(pairs))


async def answered(caller: Caller, params: AskParams, question: str, view: AskView | None) -> dict[str, Any]:
    """Ask, show what happens, and return what came of it. Whoever interrupts stops the run."""
    # Whoever interrupts means the run, so that it has begun is awaited even then.
    with anyio.CancelScope(shield=True):
        found = await _ask(caller, **params.arguments(question), wait=0)
    if "run_id" not in found:
        return found
    run_id, shown = found["run_id"], view is None
    try:
        # One that was over at once is shown all the same.
        while found["status"] == "running" or not shown:
            shown = True
            found = await _ask(
                caller,
                progress=view.hear if view is not None else None,
                run_id=run_id,
                wait=TURN_MS,
                stream=view is not None,
                since=view.seen if view is not None else 0,
            )
    except anyio.get_cancelled_exc_class():
        with caller.stopping():
            found = await _ask(caller, run_id=run_id, cancel=True)
            if view is not None:
                view.stopped(found)
        raise
    return found


async def _ask(caller: Caller, **arguments: Any) -> dict[str, Any]:
    return await caller.data("ask", response_format="json", **arguments)


def exit_code(found: dict[str, Any]) -> ExitCode:
    """0 for an answer, 1 for a run that stopped, 3 where there is nobody to ask."""
    if found["status"] == "ok":
        return ExitCode.OK
    return ExitCode.ENGINE_FAILED if found.get("code") in _SETUP else ExitCode.RUN_FAILED


def say_failure(found: dict[str, Any]) -> None:
    """Say on stderr why there is no outcome."""
    show_error(AgentError(in_commands(found["message"]), hint=in_commands(found.get("hint") or "") or None))
