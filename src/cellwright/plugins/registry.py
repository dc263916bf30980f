"""Which plugins there are in this process: found once, loaded when they are first asked for, and refused with a reason.

Ours and others' come the same way, by entry points. Others' are let in by the composition root alone (``let_in``), after
each was examined in a process of its own; ours win where two have one name. What hangs at work is taken out, and so
is what failed ``MOST_FAILURES`` times in a row.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from cellwright.errors import CellwrightError
from cellwright.plugins import _guard
from cellwright.plugins._entry_points import PluginEntry, find_entries
from cellwright.plugins._findings import Finding, examine, forget_finding
from cellwright.plugins.choices import Choices, read_choices, remember_failure
from cellwright.plugins.ports import ToolFinding

__all__ = [
    "MOST_FAILURES",
    "Plugin",
    "PluginsMissing",
    "Registry",
    "examine_again",
    "installed_ids",
    "let_in",
    "measured",
    "registry",
    "when_replaced",
]

MOST_FAILURES = 3
_CALL_S = 20.0

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Plugin:
    """One entry point, and what is known of it."""

    entry: PluginEntry
    refused: str = ""
    """Why it is left out; empty where it is in."""
    missed: bool = False
    """Whether it is left out for a fault of its own, and not because somebody would have it so."""
    finding: Finding = field(default_factory=Finding)
    trusted: bool = False
    """Whether the operator lets its tools run outside of the sandbox."""
    loaded: Any = None
    import_ms: float | None = None
    """How long its import took in this process; None before."""
    failures: int = 0

    @property
    def tools(self) -> tuple[ToolFinding, ...]:
        return self.finding.tools


class Registry:
    """The plugins of this process. May be asked from any thread."""

    def __init__(
        self,
        storage: Path | None = None,
        *,
        trusted: Collection[str] = (),
        entries: tuple[PluginEntry, ...] | None = None,
    ) -> None:
        """Without a ``storage`` directory ours alone are in, whatever else is installed."""
        self._storage = storage
        self._lock = RLock()
        self.plugins = _judged(find_entries() if entries is None else entries, storage, trusted)

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of a kind's plugins; loads none."""
        return tuple(plugin.entry.name for plugin in self._of(kind))

    def has(self, kind: str, name: str) -> bool:
        return name in self.names(kind)

    def get(self, kind: str, name: str) -> Any:
        """What a plugin's entry point names; None where there is no such plugin, or it turned out to be bad."""
        plugin = self.find(kind, name)
        return self._load(plugin) if plugin is not None else None

    def every(self, kind: str) -> tuple[tuple[Plugin, Any], ...]:
        """All plugins of a kind with what they are, ours first."""
        loaded = ((plugin, self._load(plugin)) for plugin in self._of(kind))
        return tuple((plugin, made) for plugin, made in loaded if made is not None)

    def find(self, kind: str, name: str) -> Plugin | None:
        """A plugin by its name, not loaded."""
        return next((plugin for plugin in self._of(kind) if plugin.entry.name == name), None)

    def missed(self, kind: str) -> tuple[Plugin, ...]:
        """The plugins of a kind that somebody installed and that are out for their faults, until they are disabled."""
        return tuple(one for one in self.plugins if one.entry.kind == kind and one.refused and one.missed)

    def guarded(
        self, plugin: Plugin, function: Callable[..., _T], *gives: type, limit_s: float = _CALL_S
    ) -> Callable[..., _T]:
        """A function of a plugin's that harms nobody: bounded in time, its failures named. Ours as it is."""
        if plugin.entry.is_ours:
            return function
        return _guard.guarded(
            function,
            name=plugin.entry.id,
            limit_s=limit_s,
            gives=gives or (object,),
            report=partial(self.report, plugin),
            gave_up=partial(self.report, plugin, hangs=True),
        )

    def report(self, plugin: Plugin, failure: str | None, *, hangs: bool = False) -> None:
        """Take note of how a call of a plugin went; it is out once it hangs, or failed too often in a row."""
        with self._lock:
            if failure is None and not plugin.failures:
                return
            plugin.failures = MOST_FAILURES if hangs else plugin.failures + 1 if failure is not None else 0
            if plugin.failures >= MOST_FAILURES:
                plugin.refused, plugin.missed = _taken_out(failure or ""), True
            if failure is not None:
                _log.warning("plugin_failed plugin=%s %s", plugin.entry.id, failure)
            if self._storage is not None:
                remember_failure(
                    self._storage, plugin.entry.id, plugin.failures, failure or "", plugin.entry.version
                )

    def _of(self, kind: str) -> Iterator[Plugin]:
        return (plugin for plugin in self.plugins if plugin.entry.kind == kind and not plugin.refused)

    def _load(self, plugin: Plugin) -> Any:
        with self._lock:
            if plugin.loaded is None and not plugin.refused:
                started = time.perf_counter()
                try:
                    plugin.loaded = _imported(plugin.entry)
                except Exception as error:  # boundary: a bad plugin harms nobody else
                    if plugin.entry.is_ours:
                        raise
                    plugin.refused = f"Its import raised {type(error).__name__}: {error}"[:300]
                    plugin.missed = True
                    _log.warning("plugin_refused plugin=%s %s", plugin.entry.id, plugin.refused)
                plugin.import_ms = (time.perf_counter() - started) * 1_000
            return None if plugin.refused else plugin.loaded


