"""What is decided without asking anybody: by a rule of the settings, or by what a person said earlier."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.engine._approval_store import ApprovalStore, Remembered
from cellwright.engine.approval_rules import Verdict, _verdicts
from cellwright.engine.approvals import Matter, judged
from cellwright.errors import CellwrightError
from cellwright.plugins._entry_points import OURS, PluginEntry
from cellwright.plugins.registry import MOST_FAILURES, Registry
from cellwright.settings import SettingsRefused, load_settings
from cellwright.settings.model import Rule

INSTALL = Matter("packages", "install pandas", "s-1", "/projects/sales")
NOTHING = Remembered()
ALWAYS = Remembered(always=("packages",))
HERE = Remembered(projects={"/projects/sales": ("packages",)})
ELSEWHERE = Remembered(always=("delete",), projects={"/projects/other": ("packages",)})


@pytest.mark.parametrize(
    ("rule", "session", "remembered", "decided"),
    [
        ("allow", (), NOTHING, (True, None)),
        ("refuse", (), NOTHING, (False, None)),
        # What a person allowed while they were asked holds only as long as they are asked.
        ("refuse", ("packages",), ALWAYS, (False, None)),
        ("ask", (), NOTHING, None),
        ("ask", ("apply",), ELSEWHERE, None),
        ("ask", ("packages",), NOTHING, (True, "session")),
        ("ask", (), HERE, (True, "project")),
        ("ask", (), ALWAYS, (True, "always")),
    ],
)
def test_a_rule_decides_before_what_was_said_and_that_only_of_its_own_action_and_place(
    rule: Rule, session: tuple[str, ...], remembered: Remembered, decided: tuple[bool, str | None] | None
) -> None:
    found = judged(rule, INSTALL, session, remembered)
    assert (None if found is None else (found.allowed, found.scope)) == decided


HERE = "tests.unit.engine.test_approvals"


def keep(matter: Matter) -> Verdict | None:
    return Verdict("refuse", "it is kept") if matter.action == "delete" else None


def fail(_: Matter) -> Verdict:
    raise OSError("no list")


def rules(*names: str) -> Registry:
    return Registry(
        entries=tuple(PluginEntry("approval_rules", name, f"{HERE}:{name}", OURS, "1") for name in names)
    )


def test_a_plugins_rule_that_fails_or_is_out_for_it_has_a_person_asked() -> None:
    delete = Matter("delete", "delete sales")
    assert _verdicts(rules("keep"), INSTALL) == []
    assert _verdicts(rules("keep"), delete) == [Verdict("refuse", "it is kept")]
    there = rules("fail", "keep")
    assert _verdicts(there, delete) == [
        Verdict("ask", "the approval rule fail failed"),
        Verdict("refuse", "it is kept"),
    ]
    for _ in range(MOST_FAILURES):
        there.report(there.plugins[0], "raised OSError: no list")
    assert _verdicts(there, INSTALL) == [Verdict("ask", "the approval rule fail is out")]


def test_only_scopes_that_there_are_can_be_answered() -> None:
    assert INSTALL.scopes == ("once", "session", "project", "always")
    assert Matter("delete", "delete a file", once=True).scopes == ("once", "always")
    assert judged("ask", Matter("packages", "install", once=True), ("packages",), NOTHING) is None


def test_what_is_always_allowed_is_kept_and_taken_back_by_action_and_project(tmp_path: Path) -> None:
    store = ApprovalStore(tmp_path)
    store.remember("packages", None)
    store.remember("packages", "/projects/sales")
    store.remember("apply", "/projects/sales")
    assert store.read() == Remembered(("packages",), {"/projects/sales": ("packages", "apply")})
    assert store.forget("packages", "/projects/sales") == 1
    assert store.forget("packages", None) == 1
    assert store.forget(None, None) == 1
    assert store.read() == Remembered()
    (tmp_path / "approvals.json").write_text("[]")
    with pytest.raises(CellwrightError, match="cannot be read"):
        store.read()


def test_a_wrong_rule_is_refused_by_name_and_a_project_cannot_say_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings = tmp_path / "config" / "cellwright" / "cellwright.toml"
    settings.parent.mkdir(parents=True)
    for wrong, told in (
        ('packages = "never"', r"approvals\.packages: .*'allow', 'ask' or 'refuse'"),
        ('package = "ask"', r"approvals\.package: there is no such setting\. did you mean packages"),
    ):
        settings.write_text(f"[approvals]\n{wrong}\n")
        with pytest.raises(SettingsRefused, match=told):
            load_settings(tmp_path)
    settings.write_text('[approvals]\npackages = "ask"\n')
    project = tmp_path / "project"
    project.mkdir()
    (project / "cellwright.toml").write_text('[approvals]\npackages = "allow"\n')
    assert load_settings(project).approvals.packages == "ask"
