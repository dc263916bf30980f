"""``cellwright completion SHELL``: a script that completes commands and options, made from the record of help.

The script holds every word itself: pressing TAB starts no process of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from cellwright.cli._arguments import Argument
from cellwright.cli._catalogue import COMMANDS, NOUNS, names_below
from cellwright.cli._help import recorded, summary
from cellwright.cli._terminal import echo

__all__ = ["completion"]

_ELSEWHERE = ("mcp", "help")
_INSTALL = {
    "bash": "cellwright completion bash > ~/.local/share/bash-completion/completions/cellwright",
    "zsh": 'cellwright completion zsh > "${fpath[1]}/_cellwright"',
    "fish": "cellwright completion fish > ~/.config/fish/completions/cellwright.fish",
}


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, Argument(metavar="SHELL", help="The shell.")]) -> None:
    """Print a script that completes commands, options and files in a shell."""
    scripts = {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}
    echo("\n".join(scripts[shell]()))
    echo(f"# to install it: {_INSTALL[shell.value]}", err=True)


def _first_words() -> list[str]:
    """What may stand first: commands and nouns, in the table's order."""
    return [*dict.fromkeys(name.split(" ")[0] for name in COMMANDS), *_ELSEWHERE]


def _options(command: str) -> list[tuple[str, str, list[str]]]:
    """An option's long name, what it says of itself, and the values that it may have where they are known."""
    found: list[tuple[str, str, list[str]]] = [("--help", "Show help and exit.", [])]
    for flags, value, text in recorded()[command]["options"]:
        known = value.split("|") if value.islower() and "|" in value else []
        found += [(flag, text.partition(". ")[0], known) for flag in flags if flag.startswith("--")]
    return found


def _values(command: str) -> list[str]:
    """What the first argument may be, where it is one of a few words."""
    arguments: list[list[str]] = recorded()[command]["arguments"]
    _, _, listed = (arguments[0][1] if arguments else "").partition("One of ")
    return listed.partition(".")[0].split(", ") if listed else []


def _bash() -> Iterator[str]:
    yield from (
        "# Completes cellwright's commands and options in bash.",
        "_cellwright() {",
        "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=",
        '    case "$command" in',
        f'        {"|".join(NOUNS)}) [ $COMP_CWORD -gt 2 ] && command="$command ${{COMP_WORDS[2]}}" ;;',
        "    esac",
        "    if [ $COMP_CWORD -eq 1 ]; then",
        f"        words='{' '.join(_first_words())} --version --help'",
        "    else",
        '        case "$command" in',
    )
    for noun in NOUNS:
        yield f"            {noun}) words='{' '.join(names_below(noun))} --help' ;;"
    for command in COMMANDS:
        words = [*_values(command), *(flag for flag, _, _ in _options(command))]
        yield f"            '{command}') words='{' '.join(words)}' ;;"
    yield from (
        "        esac",
        "    fi",
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -o default -F _cellwright cellwright",
    )


def _zsh() -> Iterator[str]:
    yield from (
        "#compdef cellwright",
        "# Completes cellwright's commands and options in zsh.",
        "_cellwright() {",
        "    local command=${words[2]}",
        '    case "$command" in',
        f'        {"|".join(NOUNS)}) (( CURRENT > 3 )) && command="$command ${{words[3]}}" ;;',
        "    esac",
        "    local -a found",
        "    if (( CURRENT == 2 )); then",
        f"        found=({' '.join(_described_in_zsh(word, _about(word)) for word in _first_words())})",
        "    else",
        '        case "$command" in',
    )
    for noun in NOUNS:
        below = (_described_in_zsh(name, summary(f"{noun} {name}")) for name in names_below(noun))
        yield f"            {noun}) found=({' '.join(below)}) ;;"
    for command in COMMANDS:
        words = [_described_in_zsh(value, "") for value in _values(command)]
        words += [_described_in_zsh(flag, text) for flag, text, _ in _options(command)]
        yield f"            '{command}') found=({' '.join(words)}) ;;"
    yield from (
        "        esac",
        "    fi",
        "    _describe 'cellwright' found",
        "    [[ ${words[CURRENT]} == -* ]] || (( CURRENT == 2 )) || _files",
        "}",
        # Loaded by `source` as well as from the path of functions.
        'if [ "$funcstack[1]" = _cellwright ]; then _cellwright "$@"; else compdef _cellwright cellwright; fi',
    )


def _described_in_zsh(word: str, text: str) -> str:
    return _quoted(f"{word}:{text}" if text else word)


def _fish() -> Iterator[str]:
    yield "# Completes cellwright's commands and options in fish."
    for word in _first_words():
        yield f"complete -c cellwright -f -n __fish_use_subcommand -a {word} -d {_quoted(_about(word))}"
    for noun in NOUNS:
        below = names_below(noun)
        alone = f"__fish_seen_subcommand_from {noun}; and not __fish_seen_subcommand_from {' '.join(below)}"
        for name in below:
            yield (
                f"complete -c cellwright -f -n {_quoted(alone)} -a {name} "
                f"-d {_quoted(summary(f'{noun} {name}'))}"
            )
    for command in COMMANDS:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        if values := _values(command):
            yield f"complete -c cellwright -f -n {_quoted(seen)} -a {_quoted(' '.join(values))}"
        for flag, text, known in _options(command):
            few = f" -x -a {_quoted(' '.join(known))}" if known else ""
            yield f"complete -c cellwright -n {_quoted(seen)} -l {flag[2:]} -d {_quoted(text)}{few}"


def _about(word: str) -> str:
    return "Show help." if word == "help" else summary(word)


def _quoted(text: str) -> str:
    """A text as one word of any of these shells."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"
