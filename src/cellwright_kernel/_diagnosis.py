"""Describes the exception of the last execution and the code, values and files around it, for whoever has to fix it.

Only what the last execution raised: one that went well leaves nothing to tell, whatever failed before it. Runs none of
the user's code but ``str()`` of the exceptions (see ``exceptions``, ``subjects``), and stays small and quick whatever
the namespace and the directory hold.
"""

from __future__ import annotations

import ast
import base64
import inspect
import json
import linecache
import os
import pathlib
import pkgutil
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import FileFinder
from itertools import islice
from types import FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar

from cellwright_kernel._exceptions import (
    CellCode,
    ErrorLocation,
    ExceptionReporter,
    lineage_of,
    own_nodes,
    text,
)
from cellwright_kernel._subjects import UNKNOWN, Scope, node_at, public_names, statement_at, subject_of
from cellwright_kernel.digests import describe, is_a

__all__ = ["diagnose"]

MAX_NAMES = 2_000
MAX_NAME = 200
MAX_VALUES = 50
MAX_REPLY = 400_000

_SHED = (
    "heads",
    "versions",
    "signatures",
    "files",
    "modules",
    "members",
    "names",
    "values",
    "chain",
    "subject",
)
"""What is left out first where everything together is too large."""

_traceback_of: Any = vars(BaseException)["__traceback__"].__get__
_Found = TypeVar("_Found")


def diagnose(shell: Any, project: str | None = None) -> dict[str, Any]:
    """The error of the shell's last execution; ``raised`` is None where there is none.

    ``project`` is how far up files are of interest.
    """
    error, before_it_ran = _last_error(shell)
    if error is None:
        return {"raised": None}
    code = _code_of(shell, error)
    told = ExceptionReporter(code, before_it_ran=before_it_ran)
    roots, rest = lineage_of(error)
    span = told.span_of(error)
    first, led_to = roots[0]
    # A cause raised and caught in a library never passed through the cell; what it became did.
    tracebacks = (_traceback_of(each) for each in (first, led_to, error))
    place = next((found for traceback in tracebacks if (found := code.place_of(traceback))), None)
    directory = _part(os.getcwd)
    raised = told.raised(error)
    reply = {
        "raised": raised,
        "roots": [told.raised(root, told.span_of(led_to) or span) for root, led_to in roots],
        "chain": [told.raised(each, span) for each in rest],
        "names": _part(lambda: _names(shell, place)),
        "modules": _part(importable),
        "files": _part(lambda: files_in(directory, project)) if directory is not None else None,
        "directory": None if directory is None else text(directory),
        "python": sys.version.split()[0],
        "versions": _part(versions),
        "choices": _part(lambda: choices_for(error, raised["message"])),
        **(_part(lambda: _around(code, place, shell.user_ns, first, raised["message"])) or {}),
    }
    return _small(reply)


def _last_error(shell: Any) -> tuple[BaseException | None, bool]:
    """What the last execution raised, and whether that was before any of it ran."""
    result = shell.last_execution_result
    if result is None:
        return None, False
    # Where both are there, the other is one of showing it.
    if result.error_before_exec is not None and result.error_in_exec is None:
        return result.error_before_exec, True
    if result.error_in_exec is None and getattr(shell, "_last_traceback_during_displayhook", False):
        # Its value could not be shown: IPython calls that a success, and tells the error all the same.
        return getattr(sys, "last_value", None), False
    return result.error_in_exec, False


def _code_of(shell: Any, error: BaseException) -> CellCode:
    info = shell.last_execution_result.info
    filename = _cell_filename(_traceback_of(error), shell.user_global_ns)
    ran = getattr(info, "transformed_cell", None)
    if ran is None:
        # IPython before 9.16 keeps it for its tracebacks only.
        entry = linecache.cache.get(filename) if filename is not None else None
        ran = "".join(entry[2]) if entry is not None and len(entry) > 2 else info.raw_cell
    return CellCode(written=info.raw_cell, ran=ran, filename=filename)


