"""Brings source into its language's usual form, in a process without files and network.

Python goes to ruff, TypeScript and JavaScript to Deno, SQL to nobody: no library that we have writes SQL back with its
comments. Python is handed over as a notebook's cells, so that IPython's magics are known and stay.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import anyio

from cellwright.errors import MissingExtra, NotebookError
from cellwright.kernels import find_deno
from cellwright.tools._confined_process import ask_apart

__all__ = ["FORMATTED_LANGUAGES", "format_sources"]

FORMATTED_LANGUAGES = ("python", "typescript", "javascript")

_MODULE = "cellwright.tools.formatter"

_LIMIT_S = 20.0

_MOST_ANSWERED = 8 << 20


async def format_sources(language: str, sources: list[str]) -> list[str]:
    """The sources in the form that their language's formatter gives them, each by itself.

    Raises:
        MissingExtra: ruff is not installed.
        KernelStartError: Deno is not installed.
        NotebookError: the formatter cannot read them, or there is none for the language.
    """
    if language not in FORMATTED_LANGUAGES:
        known = ", ".join(FORMATTED_LANGUAGES)
        raise NotebookError(f"There is no formatter for {language}", hint=f"There is one for {known}")
    try:
        with anyio.fail_after(_LIMIT_S):
            if language == "python":
                return await _by_ruff(sources)
            deno = str(await anyio.to_thread.run_sync(find_deno))
            return [await _by_deno(deno, language, source) for source in sources]
    except TimeoutError:
        raise NotebookError("Formatting took too long", hint="Format fewer cells at once") from None


async def _by_ruff(sources: list[str]) -> list[str]:
    if importlib.util.find_spec("ruff") is None:
        raise MissingExtra("Python", ImportError("no ruff", name="ruff"), extra="format")
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in sources
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    output = await _ask("ruff", given=json.dumps(notebook))
    return ["".join(cell["source"]) for cell in json.loads(output)["cells"]]


async def _by_deno(deno: str, language: str, source: str) -> str:
    return (await _ask("deno", deno, language, given=source)).removesuffix("\n")


async def _ask(program: str, *arguments: str, given: str) -> str:
    order = given.encode(errors="replace")
    output, code = await ask_apart(
        _MODULE, program, *arguments, given=order, limit_s=_LIMIT_S, most_answered=_MOST_ANSWERED
    )
    if code != 0:
        raise NotebookError(
            f"{program} cannot format this: it cannot be read as it stands",
            hint="Run the cell to see what is wrong",
        )
    return output.decode()
