"""Installs approved packages on the host's side into layers: directories that sessions see and cannot write.

A session's own interpreter is never run for it, nor anything that its code could have written: uv resolves and
unpacks with our interpreter, for the session's version of Python. Only wheels, so nothing is built; hashed, so what
is unpacked is what was resolved; and copied, so no layer shares a file with uv's cache. A layer is named by what it
holds, so the same packages are unpacked once for all sessions. It goes to the end of the session's path, where it
adds and never replaces.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from cellwright.errors import LimitReached, PackageFailed
from cellwright.rlimits import unlimited_children
from cellwright.sandbox.approved_packages import ApprovedList, Requirement, normal_name
from cellwright.sandbox.files import Workdir

__all__ = [
    "InstallLimits",
    "InstallResult",
    "Lock",
    "PackageSource",
    "Pin",
    "PythonTarget",
    "Resolutions",
    "find_uv",
    "install",
    "installed_in",
    "keep_layer",
    "remove_tree",
    "tree_bytes",
]

_MAX_TOLD = 2_000

_WATCH_S = 0.5

_OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

_METADATA = re.compile(
    r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[A-Za-z0-9.!+_]+)(?:-py\d[\d.]*)?\.(?:dist|egg)-info"
)

_VERSION = re.compile(
    r"(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(?:[-_.]?post[-_.]?\d*|-\d+)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE | re.ASCII,
)

# What would make uv, or the interpreter that it asks for its platform, answer for another environment than ours.
_DROPPED = frozenset(
    {
        "CONDA_PREFIX",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "UV_CONSTRAINT",
        "UV_NO_BINARY",
        "UV_NO_CACHE",
        "UV_OVERRIDE",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_REQUIRE_HASHES",
        "VIRTUAL_ENV",
    }
)


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """The Python that will import what is installed."""

    version: str
    """Such as ``3.12``."""
    platform: str | None = None
    """uv's name of the platform, such as ``aarch64-manylinux_2_28``; None is this machine."""


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Where packages come from, beyond what the operator has configured uv with."""

    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    only_links: bool = False
    """Use no index at all."""
    cache: Path | None = None
    """uv's cache; its own default where none is given. Never a directory that sessions can write."""

    def arguments(self) -> list[str]:
        """The options for uv."""
        index = ["--index-url", self.index_url] if self.index_url else []
        links = [part for link in self.find_links for part in ("--find-links", link)]
        cache = ["--cache-dir", str(self.cache)] if self.cache else []
        return [*index, *links, *(["--no-index"] if self.only_links else []), *cache]


@dataclass(frozen=True, slots=True)
class InstallLimits:
    """Where an installation stops."""

    timeout_s: float = 300
    max_bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class InstallResult:
    """What an installation did."""

    installed: tuple[Pin, ...]
    """All that the layer holds: what was asked for and what that needs."""
    already_there: tuple[str, ...]
    """What was asked for and needed nothing: in the standard library, or installed before."""
    layer: Path | None
    """The directory to add to the end of the session's path, or None where nothing was needed."""
    reused: bool
    """Whether the layer was there before."""
    seconds: float
    not_listed: tuple[str, ...] = field(default=())
    """Those of ``installed`` that are on no list, and came because an approved package needs them."""


async def install(
    requests: Sequence[str],
    *,
    target: PythonTarget,
    store: Path,
    approved: ApprovedList,
    installed: Mapping[str, str] | None = None,
    source: PackageSource | None = None,
    limits: InstallLimits | None = None,
) -> InstallResult:
    """Install packages into a layer below ``store``, next to what is ``installed`` (see ``installed_in``).

    Raises:
        PackageRefused: a name is not approved; nothing was installed.
        PackageFailed: the packages, or their place beside the installed ones, cannot be found or unpacked.
        LimitReached: it took too long or too much room.
    """
    began = time.monotonic()
    judged = approved.judge(requests)
    job = _Job(
        target, store, approved, dict(installed or {}), source or PackageSource(), limits or InstallLimits()
    )
    try:
        with anyio.fail_after(job.limits.timeout_s):
            news, there = await job.resolved(judged.approved)
            layer, reused = await job.layer_of(news)
    except TimeoutError:
        raise LimitReached(
            f"Installing {', '.join(requests)} took longer than {job.limits.timeout_s:g} s",
            setting="install_timeout_s",
            hint="Try again: what was fetched is kept. Or have the operator raise `install_timeout_s`",
        ) from None
    return InstallResult(
        installed=news.pins,
        already_there=(*judged.standard, *there),
        layer=layer,
        reused=reused,
        seconds=time.monotonic() - began,
        not_listed=tuple(pin.name for pin in news.pins if not approved.names(pin.name)),
    )


