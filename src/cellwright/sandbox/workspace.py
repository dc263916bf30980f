"""A session's workspace, and the part of the project that it sees there: one rule with three modes. Pure.

``overlay``: the project at its own path, every write in a layer of the session's own. ``private``: a folder of the
session's own. ``direct``: the notebook's folder itself, with the rest of the project to read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from cellwright.errors import KernelStartError
from cellwright.sandbox.chosen_folders import is_secret
from cellwright.sandbox.policy import Mode
from cellwright.sandbox.safe_paths import clear_directory

__all__ = [
    "PRIVATE",
    "SharedWorkspace",
    "Workspace",
    "exchange_storage",
    "hiding_mounts",
    "needs_own_fork",
    "prepare_storage",
    "refuse_too_open",
    "refuse_unhidden",
    "remove_storage",
    "where_to_work",
    "without_overlay",
    "without_secrets",
    "workspace_mounts",
]
LAYER = "layer"

PRIVATE = "files"

_MARKS = (".git", "pyproject.toml", ".venv")

# Code that writes here would be run by others later: by git, by whoever uses the environment.
_NEVER_WRITTEN = (".git", ".venv")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The directories of one session. All paths are absolute and resolved."""

    mode: Mode
    cwd: str
    project: str | None
    storage: str
    """The session's own directory, which holds its layer or its private folder."""
    hidden: tuple[str, ...] = ()
    """What must not be seen even where it lies in the project: the engine's state, sockets."""

    @property
    def top(self) -> str:
        """The uppermost directory of the user's that is seen."""
        return self.cwd if self.mode == "private" or self.project is None else self.project

    @property
    def written(self) -> str:
        """The real directory in which everything that is written ends up."""
        match self.mode:
            case "overlay":
                return f"{self.storage}/{LAYER}/upper"
            case "private":
                # A branch sees its folder where the session has it that it was grown from.
                return f"{self.storage}/{PRIVATE}"
            case "direct":
                return self.cwd

    @property
    def written_cwd(self) -> str:
        """The real directory of what is written in the working directory."""
        if self.mode != "overlay":
            return self.written
        return str(PurePath(self.written, PurePath(self.cwd).relative_to(self.top)))


@dataclass(frozen=True, slots=True)
class SharedWorkspace:
    """The workspace of a live kernel, for a secondary kernel to share."""

    mount_fd: int
    """What is mounted there; -1 where there are no namespaces. Whoever starts the other one closes it."""
    owner: tuple[int, int]
    """Whom its files belong to."""


def find_project(start: Path, *, home: Path) -> Path | None:
    """The nearest directory, at or above this one, that is marked as a project; a home, or what holds it, is none."""
    for directory in (start, *start.parents):
        if home.is_relative_to(directory):
            return None
        if any((directory / mark).exists() for mark in _MARKS):
            return directory
    return None


def where_to_work(
    folder: Path, mode: Mode | None, *, configured: Path | None, home: Path, chosen: Path | None = None
) -> tuple[Mode, Path | None]:
    """How a session works, and on which project: as configured, else the nearest that is marked as one, else ``chosen``.

    ``chosen`` is a folder that a person works in and that code may see.
    """
    if configured is not None and folder.is_relative_to(configured):
        project: Path | None = configured
    else:
        project = find_project(folder, home=home)
        if project is None and chosen is not None and folder.is_relative_to(chosen):
            project = chosen
    if mode == "private" or (mode == "overlay" and project is None):
        return "private", None
    return mode or "direct", project


def refuse_too_open(workspace: Workspace, home: str, *, chosen: bool = False) -> None:
    """Raise where the place would open somebody's whole home, or more; to be read it may be ``chosen``, with a layer."""
    if chosen:
        opened = {workspace.cwd} if workspace.mode == "direct" else set[str]()
    else:
        opened = {workspace.top, workspace.cwd}
    for what in opened:
        if PurePath(home).is_relative_to(what):
            raise KernelStartError(
                f"Working in {what} would show code everything in {home}",
                hint="Put the notebook into a folder of its own, or choose the mode `private`",
            )


def refuse_unhidden(workspace: Workspace) -> None:
    """Raise where nothing can be mounted, and what code must not see lies in what it may write or read."""
    for path in workspace.hidden:
        for seen in {workspace.cwd, workspace.project or workspace.cwd}:
            if PurePath(path).is_relative_to(seen):
                raise KernelStartError(
                    f"Without namespaces code that sees {seen} would reach {path}, which is Cellwright's own",
                    hint="Set CELLWRIGHT_STORAGE to a directory elsewhere, or choose the mode `private`",
                )


def without_secrets(workspace: Workspace) -> Workspace:
    """The nearest place where nothing can be hidden: what holds keys is not shown as a project."""
    kept = tuple(path for path in workspace.hidden if not is_secret(path))
    return workspace if kept == workspace.hidden else replace(workspace, project=None, hidden=kept)


