"""Where a set comes from, and which adapter reads it: a directory, or an address that git can clone."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

from datatasks import builtin, dabench, dseval
from datatasks.tasks import TaskSet

__all__ = ["ADAPTERS", "BUILTIN", "SourceUnusable", "tasks_from"]

ADAPTERS: tuple[ModuleType, ...] = (dabench, dseval)
"""Each has ``SOURCE``, ``find(directory)`` and ``read(directory)``."""
BUILTIN = "builtin"
_CACHE = Path(__file__).resolve().parents[3] / ".cache" / "bench" / "tasks"
_CLONE_LIMIT_S = 600


class SourceUnusable(Exception):
    """There is no set where one was asked for."""


def tasks_from(wanted: str, scratch: Path, *, cache: Path = _CACHE) -> TaskSet:
    """The tasks of ``builtin``, a directory, or an address.

    ``scratch`` is where our own set writes its data; clones are kept in ``cache``.

    Raises:
        SourceUnusable: there is nothing, or nothing that an adapter knows.
    """
    if wanted == BUILTIN:
        return builtin.read(scratch)
    directory = Path(wanted).expanduser()
    if not directory.is_dir():
        if "://" not in wanted and not wanted.startswith("git@"):
            raise SourceUnusable(f"{wanted} is neither a directory nor an address\n{_hint()}")
        directory = _clone(wanted, cache)
    for adapter in ADAPTERS:
        if place := adapter.find(directory):
            return adapter.read(place)  # type: ignore[no-any-return]  # an adapter's, see above
    raise SourceUnusable(f"No adapter knows what lies in {directory}\n{_hint()}")


def _clone(address: str, cache: Path) -> Path:
    name = Path(address).stem + "-" + hashlib.sha256(address.encode()).hexdigest()[:8]
    target = cache / name
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    half = cache / f".{name}"
    command = ["git", "clone", "--quiet", "--depth", "1", "--", address, str(half)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_CLONE_LIMIT_S)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(half, ignore_errors=True)
        said = getattr(error, "stderr", None) or str(error)
        raise SourceUnusable(f"git could not clone {address}: {said.strip()}") from error
    half.rename(target)
    return target


def _hint() -> str:
    known = "\n".join(f"  git clone --depth 1 {adapter.SOURCE}" for adapter in ADAPTERS)
    return f"hint: the sets that are known:\n{known}"