def installed_in(directories: Iterable[Path]) -> dict[str, str]:
    """The packages in these directories with their versions, told by the names of their metadata. Runs nothing.

    Where a package is in several, the first one counts, as it does on a path.
    """
    found: dict[str, str] = {}
    for directory in directories:
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if (match := _METADATA.fullmatch(entry.name)) is not None:
                    found.setdefault(normal_name(match["name"]), match["version"])
    return found


def find_uv() -> str | None:
    """The program uv: the one installed beside us, or else the one on the path."""
    try:
        from uv import find_uv_bin  # an optional dependency

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv")


@dataclass(frozen=True, slots=True)
class _Job:
    """One installation: what all of its steps know."""

    target: PythonTarget
    store: Path
    approved: ApprovedList
    present: Mapping[str, str]
    source: PackageSource
    limits: InstallLimits

    async def resolved(self, wanted: Sequence[Requirement]) -> tuple[Lock, list[str]]:
        """The same as ``resolve``, from memory where the same was asked for lately and its layer is there."""
        about = (self.target, self.source, self.approved.bounds, sorted(self.present.items()))
        memory = Resolutions(self.store, repr((sorted(map(str, wanted)), about)))
        known = await anyio.to_thread.run_sync(memory.recall)
        if known is not None and (
            not known[0].pins or await anyio.to_thread.run_sync(self._layer(known[0]).is_dir)
        ):
            return known
        found = await self.resolve(wanted)
        await anyio.to_thread.run_sync(memory.remember, *found)
        return found

    async def resolve(self, wanted: Sequence[Requirement]) -> tuple[Lock, list[str]]:
        """What must be added, and what was wanted and needs nothing."""
        there = [one for one in wanted if one.name in self.present and not (one.versions or one.extras)]
        missing = [one for one in wanted if one not in there]
        news = (await self._locked(missing)).without(self.present) if missing else Lock(())
        added = {pin.name for pin in news.pins}
        return news, [str(one) for one in wanted if one.name not in added]

    async def layer_of(self, lock: Lock) -> tuple[Path | None, bool]:
        """The layer that holds these packages, and whether it was there before."""
        if not lock.pins:
            return None, False
        layer = self._layer(lock)
        if await anyio.to_thread.run_sync(layer.is_dir):
            return layer, True
        await self._unpack(lock, layer)
        return layer, False

    def _layer(self, lock: Lock) -> Path:
        return self.store / lock.key(self.target.version, self.target.platform)

    async def _locked(self, wanted: Sequence[Requirement]) -> Lock:
        """Every package that is needed, in one version, with the hashes of its files."""
        names = ", ".join(str(one) for one in wanted)
        async with self._scratch() as scratch:
            constraints = scratch / "constraints.txt"
            constraints.write_text("\n".join([*_pins(self.present), *self.approved.bounds, ""]))
            command = ["pip", "compile", "--no-header", "--no-annotate", "--generate-hashes", "--no-sources"]
            asked = scratch / "asked.txt"
            asked.write_text("\n".join(str(one) for one in wanted))
            command += ["--constraints", str(constraints), str(asked)]
            return Lock.parse(await self._uv(command, scratch, purpose=f"Cannot resolve {names}"))

    async def _unpack(self, lock: Lock, layer: Path) -> None:
        """Put the packages into a new layer, whole or not at all."""
        async with self._scratch() as scratch:
            listed, fresh = scratch / "lock.txt", scratch / "layer"
            listed.write_text(lock.text())
            command = ["pip", "install", "--require-hashes", "--no-deps", "--link-mode", "copy"]
            command += ["--target", str(fresh), "--requirements", str(listed)]
            if self.target.version == _OWN_VERSION and self.target.platform is None:
                # No session can write there what its interpreter compiles: each would compile it all again.
                command.append("--compile-bytecode")
            failure = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, fresh, tasks.cancel_scope)
                try:
                    await self._uv(command, scratch, purpose=f"Cannot install {lock}")
                except PackageFailed as error:
                    failure = error
                tasks.cancel_scope.cancel()
            size = await anyio.to_thread.run_sync(tree_bytes, fresh)
            if size > self.limits.max_bytes:
                raise self._too_large(size)
            if failure is not None:
                raise failure
            await anyio.to_thread.run_sync(keep_layer, fresh, layer, lock)

    async def _watch(self, directory: Path, scope: anyio.CancelScope) -> None:
        # Nobody tells how a directory grows.
        while await anyio.to_thread.run_sync(tree_bytes, directory) <= self.limits.max_bytes:
            await anyio.sleep(_WATCH_S)
        scope.cancel()

    async def _uv(self, command: list[str], scratch: Path, *, purpose: str) -> str:
        """What uv answers on standard output."""
        uv = find_uv()
        if uv is None:
            raise PackageFailed(
                f"{purpose}: uv is not installed", hint="Run `pip install uv` beside cellwright"
            )
        platform = ["--python-platform", self.target.platform] if self.target.platform else []
        full = [uv, *command[:2], "--quiet", "--only-binary", ":all:", "--python", sys.executable]
        full += ["--python-version", self.target.version, *platform, *self.source.arguments(), *command[2:]]
        output, errors = scratch / "output.txt", scratch / "errors.txt"
        code = await _run(full, output, errors)
        if code:
            raise _failed(purpose, errors.read_text(errors="replace"))
        return output.read_text()

    @contextlib.asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        self.store.mkdir(parents=True, exist_ok=True)
        # Others may enter a layer that they know, and cannot list what other sessions have.
        self.store.chmod(0o711)
        directory = Path(tempfile.mkdtemp(prefix=".new-", dir=self.store))
        try:
            yield directory
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, directory)

    def _too_large(self, size: int) -> LimitReached:
        return LimitReached(
            f"The packages take {size:,} bytes, and {self.limits.max_bytes:,} are allowed",
            setting="max_install_bytes",
            hint="Install fewer packages, or have the operator raise `max_install_bytes`",
        )