def without_overlay(workspace: Workspace) -> Workspace:
    """The nearest place where nothing can be mounted: a folder of the session's own, with the project to read."""
    return replace(workspace, mode="private", cwd=f"{workspace.storage}/{PRIVATE}")


def needs_own_fork(workspace: Workspace) -> bool:
    """Whether a kernel that stands by cannot take this place, because there is no directory above to come by."""
    return PurePath(workspace.top).parent == PurePath("/")


def workspace_mounts(
    workspace: Workspace, readable: Sequence[str], *, gate: bool, memory: Mapping[str, int] | None
) -> list[dict[str, Any]]:
    """What to mount, in order, for a session to find itself in its place.

    ``memory`` is the size of the file system in memory that holds what it writes; None where that is the disk.
    """
    mounts = [*_gate(workspace, readable)] if gate and not needs_own_fork(workspace) else []
    if workspace.mode == "overlay":
        layer = f"{workspace.storage}/{LAYER}"
        mounts.append(
            {"kind": "overlay", "at": workspace.top, "lower": workspace.top, "layer": layer, "memory": memory}
        )
    elif memory is not None:
        mounts.append({"kind": "tmpfs", "at": workspace.cwd, **memory, "write": True, "offered": True})
    elif workspace.mode == "private":
        mounts.append(_bind(workspace.written, write=True) | {"at": workspace.cwd})
    else:
        if workspace.top != workspace.cwd:
            mounts.append(_bind(workspace.top, write=False))
        mounts.append(_bind(workspace.cwd, write=True))
        mounts += _protected(workspace)
        mounts += [
            {"kind": "bind", "from": path, "at": path, "write": False}
            for path in readable
            if PurePath(path).is_relative_to(workspace.top)
        ]
    return [*mounts, *hiding_mounts(workspace)]


def hiding_mounts(workspace: Workspace) -> list[dict[str, Any]]:
    """What to mount over everything in the place that must not be seen: nothing over a directory, no bytes over a file."""
    mounts: list[dict[str, Any]] = []
    for path in workspace.hidden:
        # Through a link code gets no further than without it.
        if path == workspace.cwd or not PurePath(path).is_relative_to(workspace.top) or os.path.islink(path):
            continue
        if os.path.isdir(path):
            mounts.append({"kind": "tmpfs", "at": path, "bytes": 4096, "inodes": 2, "write": False})
        elif os.path.exists(path):
            mounts.append({"kind": "bind", "from": os.devnull, "at": path, "write": False})
    return mounts


def _gate(workspace: Workspace, readable: Sequence[str]) -> list[dict[str, Any]]:
    parent = str(PurePath(workspace.top).parent)
    if PurePath(parent).is_relative_to("/tmp"):  # the private one, which is writable as it is
        return []
    # The gate covers what was mounted below it: that is put back.
    covered = [
        {"kind": "bind", "from": path, "at": path, "write": False}
        for path in readable
        if PurePath(path).is_relative_to(parent) and not PurePath(path).is_relative_to(workspace.top)
    ]
    return [{"kind": "gate", "at": parent}, *covered]


def _protected(workspace: Workspace) -> list[dict[str, Any]]:
    return [
        {
            "kind": "bind",
            "from": f"{workspace.cwd}/{name}",
            "at": f"{workspace.cwd}/{name}",
            "write": False,
            "plain": True,
        }
        for name in _NEVER_WRITTEN
        # A link leads to nothing that is seen in there, and code may have put it.
        if Path(workspace.cwd, name).exists() and not Path(workspace.cwd, name).is_symlink()
    ]


def _bind(path: str, *, write: bool) -> dict[str, Any]:
    return {"kind": "bind", "from": path, "at": path, "write": write, "own": True, "plain": True}


# The directory that is a session's own: its layer over the project, or its private folder. Blocking.


def prepare_storage(workspace: Workspace) -> None:
    """Make the directories that a place needs."""
    if workspace.mode == "overlay":
        for part in ("upper", "work"):
            Path(workspace.storage, LAYER, part).mkdir(mode=0o700, parents=True, exist_ok=True)
    elif workspace.mode == "private":
        Path(workspace.written).mkdir(mode=0o700, parents=True, exist_ok=True)


def exchange_storage(one: Path, other: Path) -> None:
    """Let two sessions have each other's directories; what is open there stays open."""
    aside = one.with_name(f"{one.name}.aside")
    for directory in (one, other):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(one, aside)  # all three are renames of directories in one place
    os.rename(other, one)
    os.rename(aside, other)


def remove_storage(directory: Path) -> None:
    """Remove a session's own directory, whatever its code left there."""
    try:
        root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        clear_directory(root)
    finally:
        os.close(root)
    with contextlib.suppress(
        OSError
    ):  # what could not be deleted stays, in a directory that nobody else uses
        directory.rmdir()
