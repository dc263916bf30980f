"""The parts of a plan file as they were found, each with its line, before anybody asked what they mean.

Made by ``plan_markdown`` and ``plan_toml``; ``plan_files`` makes an outline of them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Found", "FoundPlan", "FoundStep", "Unreadable"]


class Unreadable(Exception):
    """Something in a plan file cannot be read; whoever knows the file's name turns it into a ``PlanFileError``."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Found:
    """A text and the line where it stands, from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class FoundStep:
    line: int
    description: str
    explanation: str = ""
    code: Found | None = None
    accept: tuple[Found, ...] = ()
    depends_on: tuple[Found, ...] = ()
    """Each a number, a name, or several of them with commas."""
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class FoundPlan:
    line: int
    problem: str
    steps: tuple[FoundStep, ...]
    description: str = ""
    validation: FoundStep | None = None
    draft: bool = False
    languages: tuple[Found, ...] = ()
    """Every place that says in which language the code is."""
