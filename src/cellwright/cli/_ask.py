"""``cellwright ask``: one question, one answer, and the notebook that proves it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._mcp_client import Caller, ClientContext, call_daemon
from cellwright.cli._terminal import (
    TURN_S,
    AsJson,
    ExitCode,
    LiveWindow,
    counted,
    echo,
    from_here,
    in_commands,
    note,
    printable,
    show_error,
    spent,
    tokens,
)
from cellwright.errors import AgentError

if TYPE_CHECKING:
    from cellwright.cli._mcp_client import Caller

__all__ = [
    "AskParams",
    "AskView",
    "BudgetOption",
    "DataOption",
    "ModelOption",
    "NoVerify",
    "PatternOption",
    "ServerOption",
    "ask",
    "exit_code",
    "given_with",
    "put",
    "say_failure",
    "show_outcome",
]


def ask(
    question: Annotated[str, Argument(help="What is to be found out; `-` reads it from stdin.")],
    data: DataOption = None,
    pattern: PatternOption = None,
    model: ModelOption = None,
    budget: BudgetOption = None,
    session: Annotated[
        str | None, Option("--session", help="Work in this session's notebook. [default: a new one]")
    ] = None,
    conversation: Annotated[
        str | None, Option("--conversation", help="Go on with this conversation.")
    ] = None,
    server: ServerOption = None,
    no_verify: NoVerify = False,
    as_json: AsJson = False,
) -> None:
    """Have a question answered by a model and a notebook. Exits 0 with an answer, 1 if it stopped, 3 without a model."""
    # What is no UTF-8 on the command line cannot be sent.
    text = (sys.stdin.read() if question == "-" else question).encode("utf-8", "replace").decode()
    if not text.strip():
        raise BadArgument("there is no question", argument="QUESTION")
    given = given_with(data, server)
    params = AskParams(given.files, pattern, tuple(model or ()), budget, session, conversation, not no_verify)
    found = put(params, text, given, shown=not as_json)
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
    elif found["status"] == "failed":
        say_failure(found)
    else:
        show_outcome(found)
    raise Exit(exit_code(found))


def put(params: AskParams, question: str, given: ClientContext, *, shown: bool) -> dict[str, Any]:
    """Ask, with a live view where it is ``shown``; an interrupt stops the run and says how to go on."""
    view = AskView()

    async def run(caller: Caller) -> dict[str, Any]:
        if not shown:
            return await answered(caller, params, question, None)
        with view:
            return await answered(caller, params, question, view)

    try:
        return call_daemon(run, replace(given, models=params.names), doing=None)
    except Exit as end:
        if end.code == ExitCode.INTERRUPTED:
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
        echo(printable(found["answer"]))
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


_VERDICTS = {True: " (verified)", False: " (not verified)", None: ""}


# A question to the data agent from the command line: what may be said with it, and how it is waited for.

_SETUP = frozenset({"no_model", "no_agent"})

DataOption = Annotated[
    list[str] | None,
    Option("--data", metavar="FILE", help="A file that the question is about; may be repeated."),
]

PatternOption = Annotated[
    str | None,
    Option("--pattern", help="How it goes about it, such as react or reflect. [default: chosen]"),
]

ModelOption = Annotated[
    list[str] | None,
    Option(
        "--model",
        help="Which model; repeated: those that step in. [default: what there is a key for]",
        show_default=False,
    ),
]

BudgetOption = Annotated[
    str | None,
    Option("--budget", help="The most it may take, such as '50k tokens, 0.50 usd, 120 s, 20 steps'."),
]

ServerOption = Annotated[
    list[str] | None,
    Option(
        "--server",
        metavar="NAME[=COMMAND|URL]",
        help="An MCP server whose tools it may use, or the connection of that name; may be repeated.",
    ),
]

NoVerify = Annotated[bool, Option("--no-verify", help="Do not run the notebook from the top at the end.")]


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


def given_with(data: list[str] | None, servers: list[str] | None) -> ClientContext:
    """What goes with the connection; files that are not there are refused here, before anything is started."""
    files = []
    for named in data or ():
        path = os.path.realpath(os.path.expanduser(named))
        if os.path.isdir(path):
            raise BadArgument(
                f"{named} is a directory: name the files in it, each with --data", argument="--data"
            )
        if not os.path.isfile(path):
            raise BadArgument(f"there is no file {named}", argument="--data")
        files.append(path)
    pairs = []
    for pair in servers or ():
        name, equals, target = (part.strip() for part in pair.partition("="))
        if not name or (equals and not target):
            raise BadArgument(f"{pair!r} is not NAME, NAME=COMMAND or NAME=URL", argument="--server")
        pairs.append((name, target))
    return ClientContext(tuple(files), tuple(pairs))


async def answered(caller: Caller, params: AskParams, question: str, view: AskView | None) -> dict[str, Any]:
    """Ask, show what happens, and return what came of it. Whoever interrupts stops the run."""
    # Whoever interrupts means the run, so that it has begun is awaited even then.
    with anyio.CancelScope(shield=True):
        found = await _ask(caller, **params.arguments(question), wait_s=0)
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
                wait_s=TURN_S,
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


# A question on its way as a person sees it: reasoning as it comes, code, what it put out, and what it has
# cost.

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
