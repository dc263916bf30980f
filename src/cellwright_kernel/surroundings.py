"""What lies around a failed cell: files in the working directory and how they begin, modules and what is in them.

Read from directories and dictionaries, bounded in count and size; nothing is imported, followed or waited for.
"""

from __future__ import annotations

import ast
import base64
import os
import pathlib
import pkgutil
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from importlib.machinery import FileFinder
from itertools import islice
from types import ModuleType
from typing import Any

from cellwright_kernel.cellcode import own_nodes
from cellwright_kernel.digests import is_a
from cellwright_kernel.exceptions import text
from cellwright_kernel.subjects import Scope, public_names

__all__ = ["files_in", "heads_of", "importable", "members_of", "paths_in"]

MAX_FILES = 2_000
MAX_DEPTH = 6
MAX_FILES_TEXT = 100_000
MAX_HEAD = 64 * 1024
MAX_HEADS = 160 * 1024
MAX_PATHS = 50
MAX_PATH = 1_000
MAX_MODULES = 4_000
MAX_MEMBERS = 4
SKIPPED = frozenset({"__pycache__", "node_modules", "venv"})

_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__


def files_in(directory: str, project: str | None = None) -> list[str]:
    """What lies below a directory, the nearest first, directories with a ``/`` at the end.

    After that what lies in the directories above, up to the ``project``, as one names it from here: ``../data.csv``.
    """
    found: list[str] = []
    above = _above(directory, project)
    waiting = deque([("", 0), *((way, 0) for way, _ in above)])
    seen = dict(above)
    room = MAX_FILES_TEXT
    while waiting and len(found) < MAX_FILES and room > 0:
        below, depth = waiting.popleft()
        for name, is_directory in _entries(f"{directory}/{below}", MAX_FILES - len(found)):
            if seen.get(below) == name:
                continue
            path = f"{below}{name}" + ("/" if is_directory else "")
            room -= len(path)
            if room <= 0:
                break
            found.append(path)
            if is_directory and depth + 1 < MAX_DEPTH:
                waiting.append((path, depth + 1))
    return found


def _above(directory: str, project: str | None) -> list[tuple[str, str]]:
    """The ways to the directories above, each with the name there of the one below, which was looked into before."""
    ways: list[tuple[str, str]] = []
    while project is not None and directory != project and directory.startswith(f"{project.rstrip('/')}/"):
        directory, _, name = directory.rpartition("/")
        ways.append((f"{ways[-1][0] if ways else ''}../", name))
    return ways


def _entries(directory: str, most: int) -> list[tuple[str, bool]]:
    try:
        with os.scandir(directory) as entries:
            shown = (entry for entry in islice(entries, MAX_FILES * 10) if _is_shown(entry.name))
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(shown, most))
    except OSError:
        return []


def _is_shown(name: str) -> bool:
    # A name that is no text cannot be told, nor written in a source.
    return not name.startswith(".") and name not in SKIPPED and text(name) == name


def paths_in(tree: ast.Module, statement: ast.stmt, scope: Scope) -> list[str]:
    """Texts that may name files, the failing statement's first, as the code has them."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith) and _holds(node, statement)
    ]
    used = {node.id for node in own_nodes(statement) if isinstance(node, ast.Name)}
    givers = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in used for target in node.targets)
    ]
    found: dict[str, None] = {}
    for each in (statement, *reversed(around), *givers):
        for node in own_nodes(each):
            path = _path(scope.value_of(node)) if isinstance(node, ast.expr) else None
            if path is not None:
                found[path] = None
    return list(islice(found, MAX_PATHS))


def _holds(outer: ast.stmt, inner: ast.stmt) -> bool:
    return outer is not inner and any(node is inner for node in ast.walk(outer))


def _path(value: Any) -> str | None:
    if type(value) is pathlib.PosixPath:
        value = str(value)
    if type(value) is str and 0 < len(value) <= MAX_PATH and "\0" not in value and text(value) == value:
        return value
    return None


def heads_of(paths: Iterable[str]) -> list[dict[str, Any]]:
    """How those files begin that are there, and plain."""
    found: list[dict[str, Any]] = []
    room = MAX_HEADS
    for path in paths:
        head = _head(path, min(MAX_HEAD, room)) if room > 0 else None
        if head is not None:
            content, size = head
            room -= len(content)
            found.append({"path": path, "content": base64.b64encode(content).decode(), "size": size})
    return found


def _head(path: str, most: int) -> tuple[bytes, int] | None:
    try:
        # Not one that has nothing to read yet, nor one that leads elsewhere.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        about = os.fstat(handle)
        return (os.read(handle, most), about.st_size) if stat.S_ISREG(about.st_mode) else None
    except OSError:
        return None
    finally:
        os.close(handle)


def importable() -> list[str]:
    """Top-level modules that can be imported."""
    loaded = (name.partition(".")[0] for name in list(sys.modules) if type(name) is str)
    found = {*sys.stdlib_module_names, *sys.builtin_module_names, *loaded, *_on_path(sys.path)}
    public = sorted(name for name in found if not name.startswith("_") and name.isidentifier())
    return public[:MAX_MODULES]


def _on_path(path: Iterable[Any]) -> Iterator[str]:
    for place in list(path):
        # Other finders may be anybody's, and would be asked to look.
        if type(place) is str and type(sys.path_importer_cache.get(place or os.curdir)) is FileFinder:
            yield from (module.name for module in pkgutil.iter_modules([place]))


def members_of(statement: ast.stmt, scope: Scope) -> dict[str, list[str]]:
    """Public names of the modules that a statement imports from or uses by attribute, by both their names."""
    found: dict[str, list[str]] = {}
    for shown, module in islice(_modules_in(statement, scope), MAX_MEMBERS):
        names = sorted({*public_names(module), *_submodules(module)})
        found[shown] = names
        own = _dict_of_module(module).get("__name__")
        if type(own) is str:
            found[text(own)] = names
    return found


def _modules_in(statement: ast.stmt, scope: Scope) -> Iterator[tuple[str, ModuleType]]:
    for node in own_nodes(statement):
        match node:
            case ast.ImportFrom(module=str(name), level=0) | ast.alias(name=name):
                yield from _imported(name)
            case ast.Attribute(inner, _):
                value = scope.value_of(inner)
                if is_a(value, ModuleType):
                    yield ast.unparse(inner), value


def _imported(name: str) -> Iterator[tuple[str, ModuleType]]:
    """The module of that name, or the package that should have had it."""
    while name:
        module = sys.modules.get(name)
        if module is not None and is_a(module, ModuleType):
            yield name, module
            return
        name = name.rpartition(".")[0]


def _submodules(module: ModuleType) -> Iterator[str]:
    path = _dict_of_module(module).get("__path__")
    if type(path) is list:
        for place in path:
            if type(place) is str and type(sys.path_importer_cache.get(place)) is FileFinder:
                yield from (each.name for each in pkgutil.iter_modules([place]) if each.name[:1] != "_")
