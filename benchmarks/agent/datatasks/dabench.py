"""InfiAgent-DABench: closed questions about CSV files, each with constraints, a format and its right answers.

``git clone --depth 1 https://github.com/InfiAgent/InfiAgent`` (Apache-2.0); the questions of its validation set lie in
``examples/DA-Agent/data``. It has labels and no solutions, so there is nothing of it to run without a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datatasks.tasks import Step, Task, TaskSet

__all__ = ["SOURCE", "find", "read"]

SOURCE = "https://github.com/InfiAgent/InfiAgent"
_QUESTIONS = "da-dev-questions.jsonl"
_LABELS = "da-dev-labels.jsonl"
_TABLES = "da-dev-tables"


def find(directory: Path) -> Path | None:
    """Where below a directory the set lies."""
    for found in sorted(directory.rglob(_QUESTIONS)):
        if (found.parent / _LABELS).is_file():
            return found.parent
    return None


def read(directory: Path) -> TaskSet:
    """The questions that have labels."""
    labels = {line["id"]: dict(line["common_answers"]) for line in _lines(directory / _LABELS)}
    questions = list(_lines(directory / _QUESTIONS))
    tasks = tuple(_task(line, labels[line["id"]], directory) for line in questions if line["id"] in labels)
    unlabelled = len(questions) - len(tasks)
    notes = [f"{unlabelled} questions have no label"] if unlabelled else []
    return TaskSet("dabench", tasks, tuple(notes))


def _task(line: dict[str, Any], answers: dict[str, str], directory: Path) -> Task:
    question = (
        f"{line['question']}\n\nConstraints:\n{line['constraints']}\n\n"
        f"The data is in the file {line['file_name']}.\n\n"
        f"End your answer with the results in exactly this format, brackets included:\n{line['format']}"
    )
    return Task(
        str(line["id"]),
        (Step(question, answers=answers),),
        {line["file_name"]: directory / _TABLES / line["file_name"]},
        line.get("level", ""),
        tuple(line.get("concepts", ())),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)
