"""Asks at the terminal what a cell waits for: the prompt on stderr, the answer from stdin, a password without an echo."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

from cellwright.cli._terminal import CLEAR, ProgressLine, printable

__all__ = ["END_OF_INPUT", "answer_form", "ask", "can_ask", "choose"]

END_OF_INPUT = "\x04"
"""What Ctrl-D is for the code, as in a terminal of its own."""

_MOST_OF_LINE = 1 << 16


def can_ask() -> bool:
    """Whether somebody sits at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask(prompt: str, *, is_password: bool) -> str:
    """A line that a person types; cancelled without leaving the terminal changed."""
    fd = sys.stdin.fileno()
    with ProgressLine.paused(), _without_echo(fd, wanted=is_password):
        sys.stderr.write(CLEAR + printable(prompt))
        sys.stderr.flush()
        # No thread of ours: it would sit in its read until somebody presses a key, also after an interrupt.
        await anyio.wait_readable(fd)
        line = os.read(fd, _MOST_OF_LINE)
    if is_password or not line:
        sys.stderr.write("\n")
    return line.decode(errors="replace").rstrip("\r\n") if line else END_OF_INPUT


async def choose(question: str, choices: Sequence[str]) -> str:
    """One of some words, by its first letter or more of it; who gives none has chosen the last."""
    offered = ", ".join(f"[{choice[0]}]{choice[1:]}" for choice in choices)
    termios.tcflush(
        sys.stdin.fileno(), termios.TCIFLUSH
    )  # what was typed before the question is no answer to it
    given = (await ask(f"{question} {offered}: ", is_password=False)).strip().lower()
    return next((choice for choice in choices if given and choice.startswith(given)), choices[-1])


async def answer_form(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to an elicitation of the daemon's: a form with one field."""
    params = request["params"]
    (name, field), *_ = params["requestedSchema"]["properties"].items()
    if "enum" in field:
        chosen = await choose(f"{params['message']}. {field['title']}", field["enum"])
        return {"action": "accept", "content": {name: chosen}}
    text = await ask(f"{field.get('title', '')} ", is_password=field.get("format") == "password")
    return {"action": "accept", "content": {name: text}}


@contextmanager
def _without_echo(fd: int, *, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    before = termios.tcgetattr(fd)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(fd, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