def _cell_filename(traceback: TracebackType | None, namespace: dict[str, Any]) -> str | None:
    """The name of the cell's code: of the outermost frame that runs in the user's namespace."""
    while traceback is not None:
        if traceback.tb_frame.f_globals is namespace:
            return traceback.tb_frame.f_code.co_filename
        traceback = traceback.tb_next
    return None


def _names(shell: Any, place: ErrorLocation | None) -> list[str]:
    hidden = shell.user_ns_hidden
    scope = Scope(place.frame if place is not None else None, shell.user_ns)
    own = [name for name in scope.locals if type(name) is str]
    known = list(islice(reversed(shell.user_ns), MAX_NAMES * 2))
    public = [
        name
        for name in known
        if type(name) is str
        and not name.startswith("_")
        and not (name in hidden and hidden[name] is shell.user_ns.get(name))
    ]
    found = dict.fromkeys(text(name) for name in (*own, *public) if len(name) <= MAX_NAME)
    return list(islice(found, MAX_NAMES))


def _around(
    code: CellCode, place: ErrorLocation | None, namespace: dict[str, Any], error: BaseException, message: str
) -> dict[str, Any]:
    """What the failing statement and expression are about."""
    tree = code.tree()
    if place is None or tree is None:
        return {}
    scope = Scope(place.frame, namespace)
    found: dict[str, Any] = {
        "subject": _part(lambda: subject_of(node_at(tree, place.span), scope, code.ran, error))
    }
    statement = statement_at(tree, place.span)
    if statement is not None:
        found["values"] = _part(lambda: _values(statement, scope))
        found["members"] = _part(lambda: members_of(statement, scope))
        found["signatures"] = _part(lambda: signatures_in(statement, scope, message))
        found["heads"] = _part(lambda: heads_of(paths_in(tree, statement, scope)))
    return found


