"""Calls of plugins' functions within bounds: what one raises is named, one that hangs is left behind, and both are counted."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from cellwright.errors import CellwrightError

__all__ = ["PluginFailed", "guarded"]

_T = TypeVar("_T")


class PluginFailed(CellwrightError):
    """A plugin's code raised, hung or gave what it may not."""

    code = "plugin_failed"


def guarded(
    function: Callable[..., _T],
    *,
    name: str,
    limit_s: float,
    gives: tuple[type, ...],
    report: Callable[[str | None], None],
    gave_up: Callable[[str], None],
) -> Callable[..., _T]:
    """The same function, in a thread that is given up after ``limit_s``, and must return one of the types ``gives``.

    ``report`` is told why a call failed, or None where it went well; ``gave_up`` that it hangs.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> _T:
        result: list[_T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                result.append(function(*args, **options))
            except BaseException as error:  # noqa: BLE001  # boundary: told to the caller below
                raised.append(error)

        worker = threading.Thread(target=run, name=f"plugin {name}", daemon=True)
        worker.start()
        worker.join(limit_s)
        if worker.is_alive():
            _interrupt(worker)
            reason = f"did not end within {limit_s:g} s"
            gave_up(reason)
            raise _failed(name, reason)
        if raised and isinstance(raised[0], CellwrightError):
            raise raised[0]  # said on purpose, to the caller
        if raised:
            reason = f"raised {type(raised[0]).__name__}: {raised[0]}"[:300]
        elif not isinstance(result[0], gives):
            wanted = " or ".join(one.__name__ for one in gives)
            reason = f"returned {type(result[0]).__name__}, and not {wanted}"
        else:
            report(None)
            return result[0]
        report(reason)
        raise _failed(name, reason)

    return call


def _failed(name: str, reason: str) -> PluginFailed:
    return PluginFailed(
        f"The plugin {name} {reason}", hint=f"Leave it out: `cellwright plugins disable {name}`"
    )


def _interrupt(worker: threading.Thread) -> None:
    """Have a thread end at its next step of Python; one that waits in the system stays until that is over."""
    if worker.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(SystemExit))
