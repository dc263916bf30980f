"""Caches that libraries fill at their first use, made once per interpreter outside the sandbox.

A confined kernel begins with an empty home, so that every kernel would fill them anew: matplotlib's list of fonts takes
seconds on a busy machine. Each set of caches is a directory laid out as ``~/.cache``. Kernels see all sets read-only and
copy theirs into their own home (``cellwright_kernel.librarycaches``), where the library may write. A library joins by a
line in ``LIBRARIES``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import anyio

from cellwright.errors import KernelStartError
from cellwright.kernels.interpreters import put_in_place, run_program

__all__ = ["LibraryCaches"]

log = logging.getLogger(__name__)

LIBRARIES = {"matplotlib": "matplotlib.font_manager"}
"""Names in ``~/.cache``, and the module whose import fills each."""

# Matplotlib reads its list for ever: new fonts must lead to a new one.
FONTS = ("/usr/share/fonts", "/usr/local/share/fonts")
MAKE_TIMEOUT_S = 120.0

MAKE = """
import importlib, os, sys
os.nice(10)
os.umask(0o022)  # a kernel may be another user's
sys.path += [each for each in sys.argv[2:] if each not in sys.path]
for module in sys.argv[1].split(","):
    importlib.import_module(module)
"""


class LibraryCaches:
    """The sets of caches below one directory, one for each state of an interpreter's libraries."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._making: dict[str, anyio.Lock] = {}

    def shown(self) -> str:
        """The directory, to be shown to kernels; "" where it cannot be made, and every kernel fills its own caches."""
        try:
            self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError:
            return ""
        return str(self.directory)

    async def find(self, search_path: Sequence[str]) -> Path | None:
        """Where the caches for the libraries on this path are, or will be once they are made; None for no libraries."""
        try:
            return await anyio.to_thread.run_sync(self._path, search_path)
        except OSError:  # somebody installs fonts or packages at this very moment
            return None

    async def make(self, python: Path, search_path: Sequence[str]) -> Path | None:
        """Make the caches for the libraries on this path, unless they are there; returns where, as ``find`` does.

        A failure is only logged: a kernel without caches fills its own.
        """
        made = await self.find(search_path)
        if made is not None:
            async with self._making.setdefault(made.name, anyio.Lock()):
                if not made.is_dir():
                    try:
                        await self._make(python, search_path, made)
                    except (KernelStartError, OSError) as error:
                        log.warning("library_caches_not_made python=%s reason=%s", python, error)
        return made

    async def _make(self, python: Path, search_path: Sequence[str], made: Path) -> None:
        names = [name for name, _ in _installed(search_path)]
        modules = ",".join(LIBRARIES[name] for name in names)
        with tempfile.TemporaryDirectory(prefix=".home-", dir=self.directory) as home:
            # The home is empty as a kernel's is: fonts and settings of the user's own are not seen there.
            environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home}
            await run_program(
                [str(python), "-I", "-c", MAKE, modules, *search_path],
                timeout_s=MAKE_TIMEOUT_S,
                purpose=f"The caches of {modules} could not be made with {python}",
                environment=environment,
                cwd=Path(home),
            )
            await anyio.to_thread.run_sync(_keep, Path(home, ".cache"), names, made)

    def _path(self, search_path: Sequence[str]) -> Path | None:
        states = [state for _, state in _installed(search_path)]
        if not states:
            return None
        states += _directory_states(FONTS)
        return self.directory / hashlib.sha256("\n".join(states).encode()).hexdigest()[:16]


def _installed(search_path: Iterable[str]) -> list[tuple[str, str]]:
    """The libraries that are there, each with what changes when it is installed anew."""
    found: list[tuple[str, str]] = []
    for name, module in LIBRARIES.items():
        file = f"{module.replace('.', '/')}.py"
        path = next((path for each in search_path if (path := Path(each, file)).is_file()), None)
        if path is not None:
            about = path.stat()
            found.append((name, f"{path} {about.st_mtime_ns} {about.st_size}"))
    return found


def _directory_states(tops: Iterable[str]) -> list[str]:
    """What changes when a file is added below one of these directories, or taken away."""
    below = (directory for top in tops for directory, _, _ in os.walk(top))
    return [f"{directory} {Path(directory).stat().st_mtime_ns}" for directory in sorted(below)]


def _keep(caches: Path, names: Collection[str], made: Path) -> None:
    """Put the caches of these libraries in place, without those of programs that they ran (fontconfig's is large)."""
    for other in caches.iterdir():
        if other.name not in names:
            shutil.rmtree(other)
    put_in_place(caches, made)
