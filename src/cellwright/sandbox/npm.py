"""Installs approved npm packages on the host's side into layers, as ``packages`` does it for Python.

Deno itself fetches them, into a cache that becomes the layer; nothing of a package is run for it. A session has one such
layer at a time: a new one holds what the one before it held, in the same versions. Code imports ``npm:name`` from there,
with the network closed.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Self

import anyio
import anyio.to_thread

from cellwright.errors import LimitReached, PackageFailed, PackageRefused
from cellwright.rlimits import unlimited_children
from cellwright.sandbox.packages import (
    InstallLimits,
    InstallResult,
    Lock,
    Pin,
    Resolutions,
    keep_layer,
    remove_tree,
    tree_bytes,
)

__all__ = [
    "CACHE",
    "DEFAULT_APPROVED_NPM",
    "REGISTRY",
    "NpmList",
    "NpmRequest",
    "install_npm",
    "is_npm_layer",
]

SETTING = "approved_npm_packages"
SCHEME = "npm:"
CACHE = "npm"
"""The directory of a layer that Deno looks for packages in."""
REGISTRY = "packages.invalid"
"""The host that kernels believe packages come from, wherever they did; nobody is there."""
DEFAULT_APPROVED_NPM = (
    "arquero",
    "csv-parse",
    "d3-array",
    "d3-format",
    "d3-time-format",
    "date-fns",
    "lodash",
    "lodash-es",
    "mathjs",
    "papaparse",
    "ramda",
    "simple-statistics",
    "yaml",
    "zod",
)
_PREFIX = "npm-"
_LISTING = "registry.json"
_MAX_REQUESTS = 50
_MAX_LENGTH = 200
_MAX_TOLD = 2_000
_WATCH_S = 0.5
_LIKENESS = 0.6
_PART = r"[a-z0-9][a-z0-9._-]*"
_REQUEST = re.compile(
    rf"(?:npm:)?(?P<name>(?:@{_PART}/)?{_PART})(?:@(?P<version>[~^]?\d[A-Za-z0-9.+-]*))?", re.ASCII
)
_FLAGS = ("--quiet", "--no-lock", "--no-config", "--node-modules-dir=none")


@dataclass(frozen=True, slots=True)
class NpmRequest:
    """A package by its name, and which version, if that matters."""

    name: str
    version: str = ""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """A request such as ``lodash``, ``npm:lodash@4`` or ``@scope/name@^1.2``; None for anything else."""
        found = _REQUEST.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
        return cls(found["name"], found["version"] or "") if found is not None else None

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}{f'@{self.version}' if self.version else ''}"


class NpmList:
    """The npm packages that may be asked for; whatever they need comes with them."""

    def __init__(self, names: Iterable[str] = DEFAULT_APPROVED_NPM) -> None:
        self.names = frozenset(names)

    def judge(self, requests: Sequence[str]) -> list[NpmRequest]:
        """What may be installed.

        Raises:
            PackageRefused: at least one of them may not be.
        """
        if len(requests) > _MAX_REQUESTS:
            told = f"{len(requests)} packages were asked for at once"
            raise PackageRefused(told, hint=f"Ask for at most {_MAX_REQUESTS}")
        return [self._judged(text) for text in requests]

    def _judged(self, text: str) -> NpmRequest:
        found = NpmRequest.parse(text)
        if found is not None and found.name in self.names:
            return found
        near = difflib.get_close_matches(
            text[:_MAX_LENGTH].removeprefix(SCHEME), self.names, n=1, cutoff=_LIKENESS
        )
        listed = ", ".join(sorted(self.names)) or "none"
        hint = f"The nearest approved one is {near[0]}" if near else f"Approved are: {listed}"
        what = (
            f"{text[:_MAX_LENGTH]!r} is no npm package name with a version"
            if found is None
            else (f"{found.name} is not on the list of approved npm packages")
        )
        raise PackageRefused(
            what,
            suggestion=near[0] if near else None,
            hint=f"{hint}. If it is needed, have the operator add it to `{SETTING}` in their cellwright.toml",
        )


def is_npm_layer(layer: str) -> bool:
    """Whether a layer, by its name or path, holds npm packages."""
    return PurePath(layer).name.startswith(_PREFIX)


async def install_npm(
    requests: Sequence[str],
    *,
    deno: Path,
    store: Path,
    approved: NpmList,
    before: Path | None = None,
    limits: InstallLimits | None = None,
) -> InstallResult:
    """Install packages into a layer below ``store``, on top of those in the layer ``before``.

    Raises:
        PackageRefused: a name is not approved; nothing was installed.
        PackageFailed: the packages cannot be found or fetched.
        LimitReached: it took too long or too much room.
    """
    began = time.monotonic()
    wanted = approved.judge(requests)
    limits = limits or InstallLimits()
    try:
        with anyio.fail_after(limits.timeout_s):
            added, layer, reused = await _found(wanted, deno, store, before, limits)
    except TimeoutError:
        raise LimitReached(
            f"Installing {', '.join(requests)} took longer than {limits.timeout_s:g} s",
            setting="install_timeout_s",
            hint="Try again, or have the operator raise `install_timeout_s`",
        ) from None
    news = {pin.name.removeprefix(SCHEME) for pin in added}
    return InstallResult(
        installed=added,
        already_there=tuple(str(one) for one in wanted if one.name not in news),
        layer=layer if added else None,
        reused=reused,
        seconds=time.monotonic() - began,
        not_listed=tuple(sorted(news - approved.names)),
    )


async def _found(
    wanted: Sequence[NpmRequest], deno: Path, store: Path, before: Path | None, limits: InstallLimits
) -> tuple[tuple[Pin, ...], Path, bool]:
    """The same as ``_fetch``, from memory where the same was asked for lately and its layer is there."""
    if before is not None:
        return await _fetch(wanted, deno, store, before, limits)
    asked = (SCHEME, sorted(map(str, wanted)), str(deno), os.environ.get("NPM_CONFIG_REGISTRY"))
    memory = Resolutions(store, repr(asked))
    known = await anyio.to_thread.run_sync(memory.recall)
    layer = store / known[1][0] if known is not None else None
    if layer is not None and await anyio.to_thread.run_sync(layer.is_dir):
        return await anyio.to_thread.run_sync(_pins_in, layer / CACHE), layer, True
    found = await _fetch(wanted, deno, store, before, limits)
    await anyio.to_thread.run_sync(memory.remember, Lock(()), [found[1].name])
    return found


async def _fetch(
    wanted: Sequence[NpmRequest], deno: Path, store: Path, before: Path | None, limits: InstallLimits
) -> tuple[tuple[Pin, ...], Path, bool]:
    """What was not there before, and the layer with all of it."""
    async with _scratch(store) as scratch:
        fresh = scratch / "layer"
        held: tuple[Pin, ...] = ()
        if before is not None:
            await anyio.to_thread.run_sync(_copy, before, fresh)
            held = _pins_in(fresh / CACHE)
        fresh.mkdir(exist_ok=True)
        names = ", ".join(map(str, wanted))
        await _cache(
            [str(one) for one in wanted], deno, scratch, fresh, limits, purpose=f"Cannot install {names}"
        )
        pins = _pins_in(fresh / CACHE)
        await anyio.to_thread.run_sync(_leave_only_packages, fresh)
        layer = store / f"{_PREFIX}{_key(pins)}"
        reused = await anyio.to_thread.run_sync(layer.is_dir)
        if not reused:
            await anyio.to_thread.run_sync(keep_layer, fresh, layer, Lock(pins))
    return tuple(pin for pin in pins if pin not in held), layer, reused


async def _cache(
    specifiers: Sequence[str], deno: Path, scratch: Path, fresh: Path, limits: InstallLimits, *, purpose: str
) -> None:
    """Let Deno fetch the packages into a cache; its own notes go elsewhere."""
    errors = scratch / "errors.txt"
    # Not a configuration that Deno would take from a session's or a project's directory.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DENO_")}
    environment |= {"DENO_DIR": str(fresh), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
    code = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, fresh, limits.max_bytes, tasks.cancel_scope)
        with errors.open("wb") as told:
            with anyio.CancelScope(shield=True), unlimited_children():
                process = await anyio.open_process(
                    [str(deno), "cache", *_FLAGS, *specifiers],
                    stdin=subprocess.DEVNULL,
                    stdout=told,
                    stderr=told,
                    cwd="/",
                    env=environment,
                )
            async with process:
                code = await process.wait()
        tasks.cancel_scope.cancel()
    size = await anyio.to_thread.run_sync(tree_bytes, fresh)
    if size > limits.max_bytes:
        raise LimitReached(
            f"The packages take {size:,} bytes, and {limits.max_bytes:,} are allowed",
            setting="max_install_bytes",
            hint="Install fewer packages, or have the operator raise `max_install_bytes`",
        )
    if code:
        raise PackageFailed(
            f"{purpose}: {errors.read_text(errors='replace').strip()[-_MAX_TOLD:]}",
            hint="Check the name and version, and that this machine reaches its npm registry",
        )


async def _watch(directory: Path, max_bytes: int, scope: anyio.CancelScope) -> None:
    # Nobody tells how a directory grows.
    while await anyio.to_thread.run_sync(tree_bytes, directory) <= max_bytes:
        await anyio.sleep(_WATCH_S)
    scope.cancel()


@contextlib.asynccontextmanager
async def _scratch(store: Path) -> AsyncIterator[Path]:
    directory = await anyio.to_thread.run_sync(_new_directory, store)
    try:
        yield directory
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_tree, directory)


def _new_directory(store: Path) -> Path:
    store.mkdir(parents=True, exist_ok=True)
    store.chmod(0o711)
    return Path(tempfile.mkdtemp(prefix=".new-", dir=store))


def _copy(before: Path, fresh: Path) -> None:
    shutil.copytree(before / CACHE, fresh / CACHE, copy_function=shutil.copyfile)
    # A layer is closed to writing, and a copy of its directories with it.
    for parent, _, _ in os.walk(fresh):
        Path(parent).chmod(0o755)


def _leave_only_packages(fresh: Path) -> None:
    """Let packages lie where a kernel looks for them, whichever registry they came from, and nothing beside them."""
    for entry in fresh.iterdir():
        if entry.name != CACHE:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    home = fresh / CACHE / REGISTRY
    for package in _package_directories(fresh / CACHE):
        if package.is_relative_to(home):
            continue
        place = home / _name_of(package)
        place.mkdir(parents=True, exist_ok=True)
        for entry in package.iterdir():
            if not (place / entry.name).is_dir():
                entry.replace(place / entry.name)
    for registry in (fresh / CACHE).iterdir():
        if registry != home:
            shutil.rmtree(registry)


def _pins_in(cache: Path) -> tuple[Pin, ...]:
    """What a cache holds: in the directory of a package is one for each version."""
    pins = {
        Pin(f"{SCHEME}{_name_of(package)}", entry.name)
        for package in _package_directories(cache)
        for entry in package.iterdir()
        if entry.is_dir()
    }
    return tuple(sorted(pins))


def _package_directories(cache: Path) -> list[Path]:
    """The directories of packages, which are those with a listing; what is inside a package is its own affair."""
    found = []
    for parent, directories, names in os.walk(cache):
        if _LISTING in names:
            found.append(Path(parent))
            directories.clear()
    return found


def _name_of(package: Path) -> str:
    scope = package.parent.name
    return f"{scope}/{package.name}" if scope.startswith("@") else package.name


def _key(pins: Sequence[Pin]) -> str:
    return hashlib.sha256("\n".join(map(str, pins)).encode()).hexdigest()[:32]
