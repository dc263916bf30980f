"""The command line with one command is, for whoever calls that command, the whole of it."""

from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cellwright.cli._commands import app, narrowed


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
