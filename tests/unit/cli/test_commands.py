"""The catalogue of commands, help from its record, and how a command is found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cellwright
from cellwright.cli import main
from cellwright.cli._catalogue import COMMANDS, NOUNS, OLD_NAMES, SCREEN, find
from cellwright.cli._commands import program_of
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


def test_every_command_is_built_alone_and_read_by_typer() -> None:
    for command in COMMANDS:
        done = CliRunner().invoke(program_of(command), ["--no-such-option-at-all", "x"])
        assert done.exit_code in (2, 1 if command == "tool calc" else 2), (command, done.output)


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
