"""Cellwright: the notebook computer for AI agents.

``open_engine`` is the way in for programs; ``docs/reference/library.md`` lists every call.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:  # importing typing costs the byte pump and the daemon a tenth of their start
    from typing import Any

    from cellwright.assembly import open_engine
    from cellwright.engine import Engine, Event, Execution, Inspection, Missed, Session
    from cellwright.errors import CellwrightError
    from cellwright.settings import Settings

__version__ = "0.1.0"
__all__ = [
    "CellwrightError",
    "Engine",
    "Event",
    "Execution",
    "Inspection",
    "Missed",
    "Session",
    "Settings",
    "open_engine",
]

_HOMES = {
    "CellwrightError": "cellwright.errors",
    "Settings": "cellwright.settings",
    "open_engine": "cellwright.assembly",
}
# What can be named in annotations, read and caught where nothing can be run.
_ON_EVERY_SYSTEM = ("CellwrightError", "Settings")


def __getattr__(name: str) -> Any:
    """Load a public name on first use: the host and the command line need only their own part of this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # see above
    import sys

    if name not in _ON_EVERY_SYSTEM and not sys.platform.startswith("linux"):
        from cellwright.errors import NotLinux

        raise NotLinux
    return getattr(importlib.import_module(_HOMES.get(name, "cellwright.engine")), name)
