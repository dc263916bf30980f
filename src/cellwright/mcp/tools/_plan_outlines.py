"""What a caller wants a plan to be, as an outline: its own TODOs, or a draft from the files that its code will see.

Makes no plan (see ``plans``); which steps a draft has is decided in ``plans.drafts``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Annotated, TypeAlias

import anyio
from pydantic import Field

from cellwright.engine import Session
from cellwright.errors import PlanError, SandboxError
from cellwright.mcp._arguments import Arguments, Content
from cellwright.notebook.languages import canonical_language
from cellwright.plans.checks import parse_check
from cellwright.plans.data_files import HEAD_BYTES, data_files
from cellwright.plans.drafts import draft
from cellwright.plans.model import Check, Outline, TodoOutline
from cellwright.sandbox.files import SKIPPED, Workdir

__all__ = ["TodoArgument", "drafted", "todo_outline"]

_MAX_WORDS = 2_000
_MAX_CHECKS = 20
_MAX_TIMEOUT_S = 7 * 24 * 3_600
# A draft needs the data that lie at hand, not a whole disk.
_MOST_FILES = 2_000
_MOST_FOLDERS = 50
_DEPTH = 2
_MOST_HEADS = 20
_CheckText: TypeAlias = Annotated[str, Field(max_length=_MAX_WORDS)]


class TodoArgument(Arguments):
    description: str = Field(min_length=1, max_length=_MAX_WORDS)
    code: Content | None = None
    accept: _CheckText | Annotated[list[_CheckText], Field(max_length=_MAX_CHECKS)] | None = Field(
        default=None, description="Must hold after it: an expression, 'output: TEXT|MIME' or 'file: PATH'"
    )
    depends_on: list[int] = Field(default=[], max_length=100, description="Numbers from 1")
    explanation: str = Field(default="", max_length=100_000)
    timeout_s: float | None = Field(default=None, gt=0, le=_MAX_TIMEOUT_S)
    language: str | None = Field(default=None, max_length=100)


def todo_outline(todo: TodoArgument, language: str) -> TodoOutline:
    """One TODO as it was asked for.

    Raises:
        PlanError: a check of it cannot be read.
    """
    texts = [todo.accept] if isinstance(todo.accept, str) else todo.accept or []
    return TodoOutline(
        todo.description,
        code=todo.code or None,
        checks=tuple(_checks(texts, language)),
        depends_on=tuple(todo.depends_on),
        explanation=todo.explanation,
        timeout_s=todo.timeout_s,
        language=_other(todo.language, language),
    )


def _other(name: str | None, language: str) -> str | None:
    """A TODO's own language; None where it is the notebook's."""
    own = canonical_language(name) if name else language
    return own if own != language else None


def _checks(texts: Sequence[str], language: str) -> Iterator[Check]:
    for text in texts:
        if (check := parse_check(text, language)) is not None:
            yield check


async def drafted(session: Session, problem: str, root: Path) -> Outline:
    """A plan made by rule, for the files in the session's folder and where its caller works.

    Raises:
        PlanError: the session's language is none that drafts are made for.
    """
    if session.language != "python":
        raise PlanError(
            f"A plan is drafted for Python only, and this notebook is {session.language}",
            hint="Give the TODOs, with code where you have it",
        )
    files, heads = await anyio.to_thread.run_sync(_look, _seen_from(session, root))
    return draft(problem, files=files, heads=heads)


def _seen_from(session: Session, root: Path) -> list[tuple[Path, str]]:
    """Directories that the session's code can read, each with what its files' names begin with there."""
    place = session.place
    if place.mode == "private":
        own = (Path(place.written), "")
        # Where nothing can be mounted the project is at its own path, to be read.
        reads = session.tier == "C" and place.project is not None and root.is_relative_to(place.project)
        return [own, (root, f"{root}/")] if reads else [own]
    found = [(session.cwd, "")]
    if root != session.cwd and root.is_relative_to(place.top):
        found.append((root, f"{PurePath(os.path.relpath(root, session.cwd)).as_posix()}/"))
    return found


def _look(directories: Sequence[tuple[Path, str]]) -> tuple[list[str], dict[str, bytes]]:
    """Names of files, and how those begin that hold data; nothing is followed out of these directories."""
    names: list[str] = []
    heads: dict[str, bytes] = {}
    known = {directory for directory, _ in directories}
    for directory, prefix in directories:
        with suppress(SandboxError), Workdir.open(directory) as workdir:
            paths = {prefix + path: path for path in _files_in(workdir, directory, known)}
            names += paths
            for name in data_files(paths)[: _MOST_HEADS - len(heads)]:
                with suppress(SandboxError):
                    heads[name] = workdir.read_part(paths[name], max_bytes=HEAD_BYTES).data
    return names, heads


def _files_in(workdir: Workdir, directory: Path, known: set[Path]) -> Iterator[str]:
    """Files at the top and little below; what is hidden, made by tools, or looked at by itself is left out."""
    folders = [""]
    for folder in folders:
        with suppress(SandboxError):
            for entry in workdir.list(folder, max_entries=_MOST_FILES).entries:
                name = PurePath(entry.path).name
                if name.startswith(".") or name in SKIPPED:
                    continue
                if entry.type == "file":
                    yield entry.path
                elif (
                    entry.type == "directory"
                    and entry.path.count("/") < _DEPTH
                    and len(folders) <= _MOST_FOLDERS
                    and directory / entry.path not in known
                ):
                    folders.append(entry.path)
