"""Cells as rules see them, with what names stand for taken from values that are really there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from cellwright.engine.introspection import Profile
from cellwright.notebook.python_names import cell_names, python_cell
from cellwright.review import Case, Page
from cellwright_kernel._profiler import Profiler

__all__ = ["IMPORTS", "case_of", "page", "run"]

IMPORTS = "import numpy as np\nimport pandas as pd"


def page(source: str, number: int = 1) -> Page:
    return Page(f"c{number}", number, source, python_cell(source).tree, cell_names(source))


def run(source: str, held: dict[str, Any]) -> dict[str, Any]:
    """What there is after code ran on copies of these values."""
    copies = {name: value.copy() if hasattr(value, "copy") else value for name, value in held.items()}
    namespace = {"np": np, "pd": pd, **copies}
    exec(compile(source, "cell", "exec"), namespace)  # noqa: S102  # a test's own code
    return {name: value for name, value in namespace.items() if not name.startswith("__")}


def case_of(
    source: str,
    held: dict[str, Any] | None = None,
    *,
    above: tuple[str, ...] = (),
    below: tuple[str, ...] = (),
) -> Case:
    """A cell that ran on these values, between others that only stand there."""
    held = held or {}
    after = run(source, held)
    shell = SimpleNamespace(user_ns={**after, **held}, user_ns_hidden={})
    known = msgspec.convert(Profiler().answer(shell), Profile)
    pages = [page(text, number) for number, text in enumerate((IMPORTS, *above, source, *below), 1)]
    at = len(above) + 1
    types = {**known.types, **_types(after)}
    return Case(pages[at], tuple(pages[:at]), tuple(pages[at + 1 :]), types, known.frames)


def _types(namespace: dict[str, Any]) -> dict[str, str]:
    shell = SimpleNamespace(user_ns=namespace, user_ns_hidden={})
    return msgspec.convert(Profiler().answer(shell), Profile).types