def _imported(entry: PluginEntry) -> Any:
    module, _, attribute = entry.value.partition(":")
    made: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        made = getattr(made, part)
    return made


def _judged(
    entries: tuple[PluginEntry, ...], storage: Path | None, trusted: Collection[str]
) -> tuple[Plugin, ...]:
    choices = read_choices(storage) if storage is not None else Choices()
    plugins = [Plugin(entry, trusted=_is_named(entry, trusted)) for entry in entries]
    taken: dict[str, PluginEntry] = {}
    for plugin in plugins:
        entry = plugin.entry
        first = taken.setdefault(entry.id, entry)
        failed = choices.failures.get(entry.id)
        if _is_named(entry, choices.disabled):
            plugin.refused = "It is disabled: `cellwright plugins enable` lets it in again"
        elif first is not entry:
            plugin.refused, plugin.missed = f"{first.distribution} has {entry.id} already", True
        elif storage is None and not entry.is_ours:
            plugin.refused = "This process uses Cellwright's own plugins alone"
        elif failed is not None and failed.version == entry.version:
            plugin.failures = failed.count
            if failed.count >= MOST_FAILURES:
                plugin.refused, plugin.missed = _taken_out(failed.reason), True
    findings = examine([one.entry for one in plugins if not one.refused and not one.entry.is_ours])
    for plugin in plugins:
        if not plugin.refused and (finding := findings.get(plugin.entry.id)) is not None:
            plugin.finding, plugin.refused, plugin.missed = finding, finding.reason, bool(finding.reason)
    return tuple(plugins)


def _is_named(entry: PluginEntry, names: Collection[str]) -> bool:
    return entry.distribution in names or entry.id in names


def _taken_out(reason: str) -> str:
    return f"It was taken out for how it failed: it {reason}"


class _Process:
    """What this process uses."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.registry: Registry | None = None
        self.listeners: set[Callable[[], None]] = set()


_process = _Process()


def registry() -> Registry:
    """The plugins of this process, found at the first call.

    Raises:
        PluginsMissing: our own are not registered.
    """
    with _process.lock:
        if _process.registry is None:
            _process.registry = _complete(Registry())
        return _process.registry


def let_in(storage: Path, *, trusted: Collection[str] = ()) -> Registry:
    """Use the plugins of other distributions too, as far as the storage directory's choices let them in.

    Examines those that are new, each at most ``EXAMINATION_S``: not for an event loop.
    """
    with _process.lock:
        _process.registry = _complete(Registry(storage, trusted=trusted))
        for listener in _process.listeners:
            listener()
        return _process.registry


def when_replaced(forget: Callable[[], None]) -> None:
    """Have whoever keeps something of the registry told that another is used."""
    _process.listeners.add(forget)


def installed_ids(name: str) -> tuple[str, ...]:
    """The ids of the installed plugins that a name covers: a distribution's, or one plugin's own."""
    return tuple(entry.id for entry in find_entries() if _is_named(entry, (name,)))


def examine_again(name: str) -> None:
    """Have the plugins that a name covers examined anew, whatever was found before."""
    for entry in find_entries():
        if _is_named(entry, (name,)):
            forget_finding(entry)


def measured(plugin: Plugin) -> float:
    """How many milliseconds a plugin's import takes in a process of its own."""
    return examine([plugin.entry])[plugin.entry.id].import_ms


class PluginsMissing(CellwrightError):
    """Cellwright's own plugins are not registered where it is installed."""

    code = "plugins_missing"


def _complete(found: Registry) -> Registry:
    if not any(plugin.entry.is_ours for plugin in found.plugins):
        raise PluginsMissing(
            "The installation of Cellwright has none of its own plugins",
            hint="Install it again: in a checkout `make`, else `pip install --force-reinstall --no-deps cellwright`",
        )
    return found
