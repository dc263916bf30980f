"""Every number and path that a user may change, and where they are read from.

``Settings`` holds the values; built by itself it knows arguments and ``CELLWRIGHT_*`` variables, as a library should.
``load_settings`` is what the command line and the daemon use: it reads the files too. ``paths`` and ``files`` need
only the standard library, because ``cellwright mcp`` must find its daemon long before pydantic is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.settings._load import Problem, SettingsRefused, examine_settings, load_settings
    from cellwright.settings.model import Settings
    from cellwright.settings.paths import default_storage
    from cellwright.settings.roots import OutsideRoots, fenced

__all__ = [
    "OutsideRoots",
    "Problem",
    "Settings",
    "SettingsRefused",
    "default_storage",
    "examine_settings",
    "fenced",
    "load_settings",
]

_HOMES = {
    "OutsideRoots": "roots",
    "Problem": "_load",
    "Settings": "model",
    "SettingsRefused": "_load",
    "default_storage": "paths",
    "examine_settings": "_load",
    "fenced": "roots",
    "load_settings": "_load",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use: the byte pump needs only its own part of this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # see above

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
