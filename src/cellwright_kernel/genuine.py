"""Whether a type is really the one of a library that it says it is.

A type's name and module are what its maker wrote there. Only the library's own module, where it is loaded, can vouch
for it; nothing here asks an object, or brings in a library that is not there.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["is_genuine", "is_of", "library", "part_of"]

_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__
_name_of = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__


def library(name: str) -> Any | None:
    """A library, if the session has loaded it."""
    return sys.modules.get(name)


def part_of(name: str) -> Any:
    """A module of a library that is loaded, which may be the first to need it."""
    return importlib.import_module(name)


def is_of(kind: type, module: str, *names: str) -> bool:
    """Whether a type is what a loaded module calls by one of these names."""
    held = sys.modules.get(module)
    if held is None:
        return False
    known = _dict_of_module(held)
    return any(known.get(name) is kind for name in names)


def is_genuine(kind: type, *libraries: str) -> bool:
    """Whether a type is one that a module of these libraries defines."""
    module, name = _module_of(kind), _name_of(kind)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in libraries:
        return False
    return is_of(kind, module, name)
