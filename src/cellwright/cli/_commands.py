"""Runs one command of the catalogue: loads its module and gives its function to typer, which reads the arguments."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import typer

from cellwright.cli._catalogue import function_of

__all__ = ["function_named", "program_of", "run_command"]

# What begins with a dash may be a negative number.
_OF_NUMBERS = frozenset({"tool calc"})


def run_command(command: str, arguments: Sequence[str]) -> None:
    """Run a command; ends the process with its exit code."""
    program = program_of(command)
    gc.enable()
    program(args=list(arguments), prog_name=f"cellwright {command}")


def program_of(command: str) -> typer.Typer:
    """Return a program that is this command alone."""
    # Rich would take a tenth of a second to draw boxes around an error.
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    settings = {"ignore_unknown_options": True} if command in _OF_NUMBERS else None
    # Help is answered before (see ``_help``), and reading typer's own option would load pydantic for flags alone.
    program.command(command.rpartition(" ")[2], context_settings=settings, add_help_option=False)(
        function_named(command)
    )
    return program


def function_named(command: str) -> Callable[..., Any]:
    """Load the function that does a command."""
    module, name = function_of(command)
    return getattr(import_module(module), name)  # type: ignore[no-any-return]  # the catalogue names functions
