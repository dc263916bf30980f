"""Which Python runs a notebook, and what is added to it so that it can run kernels.

A project's own environment is never written to: where it lacks ipykernel, a layer with it lies beside our other
files and comes last on the path, so that whatever the project has installed itself wins.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import anyio
import msgspec

from cellwright.errors import KernelStartError
from cellwright.kernels.processes import expected_child

__all__ = ["LIBRARIES", "Interpreter", "LibraryCaches", "find_project_python", "prepare_interpreter"]

REQUIREMENT = "ipykernel>=7.2,<8"

MIN_IPYKERNEL = (7, 2)

MIN_PYTHON = (3, 10)

PROBE_TIMEOUT_S = 60.0

INSTALL_TIMEOUT_S = 600.0

MAX_TOLD = 2_000

PROBE = """
import importlib.metadata, json, sys, sysconfig
try:
    ipykernel = importlib.metadata.version("ipykernel")
except importlib.metadata.PackageNotFoundError:
    ipykernel = None
print(json.dumps({"version": sys.version_info[:3], "ipykernel": ipykernel,
    "tag": f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can run kernels."""

    python: Path
    origin: Literal["project", "own"]
    layers: tuple[Path, ...] = ()
    """Directories that come after the interpreter's own path."""
    version: str = ""
    """Such as ``3.12``; told by its fork server, like the next."""
    search_path: tuple[str, ...] = ()


def find_project_python(start: Path) -> Path | None:
    """The nearest ``.venv/bin/python`` at or above a directory."""
    for directory in (start, *start.parents):
        python = directory / ".venv" / "bin" / "python"
        if python.exists():
            return python
    return None


async def prepare_interpreter(python: Path | None, *, cache: Path) -> Interpreter:
    """The interpreter with everything a kernel needs; None means our own.

    What had to be added is kept in ``cache`` and found again.

    Raises:
        KernelStartError: it cannot run kernels, and the hint says what would change that.
    """
    if python is None:
        return Interpreter(Path(sys.executable), "own")
    facts = await _probe(python)
    if facts.version < MIN_PYTHON:
        raise KernelStartError(
            f"{python} is Python {'.'.join(map(str, facts.version))}, and kernels need 3.10 or later",
            hint="Create the project's .venv with a newer Python",
        )
    if facts.ipykernel is None:
        return Interpreter(python, "project", (await _layer(python, facts.tag, cache),))
    if _numbers(facts.ipykernel) < MIN_IPYKERNEL:
        # A layer comes last on the path, so it could not replace the older one.
        raise KernelStartError(
            f"The environment of {python} has ipykernel {facts.ipykernel}, and 7.2 or later is needed",
            hint=f"Run `uv pip install --python {python} '{REQUIREMENT}'`",
        )
    return Interpreter(python, "project")


class _Facts(msgspec.Struct, frozen=True):
    """What an interpreter says of itself."""

    version: tuple[int, int, int]
    ipykernel: str | None
    tag: str


async def _probe(python: Path) -> _Facts:
    output = await run_program(
        [str(python), "-c", PROBE], timeout_s=PROBE_TIMEOUT_S, purpose=f"{python} does not run"
    )
    try:
        return msgspec.json.decode(output, type=_Facts)
    except msgspec.DecodeError as error:
        raise KernelStartError(
            f"{python} does not answer as Python does", hint="Make the project's .venv anew, or remove it"
        ) from error


async def _layer(python: Path, tag: str, cache: Path) -> Path:
    """A directory with ipykernel and what it needs, for every interpreter of this version and platform."""
    layers = cache / "layers"
    layer = layers / f"{tag}-{hashlib.sha256(REQUIREMENT.encode()).hexdigest()[:8]}"
    if layer.is_dir():
        return layer
    uv = _find_uv()
    if uv is None:
        raise KernelStartError(
            f"The environment of {python} has no ipykernel, and there is no uv to layer it beside it",
            hint=f"Install uv (`pip install uv`), or run `{python} -m pip install '{REQUIREMENT}'`",
        )
    layers.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=layers))
    try:
        # Copies, not links into uv's cache: what runs here must not be able to change other environments.
        command = [uv, "pip", "install", "--quiet", "--link-mode", "copy"]
        command += ["--python", str(python), "--target", str(temporary), REQUIREMENT]
        purpose = f"ipykernel could not be layered beside {python}"
        await run_program(command, timeout_s=INSTALL_TIMEOUT_S, purpose=purpose)
        put_in_place(temporary, layer)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return layer


def put_in_place(temporary: Path, layer: Path) -> None:
    """Give a directory that is whole its lasting name."""
    try:
        temporary.rename(layer)
    except OSError:
        # Somebody else was quicker; theirs is as good.
        if not layer.is_dir():
            raise


def _find_uv() -> str | None:
    try:
        from uv import find_uv_bin  # an optional dependency
    except ImportError:
        return shutil.which("uv")
    try:
        return str(find_uv_bin())
    except FileNotFoundError:
        return shutil.which("uv")


async def run_program(
    command: list[str],
    *,
    timeout_s: float,
    purpose: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> bytes:
    """The program's output.

    Raises:
        KernelStartError: it failed; the message starts with the purpose.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            # Blocking, so that nobody can take the child for a stranger before it is known.
            process = subprocess.Popen(  # noqa: ASYNC220
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment,
                cwd=cwd,
            )
        except OSError as error:
            raise KernelStartError(f"{purpose}: {error}") from error
        with expected_child(process.pid):
            status = await _finish(process, timeout_s)
        if status:
            told = _last(errors).strip() or f"it ended with status {status}"
            raise KernelStartError(f"{purpose}: {told}", hint=f"Try `{' '.join(command)}`")
        output.seek(0)
        return output.read()


async def _finish(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """The exit status of a program, which is ended where it takes too long or nobody waits any more."""
    pidfd = os.pidfd_open(process.pid)
    try:
        with anyio.move_on_after(timeout_s):
            await anyio.wait_readable(pidfd)
    finally:
        os.close(pidfd)
        process.kill()
        status = process.wait()
    return status


def _last(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_TOLD))
    return file.read().decode("utf-8", "replace")


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


# Caches that libraries fill at their first use, made once per interpreter outside the sandbox.

log = logging.getLogger(__name__)

LIBRARIES = {"matplotlib": "matplotlib/font_manager.py", "jedi": "jedi/settings.py"}
"""Names in ``~/.cache``, and a file of each library. Jedi's cache, kept by parso, is what completion infers with.

Numba is none of them: it keeps what it compiled of the user's own functions, beside their source or in the kernel's home,
both of which can be written in a sandbox, so that there is nothing to fill for everybody. Seaborn keeps data sets that it
downloaded, and no more.
"""

_FILL = {
    "matplotlib": "import matplotlib.font_manager",
    # What is read to infer anything at all, and what most cells import.
    "jedi": """
import pathlib, jedi
for code in ("import os; os.pa", "''.jo", "[].ap", "{}.ke", "import json, re, math, datetime, pathlib, collections; json.du"):
    jedi.Interpreter(code, [{}]).complete()
# Each kernel must be able to touch its own.
pathlib.Path(jedi.settings.cache_directory, "PARSO-CACHE-LOCK").unlink(missing_ok=True)
""",
}

_BESIDE = {"matplotlib": "fontconfig"}
"""What programs that a library runs keep in ``~/.cache``."""

# Matplotlib reads its list for ever: new fonts must lead to a new one.
FONTS = ("/usr/share/fonts", "/usr/local/share/fonts")

MAKE_TIMEOUT_S = 120.0

MAKE = """
import os, sys
os.nice(10)
os.umask(0o022)  # a kernel may be another user's
sys.path += [each for each in sys.argv[2:] if each not in sys.path]
exec(sys.argv[1])
"""


class LibraryCaches:
    """The caches of libraries below one directory, one for each state of a library of an interpreter."""

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

    async def find(self, search_path: Sequence[str]) -> tuple[Path, ...]:
        """Where the caches for the libraries on this path are, or will be once they are made."""
        return tuple((await self._paths(search_path)).values())

    async def make(
        self, python: Path, search_path: Sequence[str], libraries: Collection[str] = tuple(LIBRARIES)
    ) -> tuple[Path, ...]:
        """Make the caches for those of the libraries that are on this path, unless they are there; returns where.

        A failure is only logged: a kernel without caches fills its own.
        """
        paths = {name: path for name, path in (await self._paths(search_path)).items() if name in libraries}
        for name, path in paths.items():
            async with self._making.setdefault(path.name, anyio.Lock()):
                if not path.is_dir():
                    try:
                        await self._make(python, search_path, name, path)
                    except (KernelStartError, OSError) as error:
                        log.warning("library_caches_not_made python=%s reason=%s", python, error)
        return tuple(paths.values())

    async def _make(self, python: Path, search_path: Sequence[str], name: str, made: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".home-", dir=self.directory) as home:
            # The home is empty as a kernel's is: fonts and settings of the user's own are not seen there.
            environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home}
            await run_program(
                [str(python), "-I", "-c", MAKE, _FILL[name], *search_path],
                timeout_s=MAKE_TIMEOUT_S,
                purpose=f"The cache of {name} could not be made with {python}",
                environment=environment,
                cwd=Path(home),
            )
            await anyio.to_thread.run_sync(_keep, Path(home, ".cache"), {name, _BESIDE.get(name)}, made)

    async def _paths(self, search_path: Sequence[str]) -> dict[str, Path]:
        try:
            states = await anyio.to_thread.run_sync(_states, search_path)
        except OSError:  # somebody installs fonts or packages at this very moment
            return {}
        return {
            name: self.directory / f"{name}-{hashlib.sha256(state.encode()).hexdigest()[:16]}"
            for name, state in states.items()
        }


def _states(search_path: Iterable[str]) -> dict[str, str]:
    """The libraries that are there, each with what changes when it is installed anew."""
    found: dict[str, str] = {}
    for name, file in LIBRARIES.items():
        path = next((path for each in search_path if (path := Path(each, file)).is_file()), None)
        if path is not None:
            about = path.stat()
            found[name] = f"{path} {about.st_mtime_ns} {about.st_size}"
    if "matplotlib" in found:
        found["matplotlib"] = "\n".join((found["matplotlib"], *_directory_states(FONTS)))
    return found


def _directory_states(tops: Iterable[str]) -> list[str]:
    """What changes when a file is added below one of these directories, or taken away."""
    below = (directory for top in tops for directory, _, _ in os.walk(top))
    return [f"{directory} {Path(directory).stat().st_mtime_ns}" for directory in sorted(below)]


def _keep(caches: Path, names: Collection[str | None], made: Path) -> None:
    """Put the caches of these names in place, without whatever else there is."""
    for other in caches.iterdir():
        if other.name not in names:
            shutil.rmtree(other)
    put_in_place(caches, made)
