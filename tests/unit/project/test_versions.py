"""One version everywhere, and manifests that say only what is so."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pytest

import cellwright
from cellwright.mcp.toolsets import TOOLSETS
from scripts.bill_of_materials import read_lock
from scripts.versions import PLACES, ROOT, NotReleasable, agreed_version, section, set_version, versions

TODAY = date(2027, 1, 2)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of every file that holds the version."""
    for file in (*PLACES, "CHANGELOG.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_every_manifest_has_the_version_of_the_package() -> None:
    assert agreed_version() == cellwright.__version__
    section((ROOT / "CHANGELOG.md").read_text(), cellwright.__version__)
    recorded = (ROOT / "src/cellwright/daemon/greetings.json").read_text()
    assert f'"package": "{cellwright.__version__}"' in recorded


def test_a_new_version_reaches_every_file_and_takes_the_unreleased_entries(repository: Path) -> None:
    changelog = repository / "CHANGELOG.md"
    text = changelog.read_text()
    changelog.write_text(text.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n- A thing.\n", 1))
    set_version("7.8.9", TODAY, repository)
    assert {version for _, version in versions(repository)} == {"7.8.9"}
    day, notes = section(changelog.read_text(), "7.8.9")
    assert day == TODAY
    assert "- A thing." in notes
    assert "## [" not in notes
    assert "## [Unreleased]\n\n## [7.8.9] - 2027-01-02\n" in changelog.read_text()
    with pytest.raises(NotReleasable, match=r"nothing under \[Unreleased\]"):
        set_version("8.0.0", TODAY, repository)
    with pytest.raises(NotReleasable, match="no version"):
        set_version("next", TODAY, repository)


def test_a_file_that_was_left_behind_is_named(repository: Path) -> None:
    manifest = repository / "plugin/gemini-extension.json"
    manifest.write_text(manifest.read_text().replace(cellwright.__version__, "0.0.1"))
    with pytest.raises(NotReleasable, match=r"plugin/gemini-extension\.json has 0\.0\.1"):
        agreed_version(repository)


def test_the_skill_names_tools_that_there_are() -> None:
    text = (ROOT / "plugin/skills/cellwright/SKILL.md").read_text()
    table, habits = text.split("## Twelve good habits")
    known = {tool.name for tools in TOOLSETS.values() for tool in tools}
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", table)) | set(re.findall(r"`([a-z]+_[a-z_]+)`", habits))
    assert named - {"session_id"} <= known
    assert len(re.findall(r"^\d+\. ", habits, re.MULTILINE)) == 12


def test_the_registry_entry_keeps_to_the_registrys_rules() -> None:
    server = json.loads((ROOT / "server.json").read_text())
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert 0 < len(server["description"]) <= 100
    # By this line the registry knows that package and entry are of the same people.
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text()


def test_the_base_install_stays_small() -> None:
    text = (ROOT / "requirements" / "base.txt").read_text()
    elsewhere = re.compile(r"win32|darwin|Windows|Darwin|PyPy|emscripten")
    needed = [package.name for package in read_lock(text) if not elsewhere.search(package.marker or "")]
    assert len(needed) <= 69, f"{len(needed)} distributions: {needed}"
