"""What the project had under each name when a session in ``overlay`` mode began to have its own there.

Kept beside the layer, out of the session's sight, so that what a person changed meanwhile is never overwritten
silently. A file that may have changed before anybody looked counts as changed. Blocking.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from cellwright.sandbox.files import Entry
from cellwright.sandbox.places import Place

__all__ = ["Original", "Originals", "Shadow"]

_NAME = "originals.json"
# File systems tell time by a clock that may be some ticks behind.
_TICKS_NS = 20_000_000
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Shadow:
    """A name under which the session does not see what the project has."""

    path: str
    ours: Entry | None
    """What the session has there; None where it deleted it."""
    theirs: Entry | None
    """What the project has there now."""
    hidden_by: str | None = None
    """The directory that the session deleted or replaced, where that is why."""


@dataclass(frozen=True, slots=True)
class Original:
    """What the project had: ``identity`` (inode, change time, size), or None for nothing."""

    identity: tuple[int, ...] | None
    known: bool = True
    """False where it may have changed before it was looked at."""
    settled: tuple[int, ...] | None = None
    """The session's own as it was when it was last brought over, if it was."""


class Originals:
    """The originals of one session."""

    def __init__(self, place: Place, held: dict[str, Original]) -> None:
        self._place = place
        self._held = held

    @classmethod
    def load(cls, place: Place) -> Self:
        try:
            stored = json.loads(Path(place.storage, _NAME).read_bytes())
        except FileNotFoundError:
            return cls(place, {})
        return cls(place, {path: _original(about) for path, about in stored.items()})

    def note(self, shadows: Iterable[Shadow], *, since: float) -> None:
        """Remember what newly shadowed names had, and forget those that the session gave back.

        ``since`` is a moment at which none of the new ones was shadowed yet.
        """
        first = int(since * _NS) - _TICKS_NS
        held = {
            shadow.path: self._held.get(shadow.path) or self._first_seen(shadow, first) for shadow in shadows
        }
        if held != self._held:
            self._held = held
            self._save()

    def conflicts(self, shadow: Shadow) -> bool:
        """Whether the project's own is no longer what the session's was made from."""
        original = self._held.get(shadow.path)
        return original is None or not original.known or original.identity != _identity(shadow.theirs)

    def is_settled(self, shadow: Shadow) -> bool:
        """Whether the session's own was brought over and has not changed since."""
        original = self._held.get(shadow.path)
        return (
            original is not None
            and original.settled is not None
            and original.settled == (_identity(shadow.ours) or ())
        )

    def settle(self, shadow: Shadow, applied: Entry | None) -> None:
        """The session's own was brought over: the project now has this."""
        self._held[shadow.path] = replace(
            self._held[shadow.path],
            identity=_identity(applied),
            known=True,
            settled=_identity(shadow.ours) or (),
        )

    def save(self) -> None:
        """Write down what was settled."""
        self._save()

    def _first_seen(self, shadow: Shadow, first: int) -> Original:
        directory = self._held.get(shadow.hidden_by or "")
        if directory is not None:
            # The session never saw it: it came after its directory had gone.
            return Original(None, settled=() if directory.settled is not None else None)
        theirs = shadow.theirs
        changed = theirs is not None and theirs.identity[1] >= first and theirs.type != "directory"
        return Original(_identity(theirs), known=not changed)

    def _save(self) -> None:
        target = Path(self._place.storage, _NAME)
        fresh = target.with_suffix(".new")
        # ASCII, with names that are no UTF-8 as escapes.
        fresh.write_text(json.dumps({path: asdict(held) for path, held in self._held.items()}))
        with contextlib.suppress(OSError):
            fresh.chmod(0o600)
        os.replace(fresh, target)  # noqa: PTH105  # says that there may be one


def _original(about: dict[str, Any]) -> Original:
    """From its own JSON, which knows lists only."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in about.items()
    }
    return Original(**values)


def _identity(entry: Entry | None) -> tuple[int, ...] | None:
    if entry is None:
        return None
    # What lies in a directory has names of its own here.
    return (-1,) if entry.type == "directory" else (*entry.identity, entry.size)
