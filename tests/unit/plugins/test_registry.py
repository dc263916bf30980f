"""Which plugins are in: by name, by who came first, by how they fail; and calls that harm nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cellwright.errors import NotebookFormatError
from cellwright.plugins._entry_points import OURS, PluginEntry
from cellwright.plugins._guard import PluginFailed, guarded
from cellwright.plugins.choices import allow, forbid, read_choices, remember_failure
from cellwright.plugins.ports import KINDS
from cellwright.plugins.registry import MOST_FAILURES, Registry, installed_ids, registry
from cellwright.settings import Settings


def entry(kind: str, name: str, value: str) -> PluginEntry:
    return PluginEntry(kind, name, value, OURS, "1")


HERE = "tests.unit.plugins.test_registry"


def fix(_: object) -> None:
    return None


def test_ours_are_registered_by_entry_points_and_loaded_when_they_are_asked_for() -> None:
    here = registry()
    assert {"slurm", "jupyter"} <= set(here.names("hosts"))
    assert {"ipynb", "pdf", "src.md"} <= set(here.names("formats"))
    fresh = Registry()
    assert all(plugin.loaded is None for plugin in fresh.plugins)
    fresh.get("hosts", "slurm")
    assert [one.entry.id for one in fresh.plugins if one.loaded is not None] == ["hosts:slurm"]


def test_of_two_with_one_name_the_first_wins() -> None:
    two = Registry(entries=(entry("fixers", "a", f"{HERE}:fix"), entry("fixers", "a", f"{HERE}:HERE")))
    assert two.get("fixers", "a") is fix
    assert [plugin.refused for plugin in two.plugins] == ["", "cellwright has fixers:a already"]


def test_what_is_disabled_is_left_out_until_it_is_enabled(tmp_path: Path) -> None:
    entries = (entry("fixers", "a", f"{HERE}:fix"), entry("formats", "a", f"{HERE}:fix"))
    forbid(tmp_path, "fixers:a")
    assert Registry(tmp_path, entries=entries).names("fixers") == ()
    assert Registry(tmp_path, entries=entries).names("formats") == ("a",)
    forbid(tmp_path, OURS)
    assert Registry(tmp_path, entries=entries).names("formats") == ()
    covers = {OURS: ("fixers:a", "formats:a"), "fixers:a": ("fixers:a",), "formats:a": ("formats:a",)}
    allow(tmp_path, "formats:a", ("formats:a",), covers.__getitem__)
    alone = Registry(tmp_path, entries=entries)
    assert (alone.names("formats"), alone.names("fixers")) == (("a",), ())
    allow(tmp_path, OURS, covers[OURS], covers.__getitem__)
    assert Registry(tmp_path, entries=entries).names("fixers") == ("a",)


def test_what_fails_too_often_in_a_row_stays_out_over_restarts(tmp_path: Path) -> None:
    entries = (entry("fixers", "a", f"{HERE}:fix"),)
    here = Registry(tmp_path, entries=entries)
    for _ in range(MOST_FAILURES - 1):
        here.report(here.plugins[0], "raised X")
    here.report(here.plugins[0], None)
    assert here.names("fixers") == ("a",)
    assert read_choices(tmp_path).failures == {}
    for _ in range(MOST_FAILURES):
        here.report(here.plugins[0], "raised X")
    assert here.names("fixers") == Registry(tmp_path, entries=entries).names("fixers") == ()
    remember_failure(tmp_path, "fixers:a", MOST_FAILURES, "raised X", "another version")
    assert Registry(tmp_path, entries=entries).names("fixers") == ("a",)


def test_a_call_that_hangs_is_left_behind_and_one_that_lies_is_named() -> None:
    told: list[str | None] = []
    released = threading.Event()

    def call(function: object, *gives: type) -> object:
        return guarded(
            function,  # type: ignore[arg-type]  # also what is none
            name="formats:x",
            limit_s=0.05 if function == released.wait else 60,
            gives=gives or (object,),
            report=told.append,
            gave_up=told.append,
        )()

    with pytest.raises(PluginFailed, match="The plugin formats:x did not end within"):
        call(released.wait)
    released.set()
    with pytest.raises(PluginFailed, match="returned str, and not int"):
        call(str, int)
    with pytest.raises(PluginFailed, match="raised ZeroDivisionError"):
        call(lambda: 1 / 0)
    assert call(int, int) == 0
    assert [one is None for one in told] == [False, False, False, True]


def test_an_error_of_ours_that_a_plugin_raises_on_purpose_reaches_the_caller() -> None:
    def refuse() -> None:
        raise NotebookFormatError("no cells")

    with pytest.raises(NotebookFormatError, match="no cells"):
        guarded(refuse, name="x", limit_s=60, gives=(object,), report=print, gave_up=print)()


def test_the_ids_that_a_name_covers() -> None:
    assert "hosts:slurm" in installed_ids(OURS)
    assert installed_ids("hosts:slurm") == ("hosts:slurm",)
    assert installed_ids("nobody") == ()


def test_every_kind_has_plugins_of_ours_but_tools_and_rules() -> None:
    assert {plugin.entry.kind for plugin in registry().plugins} == KINDS.keys() - {"approval_rules", "tools"}
    assert Settings().trusted_plugins == ()
