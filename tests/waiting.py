"""How long tests wait: for events, with one factor on every limit, and settings that no busy machine uses up.

``CELLWRIGHT_TEST_TIMEOUT_FACTOR`` multiplies every limit: 1 by default, for an idle machine, and 4 where ``CI`` is
``true``. A deadline that a test lets run out on purpose is not multiplied.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio

_BASE_S = 30
_FACTOR = float(
    os.environ.get("CELLWRIGHT_TEST_TIMEOUT_FACTOR") or (4 if os.environ.get("CI") == "true" else 1)
)


def scaled(seconds: float) -> float:
    """A limit that suits an idle machine, for this one."""
    return seconds * _FACTOR


# A processor that only polls is missing where the awaited thing is done.
PACE_S = 0.02
LIMIT_S = scaled(_BASE_S)
"""For waits of other libraries: ``process.wait(LIMIT_S)``."""
UNHURRIED: dict[str, float] = {
    "start_timeout_s": scaled(60),
    "cell_timeout_s": scaled(60),
    "run_timeout_s": scaled(60),
    "fetch_timeout_s": scaled(60),
    "slurm_command_timeout_s": scaled(60),
    "interrupt_grace_s": scaled(30),
    "host_idle_s": scaled(60),
}
"""Settings. A test in which one of them is to run out sets its own."""
UNHURRIED_VARIABLES = {f"CELLWRIGHT_{name.upper()}": f"{value:g}" for name, value in UNHURRIED.items()}
"""The same for a process."""


def fail_after(seconds: float = _BASE_S) -> AbstractContextManager[anyio.CancelScope]:
    """As anyio's, with a limit for an idle machine."""
    return anyio.fail_after(scaled(seconds))


async def look_again() -> None:
    """Let others work before the next look."""
    await anyio.sleep(PACE_S)


async def until(holds: Callable[[], object], *, limit_s: float = _BASE_S) -> None:
    """Return as soon as a condition holds that no event reports: on a file, a process, another library's object.

    Raises:
        TimeoutError: it does not hold within the scaled limit.
    """
    with fail_after(limit_s):
        while not holds():
            await look_again()


def wait_until(holds: Callable[[], object], *, limit_s: float = _BASE_S) -> None:
    """As ``until``, for tests without an event loop.

    Raises:
        TimeoutError: it does not hold within the scaled limit.
    """
    end = time.monotonic() + scaled(limit_s)
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(PACE_S)
