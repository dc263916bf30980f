"""Gives a notebook values from outside, in a cell that runs after its own defaults, as papermill does. Pure."""

from __future__ import annotations

import ast
import json
import keyword
from collections.abc import Mapping
from typing import Any

from cellwright.errors import NotebookError
from cellwright.notebook.changes import CellAdded, CellDeleted, Change
from cellwright.notebook.document import Document
from cellwright.notebook.ids import new_id

__all__ = ["inject_parameters", "parse_parameter"]

_DEFAULTS_TAG = "parameters"
_INJECTED_TAG = "injected-parameters"


def parse_parameter(text: str) -> tuple[str, Any]:
    """Read ``name=value``; the value is JSON or a Python literal where it is one, else the text itself.

    Raises:
        NotebookError: there is no name, or it cannot be a variable's.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise NotebookError(f"{text!r} is not a parameter", hint="Write it as name=value, e.g. rows=100")
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(value)
        except (ValueError, SyntaxError):
            continue
    return name, value


def inject_parameters(document: Document, values: Mapping[str, Any]) -> list[Change]:
    """The changes that put these values behind the cell tagged ``parameters``, or first where there is none.

    A cell that an earlier run injected is replaced.
    """
    changes: list[Change] = []
    position = 0
    for index, cell in enumerate(cell for cell in document.cells if _INJECTED_TAG not in cell.tags):
        if _DEFAULTS_TAG in cell.tags:
            position = index + 1
    changes += [CellDeleted(cell.id) for cell in document.cells if _INJECTED_TAG in cell.tags]
    lines = ["# Parameters", *(f"{name} = {value!r}" for name, value in values.items())]
    added = CellAdded(
        cell_id=new_id(document),
        kind="code",
        source="\n".join(lines),
        position=position,
        metadata={"tags": [_INJECTED_TAG]},
    )
    return [*changes, added]
