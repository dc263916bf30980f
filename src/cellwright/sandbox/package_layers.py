"""Layers of packages and how they are kept: pinned, hashed, named by their content, read-only. Fetches nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cellwright.errors import PackageFailed
from cellwright.sandbox.approved_packages import normal_name
from cellwright.sandbox.files import Workdir

__all__ = ["Lock", "Pin", "Resolutions", "keep_layer", "remove_tree", "tree_bytes"]
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
