"""Tasks as every set's adapter gives them, and what has to be there before one can run. Runs nothing."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Step", "Task", "TaskSet", "missing_packages", "packages_of", "stage", "wants_of"]


@dataclass(frozen=True, slots=True)
class Step:
    """One question of a task, and what is known of its answer."""

    question: str = ""
    """Empty where the code is there only for what follows."""
    cells: tuple[str, ...] = ()
    """The set's own solution; empty where it has none."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """What has to stand in the answer's text, by name (see ``answers``)."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """What has to hold of the values that code leaves behind (see ``rules``)."""


@dataclass(frozen=True, slots=True)
class Task:
    """Questions that build on one another, with their files."""

    id: str
    steps: tuple[Step, ...]
    files: Mapping[str, Path] = field(default_factory=dict)
    """Where each lies, by its path in the working directory."""
    level: str = ""
    concepts: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[int, ...]:
        """The numbers of the steps that ask something."""
        return tuple(number for number, step in enumerate(self.steps) if step.question)

    @property
    def solved(self) -> bool:
        """Whether the set says how every question is answered."""
        return bool(self.questions) and all(self.steps[number].cells for number in self.questions)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """A set, as far as it could be read."""

    name: str
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()
    """What could not be read, and why."""

    def first(self, count: int | None) -> TaskSet:
        """So many tasks, taken evenly from the whole, so that a sample is of all its parts."""
        if count is None or count >= len(self.tasks):
            return self
        chosen = tuple(self.tasks[number * len(self.tasks) // count] for number in range(count))
        return TaskSet(self.name, chosen, self.notes)


def wants_of(task: Task) -> str | None:
    """What keeps a task from being run here, in words; None where nothing does."""
    if gone := sorted(name for name, path in task.files.items() if not path.is_file()):
        return f"no file {', '.join(gone)}"
    if lacking := missing_packages(cell for step in task.steps for cell in step.cells):
        return f"needs {', '.join(lacking)}"
    return None


def missing_packages(sources: Iterable[str]) -> list[str]:
    """The modules that code imports and this interpreter does not have."""
    names = set().union(*(packages_of(source) for source in sources))
    return sorted(name for name in names if not _is_there(name))


def packages_of(source: str) -> set[str]:
    """The top-level modules that code imports; none where it is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def stage(task: Task, directory: Path) -> Path:
    """Put a task's files into a directory, as copies: a task may write over them."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, source in task.files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return directory


def _is_there(name: str) -> bool:
    return name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
