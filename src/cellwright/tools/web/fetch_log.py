"""Every request that was fetched on the host's side, in a file that outlives the daemon: the newest, the rest counted.

Of the engine that owns the storage directory, which is one at a time. Requests of a session's code are in the session's
own log (``sandbox/network_log.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from cellwright.sandbox.network_log import NetworkEntry

__all__ = ["FetchLog", "FetchUse"]

KEPT = 1_000
_decode = msgspec.json.Decoder(NetworkEntry).decode


@dataclass(frozen=True, slots=True)
class FetchUse:
    """The newest requests, oldest first; ``dropped`` counts those before them."""

    entries: tuple[NetworkEntry, ...]
    dropped: int


class FetchLog:
    """The log of one storage directory."""

    def __init__(self, storage: Path) -> None:
        self._path = storage / "fetch" / "requests.jsonl"
        self._last: int | None = None
        self._lines = 0

    def add(self, entry: NetworkEntry) -> NetworkEntry:
        """Write an entry down under the next number."""
        if self._last is None:
            kept = self._read()
            self._last, self._lines = (kept[-1].number if kept else 0), len(kept)
        self._last += 1
        numbered = replace(entry, number=self._last)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(numbered) + b"\n")
        self._lines += 1
        if self._lines >= 2 * KEPT:
            self._trim()
        return numbered

    def read(self) -> FetchUse:
        """What is kept."""
        entries = self._read()[-KEPT:]
        return FetchUse(tuple(entries), entries[0].number - 1 if entries else 0)

    def _read(self) -> list[NetworkEntry]:
        entries = []
        with contextlib.suppress(FileNotFoundError):
            for line in self._path.read_bytes().splitlines():
                # A line that a killed daemon left half-written says nothing.
                with contextlib.suppress(msgspec.MsgspecError):
                    entries.append(_decode(line))
        return entries

    def _trim(self) -> None:
        kept: Sequence[NetworkEntry] = self._read()[-KEPT:]
        beside = self._path.with_suffix(".new")
        beside.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in kept))
        beside.replace(self._path)
        self._lines = len(kept)