def _values(statement: ast.stmt, scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in own_nodes(statement):
        if isinstance(node, ast.Name) and node.id not in found and len(found) < MAX_VALUES:
            value = scope.named(node.id)
            if value is not UNKNOWN and not is_a(value, ModuleType):
                told = describe(value)
                found[node.id] = text(told.get("digest") or f"<{told['type']}>")
    return found


def _part(look: Callable[[], _Found]) -> _Found | None:
    """What a look finds; the rest of a diagnosis is worth having where one part of it cannot be made."""
    try:
        return look()
    except Exception:  # noqa: BLE001  # boundary: whatever the namespace holds, the caller is answered
        return None


def _small(reply: dict[str, Any]) -> dict[str, Any]:
    reply = {key: value for key, value in reply.items() if value is not None}
    for part in _SHED:
        if len(json.dumps(reply)) <= MAX_REPLY:
            break
        reply.pop(part, None)
    return reply


# What lies around a failed cell: files in the working directory and how they begin, modules and what is in
# them.

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


# Tells what the installed libraries take where a statement failed: their versions, parameters and named
# values.

MAX_SIGNATURES = 20
MAX_PARAMETERS = 100
MAX_VERSIONS = 300
MAX_TEXT = 200
MAX_WRAPPED = 5
_TAKES_ARGS, _TAKES_KEYWORDS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
_SAID = re.compile(r"(?P<owner>\w+)\.(?P<name>\w+)\(\) (?:takes|got|missing)")


_dict_of_type: Any = type.__dict__["__dict__"].__get__
_mro_of: Any = type.__dict__["__mro__"].__get__


def versions() -> dict[str, str]:
    """The versions of the libraries that are loaded, as their top-level modules tell them."""
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        if len(found) >= MAX_VERSIONS:
            break
        if type(name) is str and "." not in name and not name.startswith("_") and is_a(module, ModuleType):
            version = _dict_of_module(module).get("__version__") or _written(name)
            if type(version) is str and name not in sys.stdlib_module_names:
                found[name] = version[:MAX_TEXT]
    return found


def _written(name: str) -> Any:
    """The version in the module that build tools write it to: matplotlib reads its own only when it is asked."""
    module = sys.modules.get(f"{name}._version")
    return _dict_of_module(module).get("version") if is_a(module, ModuleType) else None


def choices_for(error: BaseException, message: str) -> dict[str, list[str]]:
    """The values that a library has where it did not know the one that it was given, and does not name them itself."""
    style = sys.modules.get("matplotlib.style")
    if not is_a(error, OSError) or "style" not in message or style is None:
        return {}
    names = _dict_of_module(style).get("available")
    return {"matplotlib.style": [each for each in names if type(each) is str]} if type(names) is list else {}


def signatures_in(statement: ast.stmt, scope: Scope, message: str) -> dict[str, dict[str, Any]]:
    """What the callables of a statement take, by the text that names each in the code.

    A method of something that only running the code would give is looked up by the class that the message names.
    """
    found: dict[str, dict[str, Any]] = {}
    for node in own_nodes(statement):
        if not isinstance(node, ast.Call) or len(found) >= MAX_SIGNATURES:
            continue
        text = ast.unparse(node.func)[:MAX_TEXT]
        function, skipped = _callee(node.func, scope)
        if function is None and isinstance(node.func, ast.Attribute):
            function, skipped = _said_method(message, node.func.attr)
        if function is not None and text not in found:
            found[text] = _parameters(function, skipped)
    return found


def _callee(node: ast.expr, scope: Scope) -> tuple[FunctionType | None, int]:
    """The function that a call leads to, and how many of its parameters are not the caller's to give."""
    if isinstance(node, ast.Attribute):
        holder = scope.value_of(node.value)
        if holder is UNKNOWN:
            return None, 0
        if not is_a(holder, ModuleType):
            return _method(
                holder if is_a(holder, type) else type(holder), node.attr, of_type=is_a(holder, type)
            )
    return _function(scope.value_of(node))


def _said_method(message: str, name: str) -> tuple[FunctionType | None, int]:
    said = _SAID.search(message)
    if said is None or said["name"] != name:
        return None, 0
    for module in _top_modules():
        owner = _dict_of_module(module).get(said["owner"])
        if is_a(owner, type):
            return _method(owner, name)
    return None, 0


def _top_modules() -> Iterator[ModuleType]:
    return (sys.modules[name] for name in versions() if is_a(sys.modules.get(name), ModuleType))


def _method(kind: type, name: str, *, of_type: bool = False) -> tuple[FunctionType | None, int]:
    held = next((space[name] for each in _mro_of(kind) if name in (space := _dict_of_type(each))), None)
    if type(held) is staticmethod:
        return _unwrapped(held.__func__), 0
    if type(held) is classmethod:
        return _unwrapped(held.__func__), 1
    return _unwrapped(held), 0 if of_type else 1


def _function(value: Any) -> tuple[FunctionType | None, int]:
    return _method(value, "__init__") if is_a(value, type) else (_unwrapped(value), 0)


def _unwrapped(value: Any) -> FunctionType | None:
    for _ in range(MAX_WRAPPED):
        if type(value) is not FunctionType:
            return None
        inner = value.__dict__.get("__wrapped__")
        if inner is None:
            return value
        value = inner
    return None


def _parameters(function: FunctionType, skipped: int) -> dict[str, Any]:
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    positional = names[skipped:count]
    named = (
        *names[max(code.co_posonlyargcount, skipped) : count],
        *names[count : count + code.co_kwonlyargcount],
    )
    return {
        "positional": _bounded(positional),
        "keywords": _bounded(named),
        "any_position": bool(code.co_flags & _TAKES_ARGS),
        "any_keyword": bool(code.co_flags & _TAKES_KEYWORDS),
    }


def _bounded(names: Iterable[str]) -> list[str]:
    return [name[:MAX_TEXT] for name in islice(names, MAX_PARAMETERS)]
