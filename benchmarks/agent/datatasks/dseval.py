"""DSEval: problem sets, each a script of cells that build on one another, with questions and validators in YAML.

``git clone --depth 1 https://github.com/MetaCopilot/dseval`` (MIT); the sets lie in ``benchmarks/``: exercise, so,
leetcode and kaggle. A cell begins with ``# %%``; where a string in triple quotes follows, that is its question with
what validates it, and the rest is the solution. Data lies in ``_inputs`` and is called ``inputs/`` by the code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from datatasks.tasks import Step, Task, TaskSet

__all__ = ["SOURCE", "find", "read"]

SOURCE = "https://github.com/MetaCopilot/dseval"
_MANIFEST = "_manifest.yaml"
_INPUTS = "_inputs"
_NOT_MEANT = "examples"
"""Shows how problem sets are written; its own figures leave it out."""
_cell = re.compile(r"^# %%[ \t]*\n", re.MULTILINE)
_head = re.compile(r'\s*r?"""(?P<head>.+?)"""[ \t]*\n(?P<code>.*)', re.DOTALL)
_ALWAYS = {"crash": None}
_TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    "empty": {},
    "basic": _ALWAYS,
    "intact": {**_ALWAYS, "namespace_intact": None},
    "comparison": {**_ALWAYS, "namespace_intact": None, "result": None},
}


def find(directory: Path) -> Path | None:
    """Where below a directory the sets lie."""
    manifests = sorted(directory.rglob(_MANIFEST))
    if not manifests:
        return None
    return directory if directory in (manifest.parent for manifest in manifests) else manifests[0].parents[1]


def read(directory: Path) -> TaskSet:
    """Every problem set below a directory; one that cannot be read is a note."""
    tasks, notes = [], []
    for manifest in sorted(directory.rglob(_MANIFEST)):
        folder = manifest.parent
        if folder.name == _NOT_MEANT and folder != directory:
            continue
        for script in sorted(folder.glob("[!_]*.py")):
            try:
                tasks.append(_task(script))
            except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
                notes.append(f"{folder.name}/{script.stem} cannot be read: {str(error).splitlines()[0]}")
    return TaskSet("dseval", tuple(tasks), tuple(notes))


def _task(script: Path) -> Task:
    text = script.read_text(encoding="utf-8")
    # What stands before the first cell is where the problem was taken from.
    steps = tuple(_step(part) for part in _cell.split(text)[1:] if part.strip())
    return Task(f"{script.parent.name}/{script.stem}", steps, _files(script, text))


def _step(part: str) -> Step:
    headed = _head.match(part)
    if headed is None:
        return Step(cells=(part.strip(),))
    head = yaml.safe_load(headed["head"])
    return Step(
        str(head["question"]).strip(),
        (headed["code"].strip(),),
        rules={**_rules(head.get("validator")), "execution": head.get("execution") or {}},
    )


def _rules(validator: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a validator says on top of its template."""
    own = dict(validator or {})
    return {**_TEMPLATES[own.pop("template", "comparison")], **own}


def _files(script: Path, text: str) -> dict[str, Path]:
    inputs = script.parent / _INPUTS
    own = inputs / script.stem
    folder = own if own.is_dir() else inputs
    there = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    files = {f"inputs/{path.relative_to(folder)}": path for path in there if path.name in text}
    # What the code reads and nobody has is known as well, so that it can be told.
    for name in re.findall(r"""["']inputs/([^"'{}]+)["']""", text):
        files.setdefault(f"inputs/{name}", folder / name)
    return files
