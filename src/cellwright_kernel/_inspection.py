"""A snapshot of the live namespace, for whoever has to decide what to run next.

Runs none of the user's code (see ``digests``), and is bounded in count and size whatever the namespace holds.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

from cellwright_kernel.digests import cut, describe, is_a, signature_of, type_name

__all__ = ["snapshot", "visible"]

MAX_ENTRIES = 200
MAX_CHARACTERS = 60_000
MAX_NAME = 100
MAX_DOC = 120
MAX_PACKAGES = 2_000
MAX_SEEN = 100_000

_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__


def snapshot(namespace: dict[str, Any], hidden: dict[str, Any], *, packages: bool = False) -> dict[str, Any]:
    """Variables, functions, classes and modules by name, newest first, and where this runs."""
    found: dict[str, list[dict[str, Any]]] = {"variables": [], "functions": [], "classes": [], "modules": []}
    omitted = 0
    room = MAX_CHARACTERS
    for name, value in visible(namespace, hidden):
        kind, entry = _entry(name, value)
        room -= sum(len(field) for field in entry.values() if isinstance(field, str)) + 50
        if room > 0 and len(found[kind]) < MAX_ENTRIES:
            found[kind].append(entry)
        else:
            omitted += 1
        if room <= 0:
            break
    return {
        **found,
        "omitted": omitted + max(0, len(namespace) - MAX_SEEN),
        **_surroundings(packages=packages),
    }


def visible(namespace: dict[str, Any], hidden: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the user put there, newest first; IPython's own names and private ones left out."""
    for name in _newest(namespace):
        if type(name) is not str or name.startswith("_") or name not in namespace:
            continue
        value = namespace[name]
        if name not in hidden or hidden[name] is not value:
            yield name, value


def _newest(namespace: dict[str, Any]) -> list[Any]:
    while True:
        try:
            return list(islice(reversed(namespace), MAX_SEEN))
        except RuntimeError:  # another thread defined something meanwhile
            continue


def _entry(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    name = cut(name, MAX_NAME)
    if is_a(value, ModuleType):
        return "modules", {"name": name, **_about_module(value)}
    if type(value) is FunctionType:
        return "functions", {"name": name, **_about_function(value)}
    if is_a(value, type):
        return "classes", {"name": name, "class": type_name(value)}
    return "variables", {"name": name, **describe(value)}


def _about_module(module: ModuleType) -> dict[str, Any]:
    # Straight from the module's dictionary: a lazy module imports itself when asked for an attribute.
    held = _dict_of_module(module)
    about = {"module": held.get("__name__"), "version": held.get("__version__")}
    return {key: cut(text, MAX_NAME) for key, text in about.items() if type(text) is str}


def _about_function(function: FunctionType) -> dict[str, Any]:
    about = {"signature": signature_of(function)}
    doc = function.__doc__
    if type(doc) is str and doc.strip():
        about["doc"] = cut(doc.strip().splitlines()[0], MAX_DOC)
    module = function.__module__
    if type(module) is str and module != "__main__":
        about["module"] = cut(module, MAX_NAME)
    return about


def _surroundings(*, packages: bool) -> dict[str, Any]:
    about: dict[str, Any] = {
        "cwd": _or_none(os.getcwd),
        "interpreter": sys.executable,
        "python": sys.version.split()[0],
    }
    if packages:
        installed = {(dist.name, dist.version) for dist in importlib.metadata.distributions() if dist.name}
        about["packages"] = [f"{name}=={version}" for name, version in sorted(installed)[:MAX_PACKAGES]]
    return about


def _or_none(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except OSError:  # the directory was removed under the kernel's feet
        return None
