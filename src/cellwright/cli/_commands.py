"""Runs one command of the catalogue: loads its module, reads its arguments and ends the process with its exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from cellwright.cli._arguments import BadArgument, Exit, parameters_of, read_arguments
from cellwright.cli._catalogue import function_of
from cellwright.cli._terminal import ExitCode, echo

__all__ = ["function_named", "run_command"]

# What begins with a dash may be a negative number.
_OF_NUMBERS = frozenset({"tool calc"})


def run_command(command: str, arguments: Sequence[str]) -> NoReturn:
    """Run a command; ends the process with its exit code."""
    sys.exit(_exit_code(command, arguments))


def function_named(command: str) -> Callable[..., Any]:
    """Load the function that does a command."""
    module, name = function_of(command)
    return getattr(import_module(module), name)  # type: ignore[no-any-return]  # the catalogue names functions


def _exit_code(command: str, arguments: Sequence[str]) -> int:
    function = function_named(command)
    try:
        given = read_arguments(parameters_of(function), arguments, of_numbers=command in _OF_NUMBERS)
        gc.enable()
        function(**given)
    except BadArgument as error:
        echo(f"error: {error}\nhint: `cellwright {command} --help` tells what it takes", err=True)
        return ExitCode.BAD_USAGE
    except Exit as end:
        return end.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except EOFError:  # a person was asked, and ended the input
        echo("\nerror: nothing was answered", err=True)
        return ExitCode.RUN_FAILED
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.RUN_FAILED
    return ExitCode.OK