async def _run(command: list[str], output: Path, errors: Path) -> int:
    """Run a program to its end, or end it when cancelled."""
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    with output.open("wb") as out, errors.open("wb") as err:
        # A process that is cancelled while it is being born would outlive us.
        with anyio.CancelScope(shield=True), unlimited_children():
            process = await anyio.open_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # Not where a session, or a project, keeps a configuration for uv of its own.
                cwd="/",
                env={**environment, "NO_COLOR": "1"},
            )
        async with process:
            return await process.wait()


def _pins(present: Mapping[str, str]) -> list[str]:
    """What is installed, as constraints; a version that uv could not read would fail everything, and binds nothing."""
    return [
        f"{name}=={version}"
        for name, version in sorted(present.items())
        if Requirement.parse(name) is not None and _VERSION.fullmatch(version)
    ]


def _failed(purpose: str, told: str) -> PackageFailed:
    text = told.strip().rstrip(".")[-_MAX_TOLD:]
    said = text.lower()
    if "no wheels" in said or "no usable wheels" in said or "source distributions is disabled" in said:
        hint = "Only wheels are installed, and this version has none that fits: ask for another version"
    elif "there is no version of" in said:
        hint = "Ask for a version that there is, or for any with the name alone"
    elif "unsatisfiable" in said:
        hint = "What is installed already keeps its version: ask for a version that goes with it"
    else:
        hint = "Check the name and version, and that this machine reaches its package index"
    return PackageFailed(f"{purpose}: {text}", hint=hint)


# Layers of packages and how they are kept: pinned, hashed, named by their content, read-only. Fetches
# nothing.

LOCK_NAME = ".cellwright-lock.txt"

_CONTINUED = re.compile(r"\s*\\\n\s*")

