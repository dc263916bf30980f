"""The catalogue of commands, help from its record, and how a command is found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

import cellwright
from cellwright.cli import main
from cellwright.cli._arguments import Argument, BadArgument, Option, parameters_of, read_arguments
from cellwright.cli._catalogue import COMMANDS, NOUNS, OLD_NAMES, SCREEN, find
from cellwright.cli._commands import function_named, run_command
from cellwright.cli._daemon_line import _tell_of_newer_settings
from cellwright.cli._executions import _show
from cellwright.cli._help import FILE, answer, recorded
from cellwright.cli._help_recorder import record
from cellwright.cli._terminal import as_installed, table
from cellwright.daemon.paths import DaemonPaths
from cellwright.settings.paths import user_settings_file


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command line in this process."""
    monkeypatch.setattr(sys, "argv", ["cellwright", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_help_says_what_the_commands_signatures_say() -> None:
    recorded_by_file = json.loads(Path(FILE).read_text())
    assert recorded_by_file == json.loads(json.dumps(record())), (
        "Run `python -m cellwright.cli._help_recorder` and commit help.json"
    )


def test_the_first_screen_has_at_most_twenty_commands_and_every_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [name for group in SCREEN.values() for name in group]
    assert len(names) <= 20
    assert len(set(names)) == len(names)
    assert answer(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{group}:" in shown for group in SCREEN)
    assert all(f"  {name} " in shown for name in names)
    assert {name.split(" ")[0] for name in COMMANDS} >= set(names)
    assert answer(["help", "--all"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"  {name} " not in shown] == []


def test_every_command_reads_its_arguments_and_refuses_an_option_that_it_does_not_have() -> None:
    for command in COMMANDS:
        parameters = parameters_of(function_named(command))
        with pytest.raises(BadArgument, match="There is no option `--no-such-option-at-all`"):
            read_arguments(parameters, ["--no-such-option-at-all", "x"])
        wanted = [(each.choices or ["1"])[0] for each in parameters if each.is_required]
        given = read_arguments(parameters, wanted)
        assert [each.name for each in parameters if each.name not in given] == []


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def paint(
    what: Annotated[str, Argument()],
    where: Annotated[list[str] | None, Argument(metavar="PLACE")] = None,
    colour: Annotated[Colour | None, Option()] = None,
    coats: Annotated[int, Option("-n", "--coats", min=1, max=3)] = 1,
    tool: Annotated[list[Path] | None, Option("--tool")] = None,
    width: Annotated[float | None, Option(min=0.1)] = None,
    dry: Annotated[bool | None, Option("--dry/--wet")] = None,
    *,
    as_json: Annotated[bool, Option("--json")] = False,
) -> None:
    """Paint."""


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("wall", {"what": "wall"}),
        ("--json wall in out", {"what": "wall", "where": ["in", "out"], "as_json": True}),
        ("wall --colour red -n2", {"what": "wall", "colour": Colour.RED, "coats": 2}),
        ("--coats=3 wall --tool a --tool -b", {"what": "wall", "coats": 3, "tool": [Path("a"), Path("-b")]}),
        ("wall --wet", {"what": "wall", "dry": False}),
        ("--dry -- wall --wet", {"what": "wall", "dry": True, "where": ["--wet"]}),
        ("-", {"what": "-"}),
    ],
)
def test_arguments_are_read_in_any_order_and_as_the_types_say(words: str, given: dict[str, Any]) -> None:
    defaults = {
        "where": None,
        "colour": None,
        "coats": 1,
        "tool": None,
        "width": None,
        "dry": None,
        "as_json": False,
    }
    assert read_arguments(parameters_of(paint), words.split()) == {**defaults, **given}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "WHAT: is missing"),
        ("wall --colours red", "There is no option `--colours`; did you mean `--colour`?"),
        ("wall --colour green", "--colour: 'green' is not one of red, blue"),
        ("wall --coats", "--coats: a value is missing behind it"),
        ("wall --coats x", "--coats: 'x' is not a whole number"),
        ("wall -n 4", "--coats: 4 is not at least 1 and at most 3"),
        ("wall --width -1", "--width: -1 is not at least 0.1"),
        ("wall --width nan", "--width: nan is not at least 0.1"),
        ("wall --json=yes", "--json: takes no value"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named(words: str, said: str) -> None:
    with pytest.raises(BadArgument) as refused:
        read_arguments(parameters_of(paint), words.split())
    assert str(refused.value) == said


@pytest.mark.parametrize("text", ["-- connection: sales\nSELECT 1 = 1", "-x + 1", "- an item", "--\tred"])
def test_text_that_begins_with_dashes_is_no_option(text: str) -> None:
    assert read_arguments(parameters_of(paint), [text])["what"] == text
    with pytest.raises(BadArgument, match="There is no option `--note`"):
        read_arguments(parameters_of(paint), ["wall", f"--note={text}"])


def test_a_negative_number_is_no_option_of_the_calculator(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = parameters_of(function_named("tool calc"))
    given = read_arguments(parameters, ["-2", "+", "3", "--json"], of_numbers=True)
    assert (given["expression"], given["as_json"]) == (["-2", "+", "3"], True)


def test_a_wrong_argument_ends_a_command_with_the_way_to_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run_command("host stop", ["--alll"])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "error: There is no option `--alll`; did you mean `--all`?\n"
        "hint: `cellwright host stop --help` tells what it takes\n"
    )


def test_a_command_that_stands_below_a_noun_is_found_by_its_earlier_name_too() -> None:
    for old, new in OLD_NAMES.items():
        assert find([old, "a", "--b"]) == find([*new.split(), "a", "--b"]) == (new, ["a", "--b"])
    assert find(["audit", "--json"]) == ("audit show", ["--json"])
    assert find(["conversations"]) == ("conversations list", [])
    assert find(["wait", "x-1"]) == ("wait", ["x-1"])
    assert find(["session"]) is None


def test_messages_name_commands_as_help_does() -> None:
    old = re.compile(rf"cellwright ({'|'.join([*OLD_NAMES, 'wait', 'status'])})\b")
    package = Path(cellwright.__file__).parent
    named = [
        f"{path.relative_to(package)}: {found[0]}"
        for path in package.rglob("*")
        if path.suffix in {".py", ".js", ".html"}
        for found in old.finditer(path.read_text(encoding="utf-8"))
    ]
    assert named == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["help", "exec"], 0, "Usage: cellwright exec"),
        (["suspend", "--help"], 0, "Usage: cellwright session suspend"),
        (["session"], 0, "  suspend "),
        (["status", "--help"], 0, "Usage: cellwright host status"),
        (["audit", "--help"], 0, "Usage: cellwright audit show"),
        (["--version"], 0, "."),
        (["delet"], 2, "`cellwright session delete`"),
        (["session", "suspen"], 2, "`cellwright session suspend`"),
        (["session", "branch"], 2, "mean `cellwright branch` or"),
        (["--nonsense"], 2, "no option `--nonsense`"),
    ],
)
def test_help_and_mistakes_are_answered_without_a_command(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(arguments) == code
    shown = capsys.readouterr()
    assert said in (shown.err if code else shown.out)


def test_help_is_no_help_where_it_is_an_options_value_or_stands_behind_two_dashes() -> None:
    assert answer(["exec", "s-1", "--code", "--help"]) is None
    assert answer(["session", "add", "s-1", "--", "--help"]) is None
    options = dict.fromkeys(
        flag for flags, value, _ in recorded()["exec"]["options"] for flag in flags if value
    )
    assert "--code" in options


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("cellwright ses", "session"),
        ("cellwright session su", "suspend"),
        ("cellwright run --par", "--param"),
        ("cellwright install gem", "gemini"),
    ],
)
def test_bash_completes_commands_options_and_values(
    words: str, offered: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(monkeypatch, "completion", "bash") == 0
    script = capsys.readouterr().out
    ask = (
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _cellwright; echo ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [offered]


def test_completions_of_every_shell_name_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert ran(monkeypatch, "completion", shell) == 0
        script = capsys.readouterr().out
        assert [word for name in (*COMMANDS, *NOUNS) for word in name.split() if word not in script] == []


def test_a_table_has_headers_and_nothing_where_it_has_no_rows() -> None:
    assert table(("A", "LONG"), []) == ""
    assert table(("A", "LONG"), [("one", 2), ("three", "")]) == "A      LONG\none    2\nthree"


def test_a_cell_that_failed_is_told_with_what_the_fixers_know(capsys: pytest.CaptureFixture[str]) -> None:
    error = {"ename": "KeyError", "evalue": "'revv'", "traceback": ["KeyError: 'revv'"]}
    hint = {"message": "`df` has no column 'revv', but 'rev'.", "diff": "-df['revv']\n+df['rev']"}
    run = {"status": "error", "execution_id": "x-1", "session_id": "s-1", "cell_id": "1a", "error": error}
    _show({**run, "hint": hint})
    assert capsys.readouterr().err.splitlines() == [
        "KeyError: 'revv'",
        "error: x-1 ended as error",
        "hint: `df` has no column 'revv', but 'rev'.",
        "-df['revv']",
        "+df['rev']",
        "`cellwright session edit s-1 1a TEXT` replaces the cell's text",
    ]
    error["traceback"] = [
        "call package_install",
        'No module. It is approved: package_install(["x"]) installs it',
    ]
    _show({**run, "hint": {"message": "`x` is not installed.", "packages": ["x"]}})
    assert capsys.readouterr().err.splitlines() == [
        "call package_install",
        "No module. It is approved: `cellwright packages add` installs it",
        "error: x-1 ended as error",
        "hint: `x` is not installed.",
        "`cellwright packages add s-1 x` installs it",
    ]


def test_an_extra_is_added_as_the_program_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = "pip install 'cellwright[web]'"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert as_installed(hint) == hint
    (tmp_path / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "cellwright", extras = ["data"] }]\n'
    )
    assert as_installed(hint) == "uv tool install 'cellwright[data,web]'"


def test_settings_that_are_newer_than_the_daemon_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    paths = DaemonPaths(str(tmp_path / "state"))
    for file in (settings := Path(user_settings_file()), about := Path(paths.about)):
        file.parent.mkdir(parents=True)
        file.touch()
    os.utime(settings, (1, 1))
    _tell_of_newer_settings(paths)
    assert capsys.readouterr().err == ""
    os.utime(about, (0, 0))
    _tell_of_newer_settings(paths)
    assert f"{settings} changed after the daemon started" in capsys.readouterr().err
