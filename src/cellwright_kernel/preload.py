# mypy: allow-untyped-calls
# (ipykernel is typed only in part.)
"""Makes the fork server worth forking: imports what kernels import, and runs IPython once so that it is warm.

What is imported and compiled here is shared by every kernel. Nothing here may leave a thread, an event loop or
an open descriptor behind, since a fork would share those too; not even between two steps of ``warming``.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cellwright_kernel.librarycaches import hold_notices

__all__ = ["preload", "warming"]

INLINE_BACKEND = "module://matplotlib_inline.backend_inline"
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
MAX_REASON = 500

# What ipykernel imports only in a kernel that starts; another release of it may want more, and then starts slower.
KERNEL_MODULES = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "tornado.queues",
)

# The first error costs a cold kernel 130 ms: pygments, stack_data and the formatters load lazily.
WARM_CELLS = (
    "import sys; x = 1 + 1; x",
    "def f():\n    return 1 / 0\nf()",
    "raise ValueError('x')",
    "a b",
    "%time 1",
    "import asyncio\nawait asyncio.sleep(0)",
)

# An error's traceback shows the library's code, and to show a line of a file the whole file is parsed: half a second
# in pandas, for the most common of all errors there. What was parsed is kept.
WARM_ERRORS = {"pandas": "import pandas\npandas.DataFrame({'a': [1]})['b']"}


def preload(modules: list[str]) -> dict[str, str]:
    """Import what a kernel cannot do without; returns the modules that could not be imported, each with the reason."""
    # pyplot chooses its backend when it is imported: without this, figures of preloaded pyplot would vanish.
    os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)
    hold_notices()
    with _one_thread_each():
        _import_without_debugger()
        return _import_all(modules)


def warming() -> Iterator[None]:
    """Import and run, a step at a time, what a kernel would otherwise do itself; a fork between steps is sound."""
    with _one_thread_each():
        _import_all(KERNEL_MODULES)
    yield
    _warm_ipython()
    yield


def _import_without_debugger() -> None:
    """Import ipykernel so that it finds no debugpy: it would load that into every kernel, where nobody can attach."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # how an import is refused
    try:
        importlib.import_module("ipykernel.debugger")
    finally:
        del sys.modules["debugpy"]  # user code may have it
    from cellwright_kernel import kernelapp  # noqa: F401, PLC0415  # all that a kernel is


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Numeric libraries start their threads when imported, unless told otherwise."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _import_all(modules: Sequence[str]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  # boundary: any module may fail in any way; the user is told
            failures[name] = f"{type(error).__name__}: {error}"[:MAX_REASON]
    return failures


def _throwaway() -> str:
    """A directory below our own, which goes with it should we be ended before we remove it."""
    return tempfile.mkdtemp(prefix="warm-", dir=Path.cwd())


def _warm_ipython() -> None:
    """Run a throwaway shell, so that its caches, compiled patterns and lazy imports are shared by all kernels."""
    from IPython.core.completer import provisionalcompleter  # noqa: PLC0415
    from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    config = Config()
    config.HistoryManager.enabled = False
    directory = _throwaway()
    config.ProfileDir.location = directory
    with _interpreter_restored(), _silenced():
        shell: Any = InteractiveShell.instance(config=config, ipython_dir=directory)
        errors = [cell for module, cell in WARM_ERRORS.items() if module in sys.modules]
        for cell in (*WARM_CELLS, *errors):
            shell.run_cell(cell)
        with provisionalcompleter():
            list(shell.Completer.completions("sys.pa", 6))
        shell.inspector.info(len)
        shell.reset(new_session=False)
        atexit.unregister(shell.atexit_operations)
        InteractiveShell.clear_instance()
    shutil.rmtree(directory, ignore_errors=True)
    _close_event_loops()


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _interpreter_restored() -> Iterator[None]:
    """Undo what a shell changes in the interpreter around it."""
    names = ("displayhook", "excepthook", "ps1", "ps2", "ps3")
    saved = {name: getattr(sys, name) for name in names if hasattr(sys, name)}
    main, path, environment = sys.modules["__main__"], list(sys.path), dict(os.environ)
    try:
        yield
    finally:
        for name in (*names, "last_type", "last_value", "last_traceback", "last_exc"):
            if hasattr(sys, name):
                delattr(sys, name)
        for name, value in saved.items():
            setattr(sys, name, value)
        sys.modules["__main__"] = main
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)


def _close_event_loops() -> None:
    """Close the loops that the warm-up used: a child would share their epoll descriptor with its siblings."""
    from IPython.core import async_helpers  # noqa: PLC0415

    cached = getattr(async_helpers, "_asyncio_event_loop", None)
    if cached is not None:
        cached.close()
        async_helpers._asyncio_event_loop = None  # noqa: SLF001  # IPython's own cache
    asyncio.set_event_loop(None)
    asyncio.set_event_loop_policy(None)
