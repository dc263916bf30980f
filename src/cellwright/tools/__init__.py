"""Tools that need no notebook: run a script once, read and write files, fetch, calculate, show.

Each is a library call, loaded on first use; tools and commands translate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.tools.calculator import calculate
    from cellwright.tools.files.file_system import Files
    from cellwright.tools.scripts import run_script
    from cellwright.tools.visuals import visualize
    from cellwright.tools.web.fetch import Fetcher, fetch

__all__ = ["Fetcher", "Files", "calculate", "fetch", "run_script", "visualize"]

_HOMES = {
    "Fetcher": "web.fetch",
    "Files": "files.file_system",
    "calculate": "calculator",
    "fetch": "web.fetch",
    "run_script": "scripts",
    "visualize": "visuals",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # see the module's docstring

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
