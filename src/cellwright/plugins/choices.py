"""What the operator switched off, and which plugins failed so often that they were taken out: ``plugins.json`` in storage."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.paths import make_storage, write_private

__all__ = ["Choices", "PluginChoicesError", "allow", "forbid", "read_choices", "remember_failure"]


class PluginChoicesError(CellwrightError):
    """What is kept about plugins cannot be read."""

    code = "plugin_choices"


class Failure(msgspec.Struct, frozen=True):
    """How often a plugin failed in a row, and the last time how."""

    count: int
    reason: str
    version: str
    """Of its distribution: another version begins anew."""


class Choices(msgspec.Struct):
    """What holds of plugins by name: a distribution's, or an entry's such as ``tools:roll``."""

    disabled: list[str] = []
    failures: dict[str, Failure] = {}


_decode = msgspec.json.Decoder(Choices).decode


def read_choices(storage: Path) -> Choices:
    """What is kept in a storage directory.

    Raises:
        PluginChoicesError: the file cannot be read.
    """
    file = storage / "plugins.json"
    try:
        return _decode(file.read_bytes())
    except FileNotFoundError:
        return Choices()
    except (OSError, msgspec.MsgspecError) as error:
        raise PluginChoicesError(
            f"{file} cannot be read: {error}", hint="Remove it; every plugin is on then"
        ) from error


def forbid(storage: Path, name: str, _entries: tuple[str, ...] = ()) -> None:
    """Leave a plugin out from the next start on."""
    with _changed(storage) as choices:
        choices.disabled = sorted({*choices.disabled, name})


def allow(
    storage: Path, name: str, entries: tuple[str, ...], covers: Callable[[str], tuple[str, ...]]
) -> None:
    """Let a plugin in again; ``entries`` are the ids that the name covers, whose failures are forgotten.

    ``covers`` tells the ids that any name stands for: where a whole distribution is out, its other plugins stay out.
    """
    with _changed(storage) as choices:
        again = {name, *entries}
        out: set[str] = set()
        for one in choices.disabled:
            covered = set(covers(one))
            out |= covered if covered & again else {one}
        choices.disabled = sorted(out - again)
        choices.failures = {
            one: failure for one, failure in choices.failures.items() if one not in (name, *entries)
        }


def remember_failure(storage: Path, entry: str, count: int, reason: str, version: str) -> None:
    """Keep that a plugin failed; a count of zero forgets it."""
    with _changed(storage) as choices:
        choices.failures.pop(entry, None)
        if count:
            choices.failures[entry] = Failure(count, reason, version)


@contextmanager
def _changed(storage: Path) -> Iterator[Choices]:
    make_storage(str(storage))
    # The daemon and a command may write at the same time.
    with (storage / "plugins.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        choices = read_choices(storage)
        yield choices
        write_private(str(storage / "plugins.json"), msgspec.json.encode(choices))
