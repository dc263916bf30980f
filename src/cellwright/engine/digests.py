"""Digests of plugins: which of them a Python kernel is told of, and which failed there. None is imported here."""

from __future__ import annotations

from collections.abc import Iterable

from cellwright.hosts.protocol import DigestFailure
from cellwright.plugins.registry import registry

__all__ = ["note_digest_failures", "registered_digests"]

_GROUP = "digests"
_MOST_REASON = 200


def registered_digests() -> dict[str, str]:
    """What kernels do not know by themselves: where others' digests are found, by type, and, as empty, ours that are out."""
    entries = [(one.entry, bool(one.refused)) for one in registry().plugins if one.entry.kind == _GROUP]
    return {entry.name: "" if is_out else entry.value for entry, is_out in entries if entry.is_ours == is_out}


def note_digest_failures(failures: Iterable[DigestFailure]) -> None:
    """Count what a kernel says of plugins. It is said in a sandbox, where code may say anything: ours never go by it."""
    there = registry()
    for failure in failures:
        plugin = there.find(_GROUP, failure.name)
        if plugin is not None and not plugin.entry.is_ours:
            there.report(plugin, failure.reason[:_MOST_REASON], hangs=failure.hangs)
