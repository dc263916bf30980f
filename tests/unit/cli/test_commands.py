"""The command line with one command is, for whoever calls that command, the whole of it."""

from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cellwright.cli._commands import app, narrowed
from cellwright.cli._executions import _show


def names(program: object) -> list[str]:
    return list(get_command(program).commands)  # type: ignore[attr-defined,arg-type]


def test_every_command_can_be_built_alone() -> None:
    assert {name: names(narrowed(app, [name])) for name in names(app)} == {
        name: [name] for name in names(app)
    }


@pytest.mark.parametrize("arguments", [["new", "--help"], ["files", "apply", "--help"], ["calc"]])
def test_a_command_that_is_built_alone_says_what_it_says_among_all(arguments: list[str]) -> None:
    alone, among_all = (CliRunner().invoke(program, arguments) for program in (narrowed(app, arguments), app))
    assert (alone.exit_code, alone.output) == (among_all.exit_code, among_all.output)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["nosuch"], ["-"]])
def test_what_names_no_command_is_answered_by_all_of_them(arguments: list[str]) -> None:
    assert narrowed(app, arguments) is app


def test_a_cell_that_failed_is_told_with_what_the_fixers_know(capsys: pytest.CaptureFixture[str]) -> None:
    error = {"ename": "KeyError", "evalue": "'revv'", "traceback": ["KeyError: 'revv'"]}
    hint = {"message": "`df` has no column 'revv', but 'rev'.", "diff": "-df['revv']\n+df['rev']"}
    _show({"status": "error", "execution_id": "x-1", "error": error, "hint": hint})
    assert capsys.readouterr().err.splitlines() == [
        "KeyError: 'revv'",
        "error: x-1 ended as error",
        "hint: `df` has no column 'revv', but 'rev'.",
        "-df['revv']",
        "+df['rev']",
    ]
