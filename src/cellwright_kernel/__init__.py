"""The code inside a kernel's process: the fork server, the kernel it forks, and the answers to the engine's requests.

It runs on the user's interpreter, needs only the standard library and ipykernel, and imports nothing of
``cellwright``. The engine's side of the same conversation is ``cellwright.kernels``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Loaded on first use: importing this package costs a kernel nothing.
_FROM = {
    "connect": "_connections",
    "get": "_values",
    "names": "_values",
    "put": "_values",
    "show": "_chart_manifest",
}

__all__ = ["connect", "get", "names", "put", "show"]  # given out below


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
