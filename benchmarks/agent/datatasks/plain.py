"""A task in plain Python: cells in one namespace of one new process, each looked at afterwards.

Reads ``{"setup": …, "cells": [[code, probe], …]}`` and answers with what each printed, found and failed with, and with
the seconds that looking took. A cell's last expression is shown as the interactive interpreter shows it, and is ``_``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import time
import traceback
from typing import Any

__all__ = ["main", "run_cell"]


def run_cell(source: str, namespace: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression, which becomes ``_`` unless it is None."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), namespace)  # noqa: S102  # this is what it is for
    if last is None or not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)  # noqa: S307  # as above
    if value is not None:
        namespace["_"] = value
        print(repr(value))
    return value


def main() -> None:
    """Run what standard input says."""
    wanted = json.load(sys.stdin)
    answer_to = sys.stdout
    namespace: dict[str, Any] = {"__name__": "__main__", "_": ""}
    looking_s, told = 0.0, []
    for code, probe in [[wanted["setup"], ""], *wanted["cells"]]:
        begun = time.perf_counter()
        failure, said = _run(code, namespace)
        if not told:
            looking_s += time.perf_counter() - begun
        begun = time.perf_counter()
        found = _run(probe, namespace)[1] if probe else ""
        looking_s += time.perf_counter() - begun
        told.append({"failure": failure, "said": said, "found": found})
    json.dump({"cells": told[1:], "looking_s": looking_s}, answer_to)


def _run(code: str, namespace: dict[str, Any]) -> tuple[str | None, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            run_cell(code, namespace)
        except BaseException as error:  # noqa: BLE001  # boundary: whatever the cell does, the next one runs
            return "".join(traceback.format_exception_only(error)).strip(), said.getvalue()
    return None, said.getvalue()


if __name__ == "__main__":
    main()
