"""What was found when a plugin was examined in a process of its own, and where findings are kept so that they cost once.

The examining itself is ``_examiner``'s. A finding is of one version of a distribution; it lies in the user's cache, since
it can be made again.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

import cellwright
from cellwright.plugins._entry_points import PluginEntry
from cellwright.plugins.ports import API_VERSION, KINDS, ToolFinding
from cellwright.settings.paths import cache_base, write_private

__all__ = ["EXAMINATION_S", "Finding", "examine", "forget_finding", "kept_finding"]

EXAMINATION_S = 5.0
_READY_S = 60.0
"""Within which the interpreter and our own side of the port are there; no fault of a plugin's."""
_AT_ONCE = 2
_MOST_ANSWERED = 1 << 20
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")


class Finding(msgspec.Struct, frozen=True):
    """What an examination found."""

    reason: str = ""
    """Why the plugin is left out; empty where it is good."""
    import_ms: float = 0.0
    tokens: int = 0
    """What it adds to every client's context that sees it."""
    tools: tuple[ToolFinding, ...] = ()


_decode = msgspec.json.Decoder(Finding).decode


def examine(entries: Sequence[PluginEntry], *, limit_s: float = EXAMINATION_S) -> dict[str, Finding]:
    """Examine those of which nothing is kept, some at once, each in a process of its own; findings by entry id."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda entry: _examined(entry, limit_s), entries)
        return {entry.id: finding for entry, finding in zip(entries, found, strict=True)}


def kept_finding(entry: PluginEntry) -> Finding | None:
    """What was found before about the very same files; None where they may have changed."""
    if not entry.fingerprint:
        return None
    try:
        return _decode(_file(entry).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def _examined(entry: PluginEntry, limit_s: float) -> Finding:
    if (kept := kept_finding(entry)) is not None:
        return kept
    finding = _ask(entry, limit_s)
    if entry.fingerprint:
        file = _file(entry)
        with suppress(OSError):  # then it is examined again
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(str(file), msgspec.json.encode(finding))
    return finding


def _ask(entry: PluginEntry, limit_s: float) -> Finding:
    kind = KINDS[entry.kind]
    child = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "cellwright.plugins._examiner",
            entry.kind,
            entry.name,
            entry.value,
            kind.port,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        start_new_session=True,
    )
    try:
        said = _said(child, limit_s)
    except TimeoutError:
        return Finding(
            f"It was not imported within {limit_s:g} s; `cellwright plugins enable {entry.id}` tries again"
        )
    finally:
        _end(child)
    try:
        return _decode(said)
    except msgspec.MsgspecError:
        return Finding(f"It ended the process that imported it (exit code {child.returncode})")


def _said(child: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """What the process says after its first byte, with which it says that all of ours is imported.

    Raises:
        TimeoutError: it takes longer than ``limit_s`` from there.
    """
    if child.stdout is None:
        raise AssertionError("it was started with a pipe")
    said, deadline = b"", time.monotonic() + _READY_S
    while len(said) < _MOST_ANSWERED:
        if not select.select([child.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        part = os.read(child.stdout.fileno(), 1 << 16)
        if not part:
            break
        if not said:
            deadline = time.monotonic() + limit_s
        said += part
    return said[1:]


def forget_finding(entry: PluginEntry) -> None:
    """Have an entry examined anew."""
    with suppress(OSError):
        _file(entry).unlink()


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process with all that it started."""
    # Not yet waited for where it hangs, and otherwise whatever it left of its session.
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _file(entry: PluginEntry) -> Path:
    about = (
        API_VERSION, cellwright.__version__, sys.version, sys.prefix, entry.distribution, entry.version,
        entry.fingerprint, entry.kind, entry.name, entry.value,
    )  # fmt: skip
    name = hashlib.sha256(repr(about).encode()).hexdigest()[:32]
    return Path(cache_base(), "plugins", f"{name}.json")
