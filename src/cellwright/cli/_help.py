"""Help, from a record (``help.json``) that ``_help_recorder`` makes from the commands' own signatures.

Loads no command: what there is is answered in a fiftieth of a second.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence

from cellwright.cli._catalogue import (
    COMMANDS,
    DEFAULTS,
    GROUPS,
    MCP,
    NOUNS,
    OLD_NAMES,
    SCREEN,
    find,
    names_below,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would take longer than the answer
    from typing import Any

__all__ = ["FILE", "answer", "recorded", "summary"]

FILE = os.path.join(os.path.dirname(__file__), "help.json")
_OK = 0
_BAD_USAGE = 2
_MOST_COLUMNS = 100
_LEAST_COLUMNS = 40
_NAMES_WIDTH = 30
_PHRASE = 64
# Read once, when the first help is wanted.
_record: dict[str, Any] = {}
_ABOUT = "The notebook computer for AI agents."
_FOOT = """\
New here?   cellwright demo        a plan that repairs itself and proves its notebook, in a minute
            cellwright tutorial    three notebooks that teach by doing
More:       cellwright help --all  every command
            cellwright COMMAND --help
"""


def answer(arguments: Sequence[str]) -> int | None:
    """Answer what asks for help or names no command, and return the exit code; None for a command that is to run."""
    first = arguments[0]
    if first in ("--version", "help", "--help", "-h"):
        return _about(first, list(arguments[1:]))
    found = find(arguments)
    if found is None:
        asked = first in NOUNS and (len(arguments) == 1 or arguments[1] in ("--help", "-h"))
        return _print(_noun(first)) if asked else _refuse(arguments)
    command, rest = found
    if not _asks_for_help(command, rest):
        return None
    # A noun that does something alone.
    before = [*_noun(first), ""] if first in NOUNS and not command.endswith(f" {arguments[1]}") else []
    return _print([*before, *_commands_of(command)])


def recorded() -> dict[str, Any]:
    """What was recorded of every command."""
    if not _record:
        with open(FILE, encoding="utf-8") as file:
            _record.update(json.load(file))
    return _record


def _about(first: str, named: list[str]) -> int:
    if first == "--version":
        import cellwright  # the version alone

        return _print([cellwright.__version__])
    if not named:
        return _print(_screen())
    if named == ["--all"]:
        return _print(_everything())
    return answer([*named, "--help"]) or _OK if find(named) or named[0] in NOUNS else _refuse(named)


def _asks_for_help(command: str, arguments: Sequence[str]) -> bool:
    """Whether ``--help`` stands among the arguments, and is neither a value of an option nor behind ``--``."""
    if "--help" not in arguments:
        return False
    valued = {
        flag
        for one in _names_of(command)
        for flags, value, _ in recorded()[one]["options"]
        for flag in flags
        if value
    }
    before = ""
    for argument in arguments:
        if argument == "--":
            return False
        if argument == "--help" and before not in valued:
            return True
        before = argument if before not in valued else ""
    return False


def _names_of(command: str) -> tuple[str, ...]:
    """Return the commands that a name stands for: two of earlier versions stood for two."""
    return {"wait": ("session wait", "host wait"), "status": ("plan status", "host status")}.get(
        command, (command,)
    )


# What it looks like ----------------------------------------------------------------------------------------------------


def _screen() -> Iterator[str]:
    yield from ("Usage: cellwright COMMAND [ARGUMENTS]", "", _ABOUT)
    for group, names in SCREEN.items():
        yield from ("", f"{group}:", *_rows([(name, _phrase(name)) for name in names], 12))
    yield from ("", *_FOOT.splitlines())


def _everything() -> Iterator[str]:
    yield from ("Usage: cellwright COMMAND [ARGUMENTS]", "", _ABOUT)
    for group in GROUPS:
        names = [name for name, (of, _) in COMMANDS.items() if of == group]
        names += [MCP] if group == "Server" else []
        yield from ("", f"{group}:", *_rows([(name, summary(name)) for name in names], 22))
    yield from ("", "Names of earlier versions, which go on working:")
    yield from _rows([(old, new) for old, new in OLD_NAMES.items()], 22)


def _noun(noun: str) -> Iterator[str]:
    yield from (f"Usage: cellwright {noun} COMMAND [ARGUMENTS]", "", NOUNS[noun], "", "Commands:")
    yield from _rows([(name, summary(f"{noun} {name}")) for name in names_below(noun)], 12)
    if noun in DEFAULTS:
        yield from ("", f"Alone it is `cellwright {DEFAULTS[noun]}`.")


def _commands_of(command: str) -> Iterator[str]:
    for number, name in enumerate(_names_of(command)):
        yield from [""] * bool(number)
        yield from _command(name)


def _command(command: str) -> Iterator[str]:
    entry = recorded()[command]
    arguments = [name for name, _ in entry["arguments"]]
    yield f"Usage: {' '.join(['cellwright', command, '[OPTIONS]', *arguments])}"
    yield from ("", *_wrapped(entry["about"], 0))
    if entry["arguments"]:
        yield from ("", "Arguments:", *_rows([(name.strip("[]"), text) for name, text in entry["arguments"]]))
    options = [(" ".join([", ".join(flags), value]).strip(), text) for flags, value, text in entry["options"]]
    yield from ("", "Options:", *_rows([*options, ("--help", "Show this and exit.")]))
    if old := [name for name, new in OLD_NAMES.items() if new == command]:
        yield from ("", f"Also: cellwright {old[0]}")


def _phrase(name: str) -> str:
    """The same, as far as a line of the first screen has room for it."""
    text = summary(name).partition(": ")[0]
    while len(text) > _PHRASE and ", " in text:
        text = text.rpartition(", ")[0]
    return text if text.endswith(".") else f"{text}."


def summary(name: str) -> str:
    """A command or a noun in its first sentence."""
    if name in NOUNS:
        return NOUNS[name]
    if name == MCP:
        return "Serve MCP on stdin and stdout, for a client that starts its servers."
    about: str = recorded()[name]["about"]
    sentence, stop, _ = about.partition(". ")
    return sentence + stop.strip()


def _rows(rows: Sequence[tuple[str, str]], width: int = _NAMES_WIDTH) -> Iterator[str]:
    for name, text in rows:
        lines = list(_wrapped(text, width + 4))
        if len(name) > width:
            yield f"  {name}"
            yield from lines
        else:
            yield f"  {name:<{width}}  {lines[0].lstrip() if lines else ''}".rstrip()
            yield from lines[1:]


def _wrapped(text: str, indent: int) -> Iterator[str]:
    columns, line = max(_columns(), indent + _LEAST_COLUMNS), ""
    for word in text.split():
        if line and indent + len(line) + 1 + len(word) > columns:
            yield " " * indent + line
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield " " * indent + line


def _columns() -> int:
    """The width of the terminal, as far as lines are read well."""
    try:
        columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(1).columns
    except (OSError, ValueError):
        columns = _MOST_COLUMNS
    return max(_LEAST_COLUMNS, min(columns, _MOST_COLUMNS))


def _print(lines: Iterator[str] | Sequence[str]) -> int:
    try:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return _OK


_REMOVALS = frozenset({"uninstall", "remove"})


def _refuse(arguments: Sequence[str]) -> int:
    """Say that there is no such command, and which is like it."""
    from difflib import get_close_matches  # for mistakes alone

    named = " ".join(arguments[:2] if arguments[0] in NOUNS else arguments[:1])
    known = [*COMMANDS, *NOUNS, *OLD_NAMES, MCP, "help", "wait", "status"]
    # A noun without its word, the word without its noun, or behind another one.
    same = [name for name in COMMANDS if name.split()[-1] == named.split()[-1]]
    alike = [*(same if len(same) == 1 else ()), *get_close_matches(named, known, n=3)] or same
    near = dict.fromkeys(OLD_NAMES.get(name, name) for name in alike[:3])
    meant = f"Did you mean {' or '.join(f'`cellwright {name}`' for name in near)}? " if near else ""
    if named in _REMOVALS:
        meant = "`cellwright install CLIENT --remove` takes it out of a client, `uv tool uninstall cellwright` (or pip) removes it; "
    kind = "option" if named.startswith("-") else "command"
    sys.stderr.write(
        f"error: There is no {kind} `{named}`\nhint: {meant}`cellwright help --all` lists every command\n"
    )
    return _BAD_USAGE
