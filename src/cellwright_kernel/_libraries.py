"""Tells what the installed libraries take where a statement failed: their versions, parameters and named values.

Runs nothing: versions are read from modules' dictionaries, parameters from functions' code, names from plain lists. A
callable whose parameters cannot be read like this is left out.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

from cellwright_kernel._exceptions import own_nodes
from cellwright_kernel._subjects import UNKNOWN, Scope
from cellwright_kernel.digests import is_a

__all__ = ["choices_for", "signatures_in", "versions"]

MAX_SIGNATURES = 20

MAX_PARAMETERS = 100

MAX_VERSIONS = 300

MAX_TEXT = 200

MAX_WRAPPED = 5

_TAKES_ARGS, _TAKES_KEYWORDS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS

_SAID = re.compile(r"(?P<owner>\w+)\.(?P<name>\w+)\(\) (?:takes|got|missing)")

_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__
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