_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)"
    r"(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """A package in one version."""

    name: str
    version: str
    hashes: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class Lock:
    """Packages that go together, each in one version and with the hashes of its files."""

    pins: tuple[Pin, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """A lock from the output of ``uv pip compile --generate-hashes``.

        Raises:
            PackageFailed: a line is anything but a pinned name with hashes, such as an address.
        """
        pins = []
        for line in _CONTINUED.sub(" ", text).splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise PackageFailed(
                    f"The resolution holds what is no pinned wheel with hashes: {line.strip()[:200]}",
                    hint="Ask for another version of the package",
                )
            hashes = tuple(sorted(part.removeprefix("--hash=") for part in match["hashes"].split()))
            pins.append(Pin(normal_name(match["name"]), match["version"], hashes))
        return cls(tuple(sorted(pins)))

    def without(self, present: Mapping[str, str]) -> Self:
        """The packages that are not there already."""
        return type(self)(tuple(pin for pin in self.pins if present.get(pin.name) != pin.version))

    def text(self) -> str:
        """The lock as a requirements file."""
        lines = (f"{pin} {' '.join(f'--hash={one}' for one in pin.hashes)}" for pin in self.pins)
        return "\n".join([*lines, ""])

    def __str__(self) -> str:
        return ", ".join(map(str, self.pins))

    def key(self, version: str, platform: str | None) -> str:
        """A name that only a layer of this content has."""
        content = f"{version}\n{platform or 'this machine'}\n{self.text()}"
        return f"py{version}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"


def keep_layer(fresh: Path, layer: Path, lock: Lock) -> None:
    """Give a new layer its name, unless somebody was quicker, and close it to writing."""
    (fresh / ".lock").unlink(missing_ok=True)
    (fresh / LOCK_NAME).write_text(lock.text())
    _close(fresh)
    # Moving a directory writes to it.
    fresh.chmod(0o755)
    try:
        fresh.rename(layer)
    except OSError:
        # Theirs has the same name, and so the same content.
        if not layer.is_dir():
            raise
    else:
        layer.chmod(0o555)


def tree_bytes(directory: Path) -> int:
    """How much a tree takes; a tree that is not there takes nothing."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size  # many thousand files
    return total


def remove_tree(directory: Path) -> None:
    """Delete a directory of ours with whatever is in it."""
    with contextlib.suppress(OSError):
        with Workdir.open(directory) as opened:
            opened.clear()
        directory.rmdir()


def _close(directory: Path) -> None:
    for parent, directories, names in os.walk(directory, topdown=False):
        for name in names:
            path = Path(parent, name)
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                # A wheel holds files; a link in it would lead wherever the session's view of the machine has it lead.
                path.unlink()
                continue
            path.chmod(0o555 if status.st_mode & stat.S_IXUSR else 0o444)
        for name in directories:
            path = Path(parent, name)
            path.unlink() if path.is_symlink() else path.chmod(0o555)


# What was resolved lately: the same request, beside the same packages, needs no second resolution. Blocking.

SUFFIX = "-resolved"

LASTS_S = 24 * 3600


class Resolutions:
    """The memory of one request."""

    def __init__(self, store: Path, request: str) -> None:
        """``request`` says all that the answer depends on."""
        # Beside it: what is in the store, sessions see.
        self._directory = store.with_name(f"{store.name}{SUFFIX}")
        self._file = self._directory / f"{hashlib.sha256(request.encode()).hexdigest()}.json"

    def recall(self) -> tuple[Lock, list[str]] | None:
        """What was found then: the packages to add, and what was there already."""
        try:
            if not 0 <= time.time() - self._file.stat().st_mtime <= LASTS_S:
                return None
            known = json.loads(self._file.read_text())
            return Lock.parse(known["lock"]), [str(name) for name in known["there"]]
        except (OSError, ValueError, KeyError, TypeError, PackageFailed):
            return None

    def remember(self, lock: Lock, there: list[str]) -> None:
        """Keep an answer; where that cannot be done it is found again."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._directory / f"{secrets.token_hex(8)}.tmp"
            fresh.write_text(json.dumps({"lock": lock.text(), "there": there}))
            os.replace(fresh, self._file)  # at once, in place of an older one
