"""One cell that makes many attempts, each in a scope of its own, and prints what each of them said. Knows no verdicts.

A cell for every attempt costs far more than what is tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.support.sandbox.escapes.attempts import Attempt

__all__ = ["cell_of", "outputs_in"]

_CELL = """
import contextlib, io, json, os, shutil

def said(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(code, {"__name__": "__main__", "W": W})
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
    return out.getvalue()

def clear():
    for name in set(os.listdir()) - before:  # what one leaves would be in the next one's way
        shutil.rmtree(name, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(name)

before, told = set(os.listdir()), {}
for name, code in CODES.items():
    told[name] = said(code)
    clear()
print("TOLD", json.dumps(told))
"""


def cell_of(attempts: Iterable[Attempt], facts: dict[str, Any]) -> str:
    """What is to be run in Python."""
    codes = {attempt.name: attempt.code for attempt in attempts}
    return f"W, CODES = {facts!r}, {codes!r}\n{_CELL}"


def outputs_in(text: str) -> dict[str, str]:
    """What each attempt said, by its name; empty if the cell did not come to its end."""
    _, found, told = text.partition("TOLD ")
    outputs: dict[str, str] = json.loads(told) if found else {}
    return outputs
