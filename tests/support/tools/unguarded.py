"""Evaluates expressions without what guards against them, within limits; ``test_calculator_hostile`` forks it."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pint

import cellwright.tools.calculator
from cellwright.errors import CalculationError, CellwrightError
from cellwright.tools.calculator import calculate

__all__ = ["calculates_each", "calculates_without_bounds", "evaluates", "within_limits"]

MORE_MEMORY = 400_000_000


class Registry:
    """What an application that evaluates units would have at hand."""

    def define(self, text: str) -> None:
        pint.UnitRegistry(cache_folder=None, on_redefinition="ignore").define(text)

    def parse_expression(self, text: str) -> Any:
        return pint.UnitRegistry(cache_folder=None).parse_expression(text)


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def evaluates(expression: str) -> None:
    say(repr(eval(expression, {"ureg": Registry(), "__name__": "builtins"})))  # noqa: S307  # what must not be done


def calculates_without_bounds(expression: str) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("cellwright.tools.calculator"):
            for bound in [bound for bound in vars(module) if "MAX_" in bound or bound.startswith("_LARGEST")]:
                setattr(module, bound, 10**17 if bound == "MAX_EXPONENT" else 10**200)
    cellwright.tools.calculator._values.Meter.__init__.__defaults__ = (10**200,)
    say("began")
    try:
        say(f"answered {calculate(expression).result}")
    except CellwrightError as error:
        # The end of Python's own stack is none of the calculator's bounds.
        if isinstance(error.__context__, RecursionError):
            raise
        say(f"refused {error}")


def calculates_each(cases: Sequence[tuple[str, str]]) -> None:
    """Calculate each expression, and tell of those that are not refused with a hint and in the words beside them."""
    for expression, told in cases:
        try:
            calculate(expression)
            say(f"not refused: {expression}")
        except CalculationError as refused:
            if told not in str(refused) or not refused.hint:
                say(f"refused otherwise: {expression}: {refused}")
    say("all refused")


def within_limits(function: Callable[[Any], None], given: Any, cpu_s: int) -> None:
    """A fork's time begins with it; its memory does not."""
    memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir("/")
    function(given)
