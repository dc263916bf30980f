"""Turns a kernel that stood by into a session's own: its directory, its environment, its limits, its packages.

Asked for by one message before any user code runs. Touches the process, never the user's namespace.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any

from cellwright_kernel._librarycaches import link_caches
from cellwright_kernel._outputs import Limits

if TYPE_CHECKING:
    from cellwright_kernel._outputs import OutputGate
    from cellwright_kernel._shell_commands import PackageAdvice
    from cellwright_kernel._value_digests import Digests

__all__ = ["add_layers", "adopt", "reseed"]


def adopt(  # noqa: PLR0913  # all that makes a kernel a session's
    gate: OutputGate,
    packages: PackageAdvice,
    known: Digests,
    *,
    cwd: str,
    environment: dict[str, str],
    max_bytes: int,
    max_messages: int,
    layers: tuple[str, ...] = (),
    caches: tuple[str, ...] = (),
    approved: dict[str, str] | None = None,
    digests: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Take on a session's directory, environment (on top of the fork server's), limits, packages and caches.

    ``approved`` are packages that may be installed, by the names that they are imported by; None where anything may.
    ``digests`` are those of plugins, by type, and ours that are out.
    """
    os.chdir(cwd)
    os.environ.update(environment)
    # `!cd` and `%cd` keep it for shells; a stale one makes `pwd` lie.
    os.environ["PWD"] = cwd
    time.tzset()
    gate.limits = Limits(max_bytes, max_messages)
    packages.approved = approved
    known.register(digests or {})
    add_layers(layers=layers)
    link_caches(caches)
    return {"pid": os.getpid()}


def add_layers(*, layers: tuple[str, ...]) -> dict[str, Any]:
    """Put directories of packages at the end of the path, where they add and never replace."""
    sys.path.extend(layer for layer in layers if layer not in sys.path)
    # An import that failed a moment ago may have been remembered.
    importlib.invalidate_caches()
    return {"pid": os.getpid()}


def reseed() -> None:
    """Give this fork random numbers of its own. uuid, secrets and tempfile need no help."""
    random.seed()
    # Only where it is loaded: importing numpy into every kernel would cost more than everything else here.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
