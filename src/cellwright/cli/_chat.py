"""``cellwright chat``: several questions in one conversation, which lasts and can be gone on with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from cellwright.cli._arguments import Exit, Option
from cellwright.cli._ask import (
    AskParams,
    BudgetOption,
    DataOption,
    ModelOption,
    NoVerify,
    PatternOption,
    ServerOption,
    exit_code,
    given_with,
    put,
    say_failure,
    show_outcome,
)
from cellwright.cli._mcp_client import ClientContext
from cellwright.cli._terminal import ExitCode, counted, echo, from_here, note, spent

__all__ = ["chat"]

_PROMPT = "> "
_HELP = """\
/help           this
/model [NAME]   which model answers, or ask another one from now on; several after commas step in
/cost           what this chat has taken so far
/notebook       the notebook it works in
/quit           leave; the conversation stays
anything else is a question"""


def chat(  # each is an option of the command
    conversation: Annotated[
        str | None, Option("--conversation", help="Go on with this conversation. [default: a new one]")
    ] = None,
    session: Annotated[str | None, Option("--session", help="Work in this session's notebook.")] = None,
    data: DataOption = None,
    pattern: PatternOption = None,
    model: ModelOption = None,
    budget: BudgetOption = None,
    server: ServerOption = None,
    no_verify: NoVerify = False,
) -> None:
    """Ask several questions in one conversation. The budget is for each of them; Ctrl-C stops one, /quit leaves."""
    given = given_with(data, server)
    params = AskParams(given.files, pattern, tuple(model or ()), budget, session, conversation, not no_verify)
    talk = _Chat(params, given)
    if sys.stdin.isatty():
        import readline  # noqa: F401  # lines can be edited once it is there

        note("/help tells what there is; Ctrl-D leaves")
    while (line := _read_line()) is not None:
        if not talk.take(line.strip()):
            break
    if talk.params.conversation:
        note(f"`cellwright chat --conversation {talk.params.conversation}` goes on with this")
    raise Exit(talk.code)


def _read_line() -> str | None:
    """What is said next; none at the end."""
    if not sys.stdin.isatty():
        return sys.stdin.readline() or None
    try:
        return input(_PROMPT)
    except (EOFError, KeyboardInterrupt):
        echo(err=True)
        return None


@dataclass(slots=True)
class _Chat:
    """A conversation on its way."""

    params: AskParams
    given: ClientContext
    code: ExitCode = ExitCode.OK
    last: dict[str, Any] | None = None
    taken: dict[str, float] = field(default_factory=dict)

    def take(self, line: str) -> bool:
        """Do what a line says; false where the chat is over."""
        if not line:
            return True
        if not line.startswith("/"):
            return self._ask(line)
        name, _, rest = line.partition(" ")
        if name == "/quit":
            return False
        commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: note(_HELP),
            "/model": self._model,
            "/cost": self._cost,
            "/notebook": self._notebook,
        }
        if name in commands:
            commands[name](rest.strip())
        else:
            note(f"there is no {name}; /help tells what there is")
        return True

    def _ask(self, question: str) -> bool:
        try:
            found = put(self.params, question, self.given, shown=True)
        except Exit as end:
            # A question that was stopped, or refused, is not the end of the chat.
            self.code = ExitCode(end.code)
            return self.code is not ExitCode.ENGINE_FAILED
        self.code = exit_code(found)
        if found["status"] == "failed":
            say_failure(found)
            return self.code is not ExitCode.ENGINE_FAILED
        self.last = found
        # The conversation knows its notebook from here on, and the files are in it.
        self.params = replace(self.params, conversation=found["conversation"], session=None, data=())
        for name in ("requests", "tokens_in", "tokens_out", "tokens_cached", "usd", "seconds"):
            self.taken[name] = self.taken.get(name, 0) + found[name]
        show_outcome(found)
        return True

    def _model(self, names: str) -> None:
        if names:
            self.params = replace(
                self.params, models=tuple(name.strip() for name in names.split(",") if name.strip())
            )
        answered_by = ", ".join(self.last["models"]) if self.last is not None else ""
        note(f"model: {', '.join(self.params.models) or answered_by or 'what there is a key for'}")

    def _cost(self, _: str) -> None:
        told, said, cached = (
            int(self.taken.get(name, 0)) for name in ("tokens_in", "tokens_out", "tokens_cached")
        )
        taken = spent(told, said, cached, self.taken.get("usd", 0.0))
        note(
            f"cost: {counted(int(self.taken.get('requests', 0)), 'request')}, {taken},"
            f" {self.taken.get('seconds', 0):.1f} s"
        )

    def _notebook(self, _: str) -> None:
        if self.last is None or not self.last["notebook"]:
            note("there is no notebook yet")
        else:
            note(f"notebook: {from_here(self.last['notebook'])} (session {self.last['session_id']})")
