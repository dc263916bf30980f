"""Brings Python source into ruff's form, in a process that can read nothing and reach nobody.

The source is handed over as a notebook's cell, so that IPython's magics are known and stay.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from cellwright.errors import MissingExtra, NotebookError
from cellwright.tools._confined_process import ask_apart

__all__ = ["format_python"]

_MODULE = "cellwright.tools.formatter"

_LIMIT_S = 20.0

_MOST_ANSWERED = 8 << 20


async def format_python(sources: list[str]) -> list[str]:
    """The sources in ruff's form, each by itself.

    Raises:
        MissingExtra: ruff is not installed.
        NotebookError: ruff cannot read them.
    """
    if importlib.util.find_spec("ruff") is None:
        raise MissingExtra("Python", ImportError("no ruff", name="ruff"), extra="format")
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in sources
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    try:
        said, code = await ask_apart(
            _MODULE, given=json.dumps(notebook).encode(), limit_s=_LIMIT_S, most_answered=_MOST_ANSWERED
        )
    except TimeoutError:
        raise NotebookError("Formatting took too long", hint="Format fewer cells at once") from None
    if code != 0:
        raise NotebookError(
            "ruff cannot format this: it is no Python as it stands", hint="Run the cell to see what is wrong"
        )
    return ["".join(cell["source"]) for cell in json.loads(said)["cells"]]
